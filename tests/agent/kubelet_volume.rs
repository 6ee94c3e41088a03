//! Tests of a hook with a downward-API volume, mostly without a board. The tests write the volume exactly like the
//! kubelet.

use crate::support::{Scene, Shell, Volume, annotations_text, snapshot, wait_until};
use podgate::core::sources::{PodView, Source, choose_view};
use podgate::core::state::{Stage, State};
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::source;
use podgate::edge::watch::{REREAD_INTERVAL_MIN, WakeReason, Watch, WatchMethod};
use rustix::process::Signal;
use std::fs;
use std::time::{Duration, Instant};

/// Returns the file's content: podgate's annotations and those that the kubelet adds.
fn annotations_file(state: State, revision: u64) -> String {
    let mut snapshot = snapshot(&[("db", state)]);
    snapshot.revision = revision;
    let from_kubelet =
        "kubernetes.io/config.seen=\"2026-11-21T14:02:10.123456789Z\"\nkubernetes.io/config.source=\"api\"";
    format!("{from_kubelet}\n{}", annotations_text(&snapshot))
}

fn without_board() -> (Scene, Volume) {
    let scene = Scene::new();
    fs::remove_dir(&scene.board).unwrap();
    let mut volume = Volume::new(&scene.podinfo);
    assert!(volume.write(&annotations_file(State::Started, 1)));
    (scene, volume)
}

#[test]
fn a_volume_update_releases_the_hook() {
    let (scene, mut volume) = without_board();
    let hook = scene.hook().spawn_waiting();
    wait_until("the hook watches the volume", || scene.wait_methods() == ["inotify"]);
    assert!(scene.termination_message().contains("no board, and the kubelet does not update the downward-API volume"));
    assert!(!volume.write(&annotations_file(State::Started, 1)), "the volume was replaced without a change");
    volume.write(&annotations_file(State::NotReady, 2));
    wait_until("the hook reads the update", || scene.termination_message().contains("now NotReady"));
    volume.write(&annotations_file(State::Ready, 3));
    hook.wait().assert_released();
}

#[test]
fn each_volume_update_wakes_the_watch() {
    let (scene, mut volume) = without_board();
    let here = sandbox_id();
    let mut watch = Watch::new(scene.board.clone(), Some(scene.podinfo.clone()));
    for revision in 2..200 {
        let view = watch.read(|| {
            choose_view(&here, source::read_board(&scene.board), || Some(source::read_volume(&scene.podinfo)))
        });
        let PodView::Snapshot(snapshot, Source::Volume) = view else { panic!("{view:?}") };
        assert_eq!((snapshot.revision, watch.method), (revision - 1, WatchMethod::Inotify));
        volume.write(&annotations_file(State::Started, revision));
        assert_eq!(watch.wait(REREAD_INTERVAL_MIN, Vec::new()).unwrap(), WakeReason::Source, "revision {revision}");
    }
}

#[test]
fn burst_of_updates_is_read_intact() {
    let (scene, mut volume) = without_board();
    let hook = scene.hook().spawn_waiting();
    let podinfo = scene.podinfo.clone();
    let writer = std::thread::spawn(move || {
        for revision in 2..2000 {
            volume.write(&annotations_file(State::Started, revision));
        }
        volume.write(&annotations_file(State::Ready, 2000));
    });
    let (mut last, mut reads) = (0, 0);
    while last < 2000 {
        // A read may find no file during an update, but never a partial or older file.
        match source::read_volume(&podinfo) {
            Ok(snapshot) => {
                assert!(snapshot.revision >= last, "went back from {last} to {}", snapshot.revision);
                (last, reads) = (snapshot.revision, reads + 1);
            }
            Err(error) => assert_eq!(error, podgate::core::snapshot::Unreadable::Missing),
        }
    }
    writer.join().unwrap();
    assert!(reads > 10);
    let run = hook.wait();
    run.assert_released();
}

