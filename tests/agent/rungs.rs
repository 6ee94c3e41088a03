//! The three rungs of waiting, each by itself, each falling to the next while a wait is under way, and climbing back.

use crate::support::{Scene, Shell, snapshot, temp_folder, wait_until, write_annotations};
use podgate::core::names;
use podgate::core::snapshot::{Snapshot, Unreadable};
use podgate::core::sources::{PodView, choose_source};
use podgate::core::state::State;
use podgate::edge::bell::Ringer;
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::source;
use podgate::edge::watch::{SLOW_REREAD, WakeReason, Watch};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn the_bell_alone() {
    let mut scene = Scene::with_controller();
    let hook = scene.hook().spawn_waiting();
    scene.set_state("api", State::Ready);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
    assert_eq!(scene.rungs(), ["bell"]);
}

#[test]
fn inotify_alone() {
    let mut scene = Scene::with_controller();
    scene.kill_controller();
    let hook = scene.hook().spawn_waiting();
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
    assert_eq!(scene.rungs(), ["inotify"]);
}

#[test]
fn from_the_bell_to_inotify_and_back_as_the_controller_dies_and_returns() {
    let mut scene = Scene::with_controller();
    let hook = scene.hook().spawn_waiting();
    for round in 1..=3 {
        scene.kill_controller();
        wait_until("it falls to inotify", || scene.rungs().len() == 2 * round);
        scene.start_controller();
        wait_until("it climbs back", || scene.rungs().len() == 2 * round + 1);
    }
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
    let expected: Vec<&str> = (0..7).map(|n| if n % 2 == 0 { "bell" } else { "inotify" }).collect();
    assert_eq!(scene.rungs(), expected);
}

/// A shell in a user namespace, in which the number of inotify instances can be limited while a wait is under way.
pub(crate) fn shell_with_inotify_limit() -> Option<Shell> {
    let mut shell = Shell::in_namespaces(&["--user", "--map-root-user"])?;
    let is_limited = set_inotify_limit(&mut shell, 0);
    if !is_limited {
        eprintln!("skipped: the limit of inotify instances can't be set here");
    }
    is_limited.then_some(shell)
}

fn set_inotify_limit(shell: &mut Shell, instances: u32) -> bool {
    shell.run(&format!("echo {instances} 2>/dev/null >/proc/sys/user/max_inotify_instances")) == 0
}

#[test]
fn polling_alone() {
    let Some(mut shell) = shell_with_inotify_limit() else { return };
    let mut scene = Scene::with_controller();
    scene.kill_controller();
    let errors = scene.root.join("errors");
    shell.start_agent(&scene.hook().flag("poll-interval", "5ms"), &errors);
    wait_until("it waits", || scene.termination_message().contains(": waiting for"));
    scene.set_state("db", State::Ready);
    assert_eq!(shell.wait_for_agent(), 0, "{}", fs::read_to_string(errors).unwrap());
    assert_eq!(scene.rungs(), ["polling"]);
}

#[test]
fn from_inotify_to_polling_and_back_as_instances_run_out_and_come_back() {
    let Some(mut shell) = shell_with_inotify_limit() else { return };
    let mut scene = Scene::with_controller();
    let errors = scene.root.join("errors");
    shell.start_agent(&scene.hook().flag("poll-interval", "5ms"), &errors);
    wait_until("it waits by the bell", || scene.rungs() == ["bell"]);
    scene.kill_controller();
    wait_until("it falls to polling", || scene.rungs() == ["bell", "polling"]);
    scene.set_state("db", State::NotReady);
    wait_until("it still reads", || scene.termination_message().contains("now NotReady"));
    assert!(set_inotify_limit(&mut shell, 128));
    wait_until("it takes up inotify", || scene.rungs() == ["bell", "polling", "inotify"]);
    scene.start_controller();
    wait_until("it climbs back to the bell", || scene.rungs() == ["bell", "polling", "inotify", "bell"]);
    assert!(set_inotify_limit(&mut shell, 0));
    scene.kill_controller();
    wait_until("it falls all the way", || scene.rungs().last().is_some_and(|rung| rung == "polling"));
    scene.set_state("db", State::Ready);
    assert_eq!(shell.wait_for_agent(), 0, "{}", fs::read_to_string(errors).unwrap());
}

#[test]
fn back_on_the_bell_nothing_of_inotify_is_kept() {
    let mut scene = Scene::with_controller();
    scene.kill_controller();
    let hook = scene.hook().spawn_waiting();
    let descriptors = || {
        let folder = format!("/proc/{}/fd", hook.id());
        let links = fs::read_dir(folder).unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter(|link| link.to_string_lossy().contains("inotify")).count()
    };
    assert_eq!(descriptors(), 1);
    scene.start_controller();
    wait_until("it is let go", || descriptors() == 0);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

/// Twenty waiters and one publisher that never waits for them. A publication is lost if a waiter sleeps until the slow re-read
/// while the board shows something that it has not read.
#[test]
fn no_publication_is_lost() {
    for by_bell in [true, false] {
        let folder = temp_folder();
        let board = folder.path();
        let mut said = snapshot(&[("db", State::Started)]);
        write_annotations(board, &said);
        let mut ringer = Ringer::new(board, names::BELL_FILE);
        if by_bell {
            ringer.ring().unwrap();
        }
        let (over, seen, lost) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| wait_for_all(board, &over, &seen, &lost));
            }
            for revision in 1..=2000 {
                said.revision = revision;
                write_annotations(board, &said);
                if by_bell {
                    ringer.ring().unwrap();
                }
            }
            wait_until("all have read the last", || seen.load(Ordering::Relaxed) == 20 * 2000);
            over.store(true, Ordering::Relaxed);
            if by_bell { ringer.ring().unwrap() } else { write_annotations(board, &said) }
        });
        assert_eq!(lost.into_inner(), 0, "by bell: {by_bell}");
    }
}

/// One waiter: adds to `seen` by how much the revision has grown, and to `lost` when it has slept through a publication.
fn wait_for_all(board: &Path, over: &AtomicBool, seen: &AtomicU64, lost: &AtomicU64) {
    let here = sandbox_id();
    let mut watch = Watch::new(board.to_owned(), None, SLOW_REREAD);
    let (mut last, mut woken) = (0, WakeReason::Source);
    while !over.load(Ordering::Relaxed) {
        let view = watch.read(|| choose_source(&here, source::read_board(board), || Err(Unreadable::Missing)));
        let PodView::Snapshot(Snapshot { revision, .. }, _) = view else { panic!("{view:?}") };
        if woken == WakeReason::Timeout && revision > last {
            lost.fetch_add(1, Ordering::Relaxed);
        }
        seen.fetch_add(revision - last, Ordering::Relaxed);
        last = revision;
        woken = watch.wait(SLOW_REREAD, Vec::new()).unwrap();
    }
}
