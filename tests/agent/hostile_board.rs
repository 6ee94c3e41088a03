//! Whatever lies where the board's files should be: *unknown*, never *ready*, never a hang beyond the time limit, never a panic.

use crate::support::{AgentOutput, Scene, annotations_text, snapshot, temp_folder, wait_until};
use podgate::core::names::{ANNOTATIONS_FILE, BELL_FILE, BOARD_FILE_MAX, CONTROLLER_FILE};
use podgate::core::state::State;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// What a file says that would open the gate if it were believed.
fn ready() -> String {
    annotations_text(&snapshot(&[("db", State::Ready)]))
}

fn fifo(at: &Path) {
    mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

type Plant = (&'static str, fn(&Path));

/// What is planted under a name, the name's own file having been removed.
const PLANTS: [Plant; 11] = [
    ("a link to a file that says ready", |at| {
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
    ("a folder", |at| fs::create_dir(at).unwrap()),
    ("a socket", |at| drop(UnixListener::bind(at).unwrap())),
    ("an empty file", |at| fs::write(at, "").unwrap()),
    ("a huge file that says ready", |at| {
        let filler = format!("\nexample.com/x=\"{}\"", "x".repeat(BOARD_FILE_MAX));
        fs::write(at, ready() + &filler).unwrap();
    }),
    ("a sparse file of a terabyte", |at| fs::File::create(at).unwrap().set_len(1 << 40).unwrap()),
];

fn clear(at: &Path) {
    let _ = fs::remove_file(at).or_else(|_| fs::remove_dir(at));
}

/// Timed out with one line that says `says`, and not much later than it should.
#[track_caller]
fn stays_shut(run: &AgentOutput, what: &str, says: &str) {
    assert!(run.code == 75 && run.stderr.contains(says), "{what}: {run:?}");
    assert!(run.stderr.lines().count() == 1 && run.stderr.len() < 1024, "{what}: {run:?}");
    assert!(run.took < Duration::from_secs(3), "{what}: {run:?}");
}

#[test]
fn annotations_that_are_no_plain_file_open_nothing() {
    for (what, plant) in PLANTS {
        let scene = Scene::with_controller();
        let at = scene.board.join(ANNOTATIONS_FILE);
        clear(&at);
        plant(&at);
        let run = scene.hook().flag("timeout", "30ms").run();
        stays_shut(&run, what, "db=Ready; the board ");
        assert!(scene.report().is_none(), "{what}");
    }
}

#[test]
fn torn_and_foreign_annotations_open_nothing() {
    let whole = ready();
    let mut cases: Vec<Vec<u8>> = vec![
        b"\x7fELF\x02\x01\x01\0\0\0".to_vec(),
        vec![0; 4096],
        vec![0xff; BOARD_FILE_MAX],
        b"status.podgate.io/db=\"Ready\"".to_vec(),
        format!("{whole}\nx").into_bytes(),
        format!("{whole}\n\n").into_bytes(),
        whole.replace("Ready", "ready").into_bytes(),
        whole.replace("Ready", "Re\\x61dy ").into_bytes(),
        whole.replace("revision=\"0\"", "revision=\"9007199254740992\"").into_bytes(),
        whole.replace("epoch=\"e1\"", "epoch=\"e 1\"").into_bytes(),
        whole.replace("status.podgate.io", "status.podgate.io.evil.example").into_bytes(),
        whole.replace('\n', "\r\n").into_bytes(),
        format!("\u{feff}{whole}").into_bytes(),
    ];
    // Cut anywhere before the state itself is whole.
    cases.extend((0..whole.len()).step_by(13).map(|at| whole.as_bytes()[..at].to_vec()));
    let scene = Scene::with_controller();
    for case in cases {
        fs::write(scene.board.join(ANNOTATIONS_FILE), &case).unwrap();
        let run = scene.hook().flag("timeout", "5ms").run();
        stays_shut(&run, &String::from_utf8_lossy(&case), "db=Ready");
    }
}

#[test]
fn whatever_the_bell_is_the_wait_goes_on() {
    for (what, plant) in PLANTS {
        let mut scene = Scene::with_controller();
        let bell = scene.board.join(BELL_FILE);
        clear(&bell);
        plant(&bell);
        let hook = scene.hook().spawn_waiting();
        assert_eq!(scene.rungs(), ["inotify"], "{what}");
        // The annotations alone: with such a bell in its place, nobody rings.
        crate::support::write_annotations(&scene.board, {
            scene.snapshot.states.insert("db".to_owned(), State::Ready);
            &scene.snapshot
        });
        hook.wait().assert_released();
    }
}

#[test]
fn whatever_the_controllers_file_is_nobody_hangs() {
    for (what, plant) in PLANTS {
        let mut scene = Scene::with_controller();
        scene.kill_controller();
        let lock = scene.board.join(CONTROLLER_FILE);
        clear(&lock);
        plant(&lock);
        stays_shut(&scene.hook().flag("timeout", "30ms").run(), what, "db=Ready (now Started)");
    }
}

/// The bell's write end, as a neighbour that runs as root gets it in spite of the mode.
fn tamper(scene: &Scene) -> OwnedFd {
    let bell = scene.board.join(BELL_FILE);
    fs::set_permissions(&bell, fs::Permissions::from_mode(0o666)).unwrap();
    open(&bell, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).unwrap()
}

#[test]
fn a_byte_in_the_bell_wakes_nobody() {
    let mut scene = Scene::with_controller();
    let hook = scene.hook().spawn_waiting();
    let bell = tamper(&scene);
    std::thread::sleep(Duration::from_millis(50));
    let before = hook.sleep_count();
    for _ in 0..100 {
        rustix::io::write(&bell, b"x").unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    let woken = hook.sleep_count() - before;
    assert!(woken <= 3, "{woken} wake-ups by 100 bytes");
    drop(bell);
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

#[test]
fn who_holds_the_bell_open_delays_a_waiter_until_the_slow_re_read_alone() {
    let mut scene = Scene::with_controller();
    let hook = scene.hook().spawn_waiting();
    let bell = tamper(&scene);
    scene.set_state("db", State::Ready);
    let run = hook.wait();
    run.assert_released();
    assert!(run.took < Duration::from_secs(5), "{run:?}");
    drop(bell);
}

#[test]
fn a_dead_controller_is_noticed_though_somebody_holds_the_bell_open() {
    let mut scene = Scene::with_controller();
    let hook = scene.hook().spawn_waiting();
    let bell = tamper(&scene);
    scene.kill_controller();
    wait_until("the death is noticed", || scene.termination_message().contains("the sidecar is dead"));
    drop((hook, bell));
}

#[test]
fn a_bell_that_is_torn_down_and_put_back_all_the_time_loses_nothing() {
    let mut scene = Scene::with_controller();
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

    /// Any change of any bytes of a file that says *started* makes it say *started*, something else, or nothing; it says *ready*
    /// only if somebody has written that word.
    #[test]
    fn no_damage_makes_ready_of_started(
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
        let folder = temp_folder();
        fs::write(folder.path().join(ANNOTATIONS_FILE), &bytes).unwrap();
        if let Ok(read) = podgate::edge::source::read_board(folder.path()) {
            prop_assert_ne!(read.states.get("db"), Some(&State::Ready));
        }
    }
}
