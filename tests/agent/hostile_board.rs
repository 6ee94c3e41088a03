//! Tests with hostile or damaged files on the board. The agent must treat the state as unknown. It must not open the
//! gate, panic, or run beyond the time limit.

use crate::support::{AgentOutput, Scene, annotations_text, snapshot, temp_directory, wait_until};
use podgate::core::names::{ANNOTATIONS_FILE, BELL_FILE, BOARD_FILE_MAX, CONTROLLER_LOCK_FILE};
use podgate::core::state::State;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// Returns file content that would open the gate if the agent accepted the file.
fn ready() -> String {
    annotations_text(&snapshot(&[("db", State::Ready)]))
}

fn fifo(at: &Path) {
    mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

type Plant = (&'static str, fn(&Path));

/// Objects that a test puts in place of a file of the board.
const PLANTS: [Plant; 11] = [
    ("a link to a file with the state Ready", |at| {
        fs::write(at.with_extension("real"), ready()).unwrap();
        symlink(at.with_extension("real"), at).unwrap();
    }),
    ("a relative link", |at| {
        fs::write(at.with_extension("real"), ready()).unwrap();
        symlink(at.with_extension("real").file_name().unwrap(), at).unwrap();
    }),
    ("a link to itself", |at| symlink(at, at).unwrap()),
    ("a link to nowhere", |at| symlink("/nonexistent", at).unwrap()),
    ("a link to a device", |at| symlink("/dev/zero", at).unwrap()),
    ("a fifo", fifo),
    ("a directory", |at| fs::create_dir(at).unwrap()),
    ("a socket", |at| drop(UnixListener::bind(at).unwrap())),
    ("an empty file", |at| fs::write(at, "").unwrap()),
    ("a huge file with the state Ready", |at| {
        let filler = format!("\nexample.com/x=\"{}\"", "x".repeat(BOARD_FILE_MAX));
        fs::write(at, ready() + &filler).unwrap();
    }),
    ("a sparse file of a terabyte", |at| fs::File::create(at).unwrap().set_len(1 << 40).unwrap()),
];

fn clear(at: &Path) {
    let _ = fs::remove_file(at).or_else(|_| fs::remove_dir(at));
}

/// Asserts that the hook timed out, and printed one line that contains `message`.
#[track_caller]
fn assert_timed_out(run: &AgentOutput, plant: &str, message: &str) {
    assert!(run.code == 75 && run.stderr.contains(message), "{plant}: {run:?}");
    assert!(run.stderr.lines().count() == 1 && run.stderr.len() < 1024, "{plant}: {run:?}");
}

#[test]
fn annotations_that_are_not_a_regular_file_are_ignored() {
    for (name, plant) in PLANTS {
        let scene = Scene::with_sidecar();
        let at = scene.board.join(ANNOTATIONS_FILE);
        clear(&at);
        plant(&at);
        let run = scene.hook().flag("timeout", "30ms").run();
        assert_timed_out(&run, name, "db=Ready; the board ");
        assert!(scene.report().is_none(), "{name}");
    }
}

#[test]
fn damaged_and_foreign_annotations_are_ignored() {
    let complete = ready();
    let mut cases: Vec<Vec<u8>> = vec![
        b"\x7fELF\x02\x01\x01\0\0\0".to_vec(),
        vec![0; 4096],
        vec![0xff; BOARD_FILE_MAX],
        b"status.podgate.io/db=\"Ready\"".to_vec(),
        format!("{complete}\nx").into_bytes(),
        format!("{complete}\n\n").into_bytes(),
        complete.replace("Ready", "ready").into_bytes(),
        complete.replace("Ready", "Re\\x61dy ").into_bytes(),
        complete.replace("revision=\"0\"", "revision=\"9007199254740992\"").into_bytes(),
        complete.replace("epoch=\"e1\"", "epoch=\"e 1\"").into_bytes(),
        complete.replace("status.podgate.io", "status.podgate.io.evil.example").into_bytes(),
        complete.replace('\n', "\r\n").into_bytes(),
        format!("\u{feff}{complete}").into_bytes(),
    ];
    // Also test prefixes of `complete`, as a partial write would leave them.
    cases.extend((0..complete.len()).step_by(13).map(|at| complete.as_bytes()[..at].to_vec()));
    let scene = Scene::with_sidecar();
    for case in cases {
        fs::write(scene.board.join(ANNOTATIONS_FILE), &case).unwrap();
        let run = scene.hook().flag("timeout", "5ms").run();
        assert_timed_out(&run, &String::from_utf8_lossy(&case), "db=Ready");
    }
}

#[test]
fn a_hostile_bell_does_not_stop_the_wait() {
    for (name, plant) in PLANTS {
        let mut scene = Scene::with_sidecar();
        let bell = scene.board.join(BELL_FILE);
        clear(&bell);
        plant(&bell);
        let hook = scene.hook().spawn_waiting();
        assert_eq!(scene.wait_methods(), ["inotify"], "{name}");
        // Publish without ringing, because the planted object has replaced the bell.
        crate::support::write_annotations(&scene.board, {
            scene.snapshot.states.insert("db".to_owned(), State::Ready);
            &scene.snapshot
        });
        hook.wait().assert_released();
    }
}

#[test]
fn a_hostile_lock_file_does_not_block_the_hook() {
    for (name, plant) in PLANTS {
        let mut scene = Scene::with_sidecar();
        scene.kill_sidecar();
        let lock = scene.board.join(CONTROLLER_LOCK_FILE);
        clear(&lock);
        plant(&lock);
        assert_timed_out(&scene.hook().flag("timeout", "30ms").run(), name, "db=Ready (now Started)");
    }
}

/// Opens the bell for writing. A container that runs as root can do this despite the file mode.
fn open_bell_for_writing(scene: &Scene) -> OwnedFd {
    let bell = scene.board.join(BELL_FILE);
    fs::set_permissions(&bell, fs::Permissions::from_mode(0o666)).unwrap();
    open(&bell, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).unwrap()
}

#[test]
fn bytes_in_the_bell_do_not_wake_the_hook() {
    let mut scene = Scene::with_sidecar();
    let hook = scene.hook().spawn_waiting();
    let bell = open_bell_for_writing(&scene);
    std::thread::sleep(Duration::from_millis(50));
    let before = hook.sleep_count();
    for _ in 0..100 {
        rustix::io::write(&bell, b"x").unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    let wake_ups = hook.sleep_count() - before;
    assert!(wake_ups <= 3, "{wake_ups} wake-ups after 100 bytes");
    drop(bell);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

#[test]
fn another_bell_writer_delays_the_hook_until_the_slow_reread() {
    let mut scene = Scene::with_sidecar();
    let hook = scene.hook().spawn_waiting();
    let bell = open_bell_for_writing(&scene);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
    drop(bell);
}

#[test]
fn a_dead_sidecar_is_noticed_despite_another_bell_writer() {
    let mut scene = Scene::with_sidecar();
    let hook = scene.hook().spawn_waiting();
    let bell = open_bell_for_writing(&scene);
    scene.kill_sidecar();
    wait_until("the hook detects that the sidecar is not running", || {
        scene.termination_message().contains("the sidecar is not running")
    });
    drop((hook, bell));
}

#[test]
fn a_bell_that_is_replaced_often_loses_no_change() {
    let mut scene = Scene::with_sidecar();
    let hook = scene.hook().spawn_waiting();
    for round in 0..500 {
        clear(&scene.board.join(BELL_FILE));
        if round % 3 == 0 {
            fifo(&scene.board.join(BELL_FILE));
        }
        scene.publish(|_| {});
    }
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Random damage to a file with the state Started never results in the state Ready.
    #[test]
    fn damage_never_turns_started_into_ready(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = annotations_text(&snapshot(&[("db", State::Started)])).into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let length = bytes.len();
        bytes.truncate(length - cut.index(length));
        let directory = temp_directory();
        fs::write(directory.path().join(ANNOTATIONS_FILE), &bytes).unwrap();
        if let Ok(read) = podgate::edge::source::read_board(directory.path()) {
            prop_assert_ne!(read.states.get("db"), Some(&State::Ready));
        }
    }
}