#[test]
fn an_inotify_queue_overflow_loses_no_change() {
    let (scene, mut volume) = without_board();
    let hook = scene.hook().spawn_waiting();
    hook.signal(Signal::STOP);
    // Create more than the 16,384 events that the kernel queues. The names alternate, because the kernel merges
    // identical events.
    let at = |name: &str| scene.podinfo.join(name);
    fs::write(at("a"), "").unwrap();
    for _ in 0..10_000 {
        fs::rename(at("a"), at("b")).unwrap();
        fs::rename(at("b"), at("a")).unwrap();
    }
    volume.write(&annotations_file(State::Ready, 2));
    hook.signal(Signal::CONT);
    hook.wait().assert_released();
}

#[test]
fn a_volume_that_is_removed_and_recreated_is_read_again() {
    let (scene, mut volume) = without_board();
    let hook = scene.hook().spawn_waiting();
    let aside = scene.root.join("aside");
    for round in 0..3 {
        if round == 1 {
            fs::remove_dir_all(&scene.podinfo).unwrap()
        } else {
            fs::rename(&scene.podinfo, &aside).unwrap()
        }
        wait_until("the hook reports the missing volume", || {
            scene.termination_message().contains("the downward-API volume is missing")
        });
        fs::create_dir(&scene.podinfo).unwrap();
        volume.write(&annotations_file(State::Started, round + 2));
        wait_until("the hook reads the volume again", || scene.termination_message().contains("now Started"));
        let _ = fs::remove_dir_all(&aside);
    }
    volume.write(&annotations_file(State::Ready, 9));
    hook.wait().assert_released();
}

#[test]
fn a_volume_that_is_unmounted_and_remounted_is_read_again() {
    let (scene, _) = without_board();
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--mount"]) else { return };
    let (podinfo, ready) = (scene.podinfo.display().to_string(), scene.root.join("ready"));
    fs::write(&ready, annotations_file(State::Ready, 2)).unwrap();
    assert_eq!(shell.run(&format!("mount -t tmpfs tmpfs {podinfo}")), 0);
    fs::write(scene.root.join("started"), annotations_file(State::Started, 2)).unwrap();
    assert_eq!(shell.run(&format!("cp {}/started {podinfo}/annotations", scene.root.display())), 0);
    let errors = scene.root.join("errors");
    shell.start_agent(&scene.hook(), &errors);
    wait_until("the hook waits", || scene.termination_message().contains("now Started"));
    assert_eq!(shell.run(&format!("umount -l {podinfo} && mount -t tmpfs tmpfs {podinfo}")), 0);
    wait_until("the hook reports the missing volume", || {
        scene.termination_message().contains("the downward-API volume is missing")
    });
    assert_eq!(shell.run(&format!("cp {} {podinfo}/x && mv {podinfo}/x {podinfo}/annotations", ready.display())), 0);
    assert_eq!(shell.wait_for_agent(), 0, "{}", fs::read_to_string(errors).unwrap());
}

#[test]
fn the_board_takes_precedence_over_the_volume() {
    let mut scene = Scene::with_sidecar();
    let mut volume = Volume::new(&scene.podinfo);
    volume.write(&annotations_file(State::Ready, 999));
    let mut hook = scene.hook().spawn_waiting();
    assert_eq!(scene.wait_methods(), ["bell"]);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(50) {
        assert!(hook.is_running());
    }
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

/// A manifest can contain all annotations of a snapshot, but not the id of a sandbox that does not exist yet.
#[test]
fn states_from_a_manifest_release_nothing() {
    for id in ["0-0-0", "0-0-00000001", "0-1-0", "3f2a9c1e-0-0"] {
        for stage in Stage::ALL {
            let mut scene = Scene::new();
            scene.snapshot.sandbox = id.parse().unwrap();
            scene.snapshot.stage = stage;
            scene.snapshot.states.insert("db".to_owned(), State::Ready);
            Volume::new(&scene.podinfo).write(&annotations_text(&scene.snapshot));
            let run = scene.hook().flag("timeout", "20ms").run();
            run.assert_failed(75, "the downward-API volume belongs to another sandbox");
        }
    }
}
