//! Attacks the sidecar and the other containers through the shared volumes. The attacking container may run as root.

use crate::event::log;
use podgate::core::report::{GateState, PreStopState, Report};
use podgate::core::snapshot::Snapshot;
use podgate::core::{annotations, names};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, fcntl_lock, flock, mknodat, open};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::str::FromStr;
use std::thread::sleep;
use std::time::Duration;

/// Kind of attack on the sidecar and the other containers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Attack {
    /// Holds the write end of every bell, so that no hang-up wakes a waiter, and writes to the bell.
    Bell,
    /// Fills the container's own directory, which shares a volume with the directories of the other containers.
    Fill,
    /// Puts links, FIFOs, sockets, directories and huge files where the sidecar reads reports.
    Links,
    /// Writes a new false report about its own container twenty times a second.
    Lies,
    /// Keeps each file of the board open forever, and keeps locks on the files.
    Locks,
}

impl FromStr for Attack {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "bell" => Ok(Attack::Bell),
            "fill" => Ok(Attack::Fill),
            "links" => Ok(Attack::Links),
            "lies" => Ok(Attack::Lies),
            "locks" => Ok(Attack::Locks),
            _ => Err("must be bell, fill, links, lies or locks"),
        }
    }
}

/// Runs the attack forever.
pub(crate) fn run(attack: Attack) {
    match attack {
        Attack::Bell => bell(),
        Attack::Fill => fill(),
        Attack::Links => links(),
        Attack::Lies => lies(),
        Attack::Locks => locks(),
    }
}

fn bell() {
    const HELD: usize = 256;
    let path = Path::new(names::BOARD_DIR).join(names::BELL_FILE);
    let mut held: Vec<File> = Vec::new();
    let mut last_outcome = String::new();
    loop {
        let opened = open(&path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).map(File::from);
        let outcome = match opened {
            Ok(mut bell) => {
                let wrote = bell.write(b"ding").map_or_else(|error| error.to_string(), |_| "wrote into it".to_owned());
                if held.len() == HELD {
                    held.remove(0);
                }
                held.push(bell);
                wrote
            }
            Err(error) => error.to_string(),
        };
        if outcome != last_outcome {
            log("hostile bell", &outcome);
            last_outcome = outcome;
        }
        sleep(Duration::from_millis(2));
    }
}

fn fill() {
    let file = Path::new(names::SELF_DIR).join("filler");
    let mut last_error = None;
    loop {
        let mut written = 0_usize;
        let error = match File::options().create(true).append(true).open(&file) {
            Ok(mut filler) => loop {
                match filler.write(&[b'x'; 4096]) {
                    Ok(length) => written += length,
                    Err(error) => break error,
                }
            },
            Err(error) => error,
        };
        let kind = error.kind();
        if last_error.replace(kind) != Some(kind) {
            log("hostile fill", &format!("{written} bytes, then {error}"));
        }
        sleep(Duration::from_millis(20));
    }
}

/// Function that creates a hostile file at a path.
type Plant = fn(&Path) -> io::Result<()>;

fn links() {
    let plants: [(&str, Plant); 9] = [
        ("link to a file of the sidecar", |path| symlink("/var/run/secrets/kubernetes.io/serviceaccount/token", path)),
        ("link to another container's report", |path| symlink("../db/report", path)),
        ("link to itself", |path| symlink(names::REPORT_FILE, path)),
        ("link to an endless device", |path| symlink("/dev/zero", path)),
        ("FIFO", |path| Ok(mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0)?)),
        ("socket", |path| UnixListener::bind(path).map(drop)),
        ("directory", |path| fs::create_dir(path)),
        ("huge file", |path| File::create(path)?.set_len(1 << 40)),
        ("torn file", |path| fs::write(path, "started=\"true\"\nepoch=\"")),
    ];
    let directory = Path::new(names::SELF_DIR);
    let seed = directory.join("seed");
    let mut round = 0;
    loop {
        for (kind, plant) in plants {
            for name in [names::REPORT_FILE, "tether"] {
                let path = directory.join(name);
                for old in [&seed, &path] {
                    let _ = fs::remove_file(old).or_else(|_| fs::remove_dir(old));
                }
                // Rename the object into place like a report, because the rename wakes the sidecar.
                let planted = plant(&seed).and_then(|()| fs::rename(&seed, &path));
                let outcome = planted.map_or_else(|error| error.to_string(), |()| "planted".to_owned());
                if round == 0 {
                    log("hostile links", &format!("{name}, {kind}: {outcome}"));
                }
            }
            sleep(Duration::from_millis(50));
        }
        round += 1;
    }
}

fn lies() {
    let board = Path::new(names::BOARD_DIR).join(names::ANNOTATIONS_FILE);
    let directory = Path::new(names::SELF_DIR);
    let mut last_outcome = String::new();
    for round in 0_u32.. {
        let text = fs::read(&board).unwrap_or_default();
        let snapshot = annotations::read(&text, |_| true).ok().and_then(|all| Snapshot::from_annotations(&all).ok());
        if let Some(snapshot) = snapshot {
            let report = Report {
                sandbox: Some(snapshot.sandbox),
                epoch: snapshot.epoch,
                agent_version: "0.1.0".to_owned(),
                gate: Some(if round % 2 == 0 { GateState::Waiting } else { GateState::Opened }),
                started: round % 2 == 0,
                check_passed: round % 3 == 0,
                exit_code: (round % 4 == 0).then_some(1),
                stopping: if round % 5 == 0 { PreStopState::Begun } else { PreStopState::NotBegun },
                ..Report::default()
            };
            let seed = directory.join("lie");
            let done =
                fs::write(&seed, report.to_text()).and_then(|()| fs::rename(&seed, directory.join(names::REPORT_FILE)));
            let outcome = done.map_or_else(|error| error.to_string(), |()| "reported".to_owned());
            if outcome != last_outcome {
                log("hostile lies", &outcome);
                last_outcome = outcome;
            }
        }
        sleep(Duration::from_millis(50));
    }
}

fn locks() {
    const FILES: [&str; 5] =
        [names::CONTROLLER_LOCK_FILE, names::ANNOTATIONS_FILE, names::BELL_FILE, "hooked", "bin/podgate"];
    let mut held: Vec<(u64, File)> = Vec::new();
    loop {
        for name in FILES {
            let path = Path::new(names::BOARD_DIR).join(name);
            // When a process closes any descriptor of a file, the kernel releases all locks of the process on that
            // file.
            let Ok(inode) = fs::symlink_metadata(&path).map(|metadata| metadata.ino()) else { continue };
            if held.iter().any(|(known, _)| *known == inode) {
                continue;
            }
            let file = open(&path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).map(File::from);
            log("hostile locks", &format!("{name}: {:?}", file.as_ref().map(|_| "open")));
            held.extend(file.map(|file| (inode, file)));
        }
        for (_, file) in &held {
            let _ = flock(file, FlockOperation::NonBlockingLockExclusive);
            // This call succeeds only when the sidecar ends.
            let _ = fcntl_lock(file, FlockOperation::NonBlockingLockShared);
        }
        sleep(Duration::from_millis(2));
    }
}
