//! Board with a simulated sidecar, and the means to wait for a state on it.

use podgate::core::names;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::State;
use podgate::edge::bell::Ringer;
use podgate::edge::files::replace;
use podgate::edge::lock::{self, HeldLock};
use podgate::edge::sandbox::sandbox_id;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Means of waiting until `db` is Ready.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    Bell,
    Inotify,
    Polling,
    /// `until grep …; do sleep SECONDS; done`, as a shell hook would.
    Loop(&'static str),
    /// `inotifywait` in a shell loop.
    InotifyWait,
}

pub(crate) const ALL: [Means; 6] =
    [Means::Bell, Means::Inotify, Means::Polling, Means::Loop("0.1"), Means::Loop("1"), Means::InotifyWait];

impl Means {
    pub(crate) fn name(self) -> String {
        match self {
            Means::Bell => "podgate, bell".to_owned(),
            Means::Inotify => "podgate, inotify".to_owned(),
            Means::Polling => "podgate, polling each 100 ms".to_owned(),
            Means::Loop(seconds) => format!("shell: `until grep …; do sleep {seconds}; done`"),
            Means::InotifyWait => "shell: `inotifywait` and `grep` in a loop".to_owned(),
        }
    }

    /// Returns true if this machine supports the means; otherwise prints why not.
    pub(crate) fn is_available(self) -> bool {
        let try_shell = |script: &str| {
            Command::new("sh").args(["-c", script]).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
        };
        let (is_available, missing) = match self {
            Means::InotifyWait => (try_shell("command -v inotifywait >/dev/null"), "no inotifywait"),
            Means::Polling => (try_shell(&format!("{} true", limited())), "no user namespaces"),
            _ => (true, ""),
        };
        if !is_available {
            println!("({}: skipped, {missing} on this machine)\n", self.name());
        }
        is_available
    }
}

/// Returns a command prefix that denies inotify instances.
fn limited() -> String {
    "unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_inotify_instances && exec \"$@\"' -".to_owned()
}

pub(crate) struct Scene {
    root: tempfile::TempDir,
    pub(crate) board: PathBuf,
    ringer: Option<Ringer>,
    _lock: HeldLock,
    snapshot: Snapshot,
}

impl Scene {
    pub(crate) fn new(means: Means) -> Scene {
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let board = root.path().join("board");
        for folder in ["board", "self"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        std::fs::write(root.path().join("message"), "").unwrap();
        let lock = lock::take(&board.join(names::CONTROLLER_FILE)).unwrap().unwrap();
        let ringer = (means == Means::Bell).then(|| Ringer::new(&board, names::BELL_FILE));
        let states = [("db", State::Started), ("api", State::Waiting), ("web", State::Waiting)];
        let snapshot = Snapshot::new(sandbox_id(), "e", &states);
        let mut scene = Scene { root, board, ringer, _lock: lock, snapshot };
        scene.publish(State::Started);
        scene
    }

    /// Publishes as the sidecar does; returns the start time of the publication.
    pub(crate) fn publish(&mut self, db: State) -> Instant {
        self.snapshot.states.insert("db".to_owned(), db);
        self.snapshot.revision += 1;
        let text = podgate::core::annotations::write(&self.snapshot.to_annotations());
        let begun = Instant::now();
        replace(&self.board, names::ANNOTATIONS_FILE, text.as_bytes(), 0o644).unwrap();
        if let Some(ringer) = &mut self.ringer {
            ringer.ring().unwrap();
        }
        begun
    }

    /// Returns the command that waits.
    pub(crate) fn command(&self, agent: &Path, means: Means) -> Command {
        let root = self.root.path().display();
        let file = self.board.join(names::ANNOTATIONS_FILE).display().to_string();
        let ready = format!("grep -q '^status.podgate.io/db=\"Ready\"' {file}");
        let hook = format!(
            "{} post-start --container db --board {root}/board --self {root}/self --podinfo {root}/none --timeout 10m --termination-log {root}/message",
            agent.display()
        );
        let script = match means {
            Means::Bell | Means::Inotify => format!("exec {hook}"),
            Means::Polling => format!("exec {} {hook}", limited()),
            Means::Loop(seconds) => format!("until {ready}; do sleep {seconds}; done"),
            Means::InotifyWait => format!("until {ready}; do inotifywait -qq -t 1 -e moved_to {root}/board; done"),
        };
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Starts the waiting command; returns once it sleeps.
    pub(crate) fn start(&self, agent: &Path, means: Means) -> Child {
        let message = self.root.path().join("message");
        std::fs::write(&message, "").unwrap();
        let child = self.command(agent, means).spawn().unwrap();
        if matches!(means, Means::Bell | Means::Inotify | Means::Polling) {
            while std::fs::read(&message).unwrap().is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
        } else {
            std::thread::sleep(Duration::from_millis(50));
        }
        child
    }
}
