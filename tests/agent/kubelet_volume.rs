//! A hook that has a downward-API volume and no board, against the kubelet's exact way of writing it.

use crate::support::{Scene, Shell, Volume, annotations_text, snapshot, wait_until};
use podgate::core::sources::{PodView, Source, choose_source};
use podgate::core::state::State;
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::source;
use podgate::edge::watch::{SLOW_REREAD, WakeReason, Watch, WatchMethod};
use rustix::process::Signal;
use std::fs;
use std::time::{Duration, Instant};

/// What the kubelet writes beside our annotations.
fn file(state: State, revision: u64) -> String {
    let mut snapshot = snapshot(&[("db", state)]);
    snapshot.revision = revision;
    let seen = "kubernetes.io/config.seen=\"2026-11-21T14:02:10.123456789Z\"\nkubernetes.io/config.source=\"api\"";
    format!("{seen}\n{}", annotations_text(&snapshot))
}

fn without_board() -> (Scene, Volume) {
    let scene = Scene::new();
    fs::remove_dir(&scene.board).unwrap();
    let mut volume = Volume::new(&scene.podinfo);
    assert!(volume.write(&file(State::Started, 1)));
    (scene, volume)
}

#[test]
fn a_swap_of_the_volume_releases_a_waiting_hook() {
    let (scene, mut volume) = without_board();
    let hook = scene.hook().spawn_waiting();
    wait_until("it is armed", || scene.rungs() == ["inotify"]);
    assert!(scene.termination_message().contains("no board, and the kubelet does not update the downward-API volume"));
    assert!(!volume.write(&file(State::Started, 1)), "the kubelet replaces nothing where nothing has changed");
    volume.write(&file(State::NotReady, 2));
    wait_until("it is read", || scene.termination_message().contains("now NotReady"));
    volume.write(&file(State::Ready, 3));
    hook.wait().assert_released();
}

#[test]
fn each_swap_wakes_at_once() {
    let (scene, mut volume) = without_board();
    let here = sandbox_id();
    let mut watch = Watch::new(scene.board.clone(), Some(scene.podinfo.clone()), SLOW_REREAD);
    for revision in 2..200 {
        let view = watch
            .read(|| choose_source(&here, source::read_board(&scene.board), || source::read_volume(&scene.podinfo)));
        let PodView::Snapshot(snapshot, Source::Volume) = view else { panic!("{view:?}") };
        assert_eq!((snapshot.revision, watch.method()), (revision - 1, WatchMethod::Inotify));
        volume.write(&file(State::Started, revision));
        assert_eq!(watch.wait(SLOW_REREAD, Vec::new()).unwrap(), WakeReason::Source, "revision {revision}");
    }
}

#[test]
fn in_a_burst_of_swaps_nothing_torn_is_read_and_the_last_is_seen() {
    let (scene, mut volume) = without_board();
    let hook = scene.hook().spawn_waiting();
    let podinfo = scene.podinfo.clone();
    let writer = std::thread::spawn(move || {
        for revision in 2..2000 {
            volume.write(&file(State::Started, revision));
        }
        volume.write(&file(State::Ready, 2000));
    });
    let (mut last, mut read) = (0, 0);
    while last < 2000 {
        // The file can be between two folders at one look, but never half a file, and never an older one.
        match source::read_volume(&podinfo) {
            Ok(snapshot) => {
                assert!(snapshot.revision >= last, "went back from {last} to {}", snapshot.revision);
                (last, read) = (snapshot.revision, read + 1);
            }
            Err(no_word) => assert_eq!(no_word, podgate::core::snapshot::Unreadable::Missing),
        }
    }
    writer.join().unwrap();
    assert!(read > 10);
    let run = hook.wait();
    run.assert_released();
}

#[test]
fn a_queue_that_overflows_loses_nothing() {
    let (scene, mut volume) = without_board();
    let hook = scene.hook().spawn_waiting();
    hook.signal(Signal::STOP);
    // More than the 16,384 events that the kernel keeps; alternating names, since it merges what repeats.
    let at = |name: &str| scene.podinfo.join(name);
    fs::write(at("a"), "").unwrap();
    for _ in 0..10_000 {
        fs::rename(at("a"), at("b")).unwrap();
        fs::rename(at("b"), at("a")).unwrap();
    }
    volume.write(&file(State::Ready, 2));
    hook.signal(Signal::CONT);
    hook.wait().assert_released();
}

#[test]
fn a_volume_that_is_removed_and_put_back_is_taken_up_again() {
    let (scene, mut volume) = without_board();
    let hook = scene.hook().spawn_waiting();
    let aside = scene.root.join("aside");
    for round in 0..3 {
        if round == 1 {
            fs::remove_dir_all(&scene.podinfo).unwrap()
        } else {
            fs::rename(&scene.podinfo, &aside).unwrap()
        }
        wait_until("the loss is noticed", || {
            scene.termination_message().contains("the downward-API volume is missing")
        });
        fs::create_dir(&scene.podinfo).unwrap();
        volume.write(&file(State::Started, round + 2));
        wait_until("it is read again", || scene.termination_message().contains("now Started"));
        let _ = fs::remove_dir_all(&aside);
    }
    volume.write(&file(State::Ready, 9));
    hook.wait().assert_released();
}

#[test]
fn a_volume_that_is_unmounted_and_mounted_again_is_taken_up_again() {
    let (scene, _) = without_board();
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--mount"]) else { return };
    let (podinfo, ready) = (scene.podinfo.display().to_string(), scene.root.join("ready"));
    fs::write(&ready, file(State::Ready, 2)).unwrap();
    if shell.run(&format!("mount -t tmpfs tmpfs {podinfo}")) != 0 {
        eprintln!("skipped: no mounts in a user namespace here");
        return;
    }
    fs::write(scene.root.join("started"), file(State::Started, 2)).unwrap();
    assert_eq!(shell.run(&format!("cp {}/started {podinfo}/annotations", scene.root.display())), 0);
    let errors = scene.root.join("errors");
    shell.start_agent(&scene.hook(), &errors);
    wait_until("it waits", || scene.termination_message().contains("now Started"));
    assert_eq!(shell.run(&format!("umount -l {podinfo} && mount -t tmpfs tmpfs {podinfo}")), 0);
    wait_until("the loss is noticed", || scene.termination_message().contains("the downward-API volume is missing"));
    assert_eq!(shell.run(&format!("cp {} {podinfo}/x && mv {podinfo}/x {podinfo}/annotations", ready.display())), 0);
    assert_eq!(shell.wait_for_agent(), 0, "{}", fs::read_to_string(errors).unwrap());
}

#[test]
fn the_boards_word_outweighs_the_volumes() {
    let mut scene = Scene::with_controller();
    let mut volume = Volume::new(&scene.podinfo);
    volume.write(&file(State::Ready, 999));
    let mut hook = scene.hook().spawn_waiting();
    assert_eq!(scene.rungs(), ["bell"]);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(50) {
        assert!(hook.is_running());
    }
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}
