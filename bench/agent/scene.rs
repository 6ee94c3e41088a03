//! A board with a simulated sidecar, and the methods of waiting for a state.

use podgate::core::names;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::State;
use podgate::edge::bell::Ringer;
use podgate::edge::files::replace;
use podgate::edge::lock;
use podgate::edge::sandbox::sandbox_id;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A method of waiting until `db` is Ready.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Bell,
    Inotify,
    Polling,
    /// A shell loop: `until grep …; do sleep SECONDS; done`. The field is SECONDS.
    Loop(&'static str),
    /// `inotifywait` in a shell loop.
    InotifyWait,
}

pub(crate) const ALL: [Method; 6] =
    [Method::Bell, Method::Inotify, Method::Polling, Method::Loop("0.1"), Method::Loop("1"), Method::InotifyWait];

impl Method {
    pub(crate) fn name(self) -> String {
        match self {
            Method::Bell => "podgate, bell".to_owned(),
            Method::Inotify => "podgate, inotify".to_owned(),
            Method::Polling => "podgate, polling every 100 ms".to_owned(),
            Method::Loop(seconds) => format!("shell: `until grep …; do sleep {seconds}; done`"),
            Method::InotifyWait => "shell: `inotifywait` and `grep` in a loop".to_owned(),
        }
    }

    /// Returns true if this machine supports the method. Otherwise prints a line.
    pub(crate) fn is_available(self) -> bool {
        let try_shell = |script: &str| {
            Command::new("sh").args(["-c", script]).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
        };
        let (is_available, reason) = match self {
            Method::InotifyWait => (try_shell("command -v inotifywait >/dev/null"), "no inotifywait"),
            Method::Polling => (try_shell(&format!("{} true", without_inotify())), "no user namespaces"),
            _ => (true, ""),
        };
        if !is_available {
            println!("({}: skipped, {reason} on this machine)\n", self.name());
        }
        is_available
    }
}

/// Returns a prefix that runs a command with a limit of 0 inotify instances.
fn without_inotify() -> String {
    "unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_inotify_instances && exec \"$@\"' -".to_owned()
}

pub(crate) struct Scene {
    root: tempfile::TempDir,
    pub(crate) board: PathBuf,
    ringer: Option<Ringer>,
    _lock: std::fs::File,
    snapshot: Snapshot,
}

impl Scene {
    pub(crate) fn new(method: Method) -> Scene {
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let board = root.path().join("board");
        for directory in ["board", "self"] {
            std::fs::create_dir(root.path().join(directory)).unwrap();
        }
        std::fs::write(root.path().join("message"), "").unwrap();
        let lock = lock::take_over(&board, names::CONTROLLER_LOCK_FILE).unwrap().unwrap();
        let ringer = (method == Method::Bell).then(|| Ringer::new(&board, names::BELL_FILE));
        let states = [("db", State::Started), ("api", State::Waiting), ("web", State::Waiting)];
        let snapshot = Snapshot::new(sandbox_id(), "e", &states);
        let mut scene = Scene { root, board, ringer, _lock: lock, snapshot };
        scene.publish(State::Started);
        scene
    }

    /// Publishes the state of `db` like the sidecar. Returns the time just before the publication.
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

    /// Returns the command that waits by `method`.
    pub(crate) fn command(&self, agent: &Path, method: Method) -> Command {
        let root = self.root.path().display();
        let file = self.board.join(names::ANNOTATIONS_FILE).display().to_string();
        let ready = format!("grep -q '^status.podgate.io/db=\"Ready\"' {file}");
        let hook = format!(
            "{} post-start --container db --board {root}/board --self {root}/self --podinfo {root}/none --timeout 10m --termination-log {root}/message",
            agent.display()
        );
        let script = match method {
            Method::Bell | Method::Inotify => format!("exec {hook}"),
            Method::Polling => format!("exec {} {hook}", without_inotify()),
            Method::Loop(seconds) => format!("until {ready}; do sleep {seconds}; done"),
            Method::InotifyWait => format!("until {ready}; do inotifywait -qq -t 1 -e moved_to {root}/board; done"),
        };
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Starts the waiting command. Returns when the process sleeps.
    pub(crate) fn start(&self, agent: &Path, method: Method) -> Child {
        let message = self.root.path().join("message");
        std::fs::write(&message, "").unwrap();
        let child = self.command(agent, method).spawn().unwrap();
        if matches!(method, Method::Bell | Method::Inotify | Method::Polling) {
            while std::fs::read(&message).unwrap().is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
        } else {
            std::thread::sleep(Duration::from_millis(50));
        }
        child
    }
}
