//! Tests of the three wait methods: each method alone, and changes between the methods during a wait.

use crate::support::{Scene, Shell, snapshot, temp_directory, wait_until, write_annotations};
use podgate::core::names;
use podgate::core::snapshot::Snapshot;
use podgate::core::sources::{PodView, choose_view};
use podgate::core::state::State;
use podgate::edge::bell::Ringer;
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::source;
use podgate::edge::watch::{REREAD_INTERVAL_MIN, WakeReason, Watch};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn hook_waits_by_the_bell() {
    let mut scene = Scene::with_sidecar();
    let hook = scene.hook().spawn_waiting();
    scene.set_state("api", State::Ready);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
    assert_eq!(scene.wait_methods(), ["bell"]);
}

#[test]
fn hook_waits_by_inotify_without_a_bell() {
    let mut scene = Scene::with_sidecar();
    scene.kill_sidecar();
    let hook = scene.hook().spawn_waiting();
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
    assert_eq!(scene.wait_methods(), ["inotify"]);
}

#[test]
fn hook_uses_inotify_while_the_sidecar_is_dead() {
    let mut scene = Scene::with_sidecar();
    let hook = scene.hook().spawn_waiting();
    for round in 1..=3 {
        scene.kill_sidecar();
        wait_until("the hook falls back to inotify", || scene.wait_methods().len() == 2 * round);
        scene.start_sidecar();
        wait_until("the hook returns to the bell", || scene.wait_methods().len() == 2 * round + 1);
    }
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
    let expected: Vec<&str> = (0..7).map(|n| if n % 2 == 0 { "bell" } else { "inotify" }).collect();
    assert_eq!(scene.wait_methods(), expected);
}

/// Returns a shell in a user namespace whose limit of inotify instances is 0. `set_inotify_limit` changes the limit.
pub(crate) fn shell_with_inotify_limit() -> Option<Shell> {
    let mut shell = Shell::in_namespaces(&["--user", "--map-root-user"])?;
    assert!(set_inotify_limit(&mut shell, 0));
    Some(shell)
}

fn set_inotify_limit(shell: &mut Shell, instances: u32) -> bool {
    shell.run(&format!("echo {instances} 2>/dev/null >/proc/sys/user/max_inotify_instances")) == 0
}

#[test]
fn hook_polls_without_a_bell_and_inotify() {
    let Some(mut shell) = shell_with_inotify_limit() else { return };
    let mut scene = Scene::with_sidecar();
    scene.log = shell.log.clone();
    scene.kill_sidecar();
    let errors = scene.root.join("errors");
    shell.start_agent(&scene.hook(), &errors);
    wait_until("the hook waits", || scene.termination_message().contains(": waiting for"));
    scene.set_state("db", State::Ready);
    assert_eq!(shell.wait_for_agent(), 0, "{}", fs::read_to_string(errors).unwrap());
    assert_eq!(scene.wait_methods(), ["polling"]);
}

#[test]
fn hook_polls_while_no_inotify_instance_is_free() {
    let Some(mut shell) = shell_with_inotify_limit() else { return };
    let mut scene = Scene::with_sidecar();
    scene.log = shell.log.clone();
    let errors = scene.root.join("errors");
    shell.start_agent(&scene.hook(), &errors);
    wait_until("the hook waits by the bell", || scene.wait_methods() == ["bell"]);
    scene.kill_sidecar();
    wait_until("the hook falls back to polling", || scene.wait_methods() == ["bell", "polling"]);
    scene.set_state("db", State::NotReady);
    wait_until("the hook reads a change", || scene.termination_message().contains("now NotReady"));
    assert!(set_inotify_limit(&mut shell, 128));
    wait_until("the hook changes to inotify", || scene.wait_methods() == ["bell", "polling", "inotify"]);
    scene.start_sidecar();
    wait_until("the hook returns to the bell", || scene.wait_methods() == ["bell", "polling", "inotify", "bell"]);
    assert!(set_inotify_limit(&mut shell, 0));
    scene.kill_sidecar();
    wait_until("the hook falls back to polling again", || {
        scene.wait_methods().last().is_some_and(|method| method == "polling")
    });
    scene.set_state("db", State::Ready);
    assert_eq!(shell.wait_for_agent(), 0, "{}", fs::read_to_string(errors).unwrap());
}

#[test]
fn inotify_is_closed_when_the_bell_is_back() {
    let mut scene = Scene::with_sidecar();
    scene.kill_sidecar();
    let hook = scene.hook().spawn_waiting();
    let inotify_count = || {
        let directory = format!("/proc/{}/fd", hook.id());
        let links = fs::read_dir(directory).unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter(|link| link.to_string_lossy().contains("inotify")).count()
    };
    assert_eq!(inotify_count(), 1);
    scene.start_sidecar();
    wait_until("the hook closes inotify", || inotify_count() == 0);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

/// Runs twenty waiters and one publisher that does not wait for the waiters. A publication is lost if a waiter sleeps
/// until the slow re-read although the board has changed.
#[test]
fn waiters_miss_no_publication() {
    for by_bell in [true, false] {
        let directory = temp_directory();
        let board = directory.path();
        let mut published = snapshot(&[("db", State::Started)]);
        write_annotations(board, &published);
        let mut ringer = Ringer::new(board, names::BELL_FILE);
        if by_bell {
            ringer.ring().unwrap();
        }
        let (stop, seen, lost) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| read_until_stopped(board, &stop, &seen, &lost));
            }
            for revision in 1..=2000 {
                published.revision = revision;
                write_annotations(board, &published);
                if by_bell {
                    ringer.ring().unwrap();
                }
            }
            wait_until("all waiters have read the last revision", || seen.load(Ordering::Relaxed) == 20 * 2000);
            stop.store(true, Ordering::Relaxed);
            if by_bell { ringer.ring().unwrap() } else { write_annotations(board, &published) }
        });
        assert_eq!(lost.into_inner(), 0, "by bell: {by_bell}");
    }
}

/// Runs one waiter until `stop` is set. Adds each increase of the revision to `seen`. Counts in `lost` the publications
/// that the waiter found only at the slow re-read.
fn read_until_stopped(board: &Path, stop: &AtomicBool, seen: &AtomicU64, lost: &AtomicU64) {
    let here = sandbox_id();
    let mut watch = Watch::new(board.to_owned(), None);
    let (mut last, mut wake_reason) = (0, WakeReason::Source);
    while !stop.load(Ordering::Relaxed) {
        let view = watch.read(|| choose_view(&here, source::read_board(board), || None));
        let PodView::Snapshot(Snapshot { revision, .. }, _) = view else { panic!("{view:?}") };
        if wake_reason == WakeReason::NoEvent && revision > last {
            lost.fetch_add(1, Ordering::Relaxed);
        }
        seen.fetch_add(revision - last, Ordering::Relaxed);
        last = revision;
        wake_reason = watch.wait(REREAD_INTERVAL_MIN, Vec::new()).unwrap();
    }
}
