//! Creates a pod's directories like the sidecar and the kubelet, and runs the agent's binary in them.

mod agent;
mod log_pipe;
mod volume;

pub(crate) use agent::{Agent, AgentOutput, PROGRAM, RunningAgent, Shell, send, signal};
pub(crate) use volume::Volume;

use crate::hang_guard::HANG_GUARD;
use log_pipe::LogPipe;
use podgate::core::names;
use podgate::core::report::Report;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::State;
use podgate::edge::bell::Ringer;
use podgate::edge::files::replace;
use podgate::edge::lock;
use podgate::edge::sandbox::sandbox_id;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One container's view of a pod: the board, the downward-API volume, its own directory and its termination message.
pub(crate) struct Scene {
    _root: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) board: PathBuf,
    pub(crate) podinfo: PathBuf,
    pub(crate) self_directory: PathBuf,
    pub(crate) termination: PathBuf,
    pub(crate) log: Arc<LogPipe>,
    pub(crate) snapshot: Snapshot,
    ringer: Option<Ringer>,
    lock: Option<std::fs::File>,
}

impl Scene {
    /// Returns true if a report belongs to this sandbox and to the current epoch of the sidecar.
    pub(crate) fn is_current(&self, report: &Report) -> bool {
        report.is_from_sandbox(&self.snapshot.sandbox) && report.epoch == "e1"
    }

    /// Creates empty directories without a sidecar.
    pub(crate) fn new() -> Scene {
        let directory = temp_directory();
        let root = directory.path().to_owned();
        let at = |name: &str| root.join(name);
        for name in ["board", "podinfo", "self"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        std::fs::write(at("termination-log"), "").unwrap();
        Scene {
            _root: directory,
            board: at("board"),
            podinfo: at("podinfo"),
            self_directory: at("self"),
            termination: at("termination-log"),
            log: LogPipe::new(|fd| format!("/proc/{}/fd/{fd}", std::process::id())),
            root,
            snapshot: snapshot(&[("db", State::Started), ("api", State::Waiting)]),
            ringer: None,
            lock: None,
        }
    }

    /// Creates directories with a sidecar that has published `db=Started, api=Waiting` and holds the sidecar's lock.
    pub(crate) fn with_sidecar() -> Scene {
        let mut scene = Scene::new();
        scene.start_sidecar();
        scene
    }

    /// Simulates the start of the sidecar: creates the bell, publishes the snapshot and takes the lock.
    pub(crate) fn start_sidecar(&mut self) {
        self.ringer = Some(Ringer::new(&self.board, names::BELL_FILE));
        self.publish(|_| {});
        self.lock = lock::take_over(&self.board, names::CONTROLLER_LOCK_FILE).unwrap();
        assert!(self.lock.is_some());
    }

    /// Simulates the death of the sidecar: closes the bell's write end and releases the lock.
    pub(crate) fn kill_sidecar(&mut self) {
        self.lock = None;
        self.ringer = None;
    }

    /// Applies `change` and publishes the snapshot as the next revision. Rings the bell if the sidecar runs.
    pub(crate) fn publish(&mut self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.snapshot);
        self.snapshot.revision += 1;
        write_annotations(&self.board, &self.snapshot);
        if let Some(ringer) = &mut self.ringer {
            ringer.ring().unwrap();
        }
    }

    pub(crate) fn set_state(&mut self, container: &str, state: State) {
        self.publish(|snapshot| {
            snapshot.states.insert(container.to_owned(), state);
        });
    }

    /// Returns `podgate post-start --container db` for these directories, with a time limit of 20 s.
    pub(crate) fn hook(&self) -> Agent {
        self.bare_hook().flag("container", "db").flag("timeout", "20s")
    }

    /// Returns the same command as `hook`, but without `--container` and `--timeout`.
    pub(crate) fn bare_hook(&self) -> Agent {
        Agent::new(&["post-start"], &self.termination)
            .flag("board", &self.board)
            .flag("podinfo", &self.podinfo)
            .flag("self", &self.self_directory)
            .flag("termination-log", &self.termination)
            .flag("log-to", &self.log.path)
    }

    /// Returns `podgate pre-stop --container db` for these directories.
    pub(crate) fn pre_stop(&self) -> Agent {
        Agent::new(&["pre-stop"], &self.termination)
            .flag("container", "db")
            .flag("board", &self.board)
            .flag("self", &self.self_directory)
            .flag("log-to", &self.log.path)
    }

    /// Returns `podgate entrypoint` for these directories, with a time limit of 20 s. The gate logs to a pipe. The
    /// caller adds the command with `with_command`.
    pub(crate) fn gate(&self) -> Agent {
        Agent::new(&["entrypoint"], &self.termination)
            .flag("timeout", "20s")
            .flag("board", &self.board)
            .flag("self", &self.self_directory)
            .flag("termination-log", &self.termination)
            .flag("log-to", &self.log.path)
    }

    /// Publishes the ticket from the gate's report, together with `change`.
    pub(crate) fn confirm_conditions(&mut self, change: impl FnOnce(&mut Snapshot)) {
        let ticket =
            self.report().and_then(|report| report.ticket).expect("the gate has written a report with a ticket");
        self.publish(|snapshot| {
            snapshot.confirmed_tickets.insert("api".to_owned(), ticket);
            change(snapshot);
        });
    }

    /// Returns true if a process holds the tether in the container's own directory.
    pub(crate) fn is_tethered(&self) -> bool {
        lock::is_tethered(&self.root, "self")
    }

    pub(crate) fn termination_message(&self) -> String {
        std::fs::read_to_string(&self.termination).unwrap()
    }

    pub(crate) fn log_text(&self) -> String {
        self.log.text()
    }

    /// Returns the report in the container's own directory, or `None` if the file does not exist.
    pub(crate) fn report(&self) -> Option<Report> {
        let bytes = std::fs::read(self.self_directory.join(names::REPORT_FILE)).ok()?;
        Some(Report::parse(&bytes).expect("a report is always complete"))
    }

    /// Returns the wait methods that the agent has logged so far, oldest first.
    pub(crate) fn wait_methods(&self) -> Vec<String> {
        let log = self.log_text();
        let method = |line: &str| line.split_once("waiting by=").map(|(_, method)| method.to_owned());
        log.lines().filter_map(method).collect()
    }
}

/// Creates a directory in memory, like the kubelet's volumes, or on disk if `/dev/shm` is not available.
pub(crate) fn temp_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Creates a snapshot of this sandbox in epoch `e1`.
pub(crate) fn snapshot(states: &[(&str, State)]) -> Snapshot {
    Snapshot::new(sandbox_id(), "e1", states)
}

pub(crate) fn annotations_text(snapshot: &Snapshot) -> String {
    podgate::core::annotations::write(&snapshot.to_annotations())
}

pub(crate) fn write_annotations(directory: &Path, snapshot: &Snapshot) {
    replace(directory, names::ANNOTATIONS_FILE, annotations_text(snapshot).as_bytes(), 0o644).unwrap();
}

/// Calls `is_true` every millisecond until it returns true. Panics with `event` after `HANG_GUARD`.
pub(crate) fn wait_until(event: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < HANG_GUARD, "timed out waiting until {event}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
