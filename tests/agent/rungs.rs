//! The three rungs of waiting, each by itself, each falling to the next while a wait is under way, and climbing back.

use crate::support::{Scene, Shell, folder, put, snapshot, until};
use podgate::core::names;
use podgate::core::snapshot::{NoWord, Snapshot};
use podgate::core::sources::{View, choose};
use podgate::core::state::State;
use podgate::edge::bell::Ringer;
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::source;
use podgate::edge::watch::{SLOW_REREAD, Watch, Woken};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn the_bell_alone() {
    let mut scene = Scene::with_controller();
    let hook = scene.hook().waiting();
    scene.set("api", State::Ready);
    scene.set("db", State::Ready);
    hook.end().released();
    assert_eq!(scene.rungs(), ["bell"]);
}

#[test]
fn inotify_alone() {
    let mut scene = Scene::with_controller();
    scene.die();
    let hook = scene.hook().waiting();
    scene.set("db", State::Ready);
    hook.end().released();
    assert_eq!(scene.rungs(), ["inotify"]);
}

#[test]
fn from_the_bell_to_inotify_and_back_as_the_controller_dies_and_returns() {
    let mut scene = Scene::with_controller();
    let hook = scene.hook().waiting();
    for round in 1..=3 {
        scene.die();
        until("it falls to inotify", || scene.rungs().len() == 2 * round);
        scene.revive();
        until("it climbs back", || scene.rungs().len() == 2 * round + 1);
    }
    scene.set("db", State::Ready);
    hook.end().released();
    let expected: Vec<&str> = (0..7).map(|n| if n % 2 == 0 { "bell" } else { "inotify" }).collect();
    assert_eq!(scene.rungs(), expected);
}

/// A shell in a user namespace, in which the number of inotify instances can be limited while a wait is under way.
pub(crate) fn limited() -> Option<Shell> {
    let mut shell = Shell::in_namespaces(&["--user", "--map-root-user"])?;
    let is_limited = limit(&mut shell, 0);
    if !is_limited {
        eprintln!("skipped: the limit of inotify instances can't be set here");
    }
    is_limited.then_some(shell)
}

fn limit(shell: &mut Shell, instances: u32) -> bool {
    shell.run(&format!("echo {instances} 2>/dev/null >/proc/sys/user/max_inotify_instances")) == 0
}

#[test]
fn polling_alone() {
    let Some(mut shell) = limited() else { return };
    let mut scene = Scene::with_controller();
    scene.die();
    let errors = scene.root.join("errors");
    shell.start(&scene.hook().flag("poll-interval", "5ms"), &errors);
    until("it waits", || scene.message().contains("waits for"));
    scene.set("db", State::Ready);
    assert_eq!(shell.join(), 0, "{}", fs::read_to_string(errors).unwrap());
    assert_eq!(scene.rungs(), ["polling"]);
}

#[test]
fn from_inotify_to_polling_and_back_as_instances_run_out_and_come_back() {
    let Some(mut shell) = limited() else { return };
    let mut scene = Scene::with_controller();
    let errors = scene.root.join("errors");
    shell.start(&scene.hook().flag("poll-interval", "5ms"), &errors);
    until("it waits by the bell", || scene.rungs() == ["bell"]);
    scene.die();
    until("it falls to polling", || scene.rungs() == ["bell", "polling"]);
    scene.set("db", State::NotReady);
    until("it still reads", || scene.message().contains("now NotReady"));
    assert!(limit(&mut shell, 128));
    until("it takes up inotify", || scene.rungs() == ["bell", "polling", "inotify"]);
    scene.revive();
    until("it climbs back to the bell", || scene.rungs() == ["bell", "polling", "inotify", "bell"]);
    assert!(limit(&mut shell, 0));
    scene.die();
    until("it falls all the way", || scene.rungs().last().is_some_and(|rung| rung == "polling"));
    scene.set("db", State::Ready);
    assert_eq!(shell.join(), 0, "{}", fs::read_to_string(errors).unwrap());
}

#[test]
fn back_on_the_bell_nothing_of_inotify_is_kept() {
    let mut scene = Scene::with_controller();
    scene.die();
    let hook = scene.hook().waiting();
    let descriptors = || {
        let folder = format!("/proc/{}/fd", hook.id());
        let links = fs::read_dir(folder).unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter(|link| link.to_string_lossy().contains("inotify")).count()
    };
    assert_eq!(descriptors(), 1);
    scene.revive();
    until("it is let go", || descriptors() == 0);
    scene.set("db", State::Ready);
    hook.end().released();
}

/// Twenty waiters and one publisher that never waits for them. A publication is lost if a waiter sleeps until the slow re-read
/// while the board shows something that it has not read.
#[test]
fn no_publication_is_lost() {
    for by_bell in [true, false] {
        let folder = folder();
        let board = folder.path();
        let mut said = snapshot(&[("db", State::Started)]);
        put(board, &said);
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
                put(board, &said);
                if by_bell {
                    ringer.ring().unwrap();
                }
            }
            until("all have read the last", || seen.load(Ordering::Relaxed) == 20 * 2000);
            over.store(true, Ordering::Relaxed);
            if by_bell { ringer.ring().unwrap() } else { put(board, &said) }
        });
        assert_eq!(lost.into_inner(), 0, "by bell: {by_bell}");
    }
}

/// One waiter: adds to `seen` by how much the revision has grown, and to `lost` when it has slept through a publication.
fn wait_for_all(board: &Path, over: &AtomicBool, seen: &AtomicU64, lost: &AtomicU64) {
    let here = sandbox_id();
    let mut watch = Watch::new(board.to_owned(), None, SLOW_REREAD);
    let (mut last, mut woken) = (0, Woken::Source);
    while !over.load(Ordering::Relaxed) {
        let view = watch.read(|| choose(&here, source::board(board), || Err(NoWord::Missing)));
        let View::Word(Snapshot { revision, .. }, _) = view else { panic!("{view:?}") };
        if woken == Woken::Time && revision > last {
            lost.fetch_add(1, Ordering::Relaxed);
        }
        seen.fetch_add(revision - last, Ordering::Relaxed);
        last = revision;
        woken = watch.wait(SLOW_REREAD, Vec::new()).unwrap();
    }
}
