//! Black-box tests of the sidecar's binary, without an API server or with a fake one: board, directories, probes and
//! exit codes. Tests that need a real API server are in `tests/kubelet`.
#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

mod api;
mod clock_step;
mod faults;
mod gates;
mod hostile_locks;
mod kubelet_prober;
mod kubelet_status;
mod limits;
mod privacy;

use crate::free_port::free_address;
use crate::hang_guard::HANG_GUARD;
use podgate::core::names;
use podgate::core::report::Report;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::{Stage, State};
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::{files, source};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_podgate-controller");
const AGENT: &str = env!("CARGO_BIN_EXE_podgate");

/// Volumes of one Pod, in a temporary directory.
struct Pod {
    root: TempDir,
}

impl Pod {
    fn new() -> Pod {
        let root = tempfile::tempdir().unwrap();
        for directory in ["board", "self", "info"] {
            std::fs::create_dir(root.path().join(directory)).unwrap();
        }
        Pod { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.env_clear().current_dir(self.root.path()).args(arguments).env("PODGATE_AGENT", AGENT);
        command.env("PODGATE_BOARD", "board").env("PODGATE_SELF", "self").env("PODGATE_PODINFO", "info");
        command.stderr(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Starts a sidecar with `--publish none` and waits until it is ready.
    fn sidecar(&self, containers: &str, more: &[&str]) -> Sidecar {
        self.sidecar_with(containers, more, |_| ())
    }

    /// Starts a sidecar like `sidecar`, after applying `change` to the command.
    fn sidecar_with(&self, containers: &str, more: &[&str], change: impl FnOnce(&mut Command)) -> Sidecar {
        let arguments = [&["--publish", "none", "--containers", containers], more].concat();
        let mut command = self.command(&arguments);
        change(&mut command);
        let sidecar = Sidecar { child: Some(command.spawn().unwrap()) };
        let ready = self.command(&["ready", "--timeout", "10s"]).output().unwrap();
        assert!(ready.status.success(), "{ready:?}");
        sidecar
    }

    fn board(&self) -> Snapshot {
        source::read_board(&self.path("board")).unwrap()
    }

    fn state(&self, container: &str) -> State {
        self.board().states[container]
    }

    /// Writes a report like the agent of `container`.
    fn report(&self, container: &str, report: Report) {
        self.report_to(&self.path("self").join(container), report).unwrap();
    }

    fn report_to(&self, directory: &Path, report: Report) -> std::io::Result<()> {
        let report = Report { sandbox: Some(sandbox_id()), epoch: self.board().epoch, started: true, ..report };
        files::replace(directory, names::REPORT_FILE, report.to_text().as_bytes(), 0o644).map(drop)
    }
}

struct Sidecar {
    child: Option<Child>,
}

impl Sidecar {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }

    fn end(mut self, signal: Signal) -> Output {
        self.signal(signal);
        let child = self.child.as_mut().unwrap();
        until("the sidecar has ended", || child.try_wait().unwrap().is_some());
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + HANG_GUARD;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {HANG_GUARD:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the declarations of two containers: `db`, which has a readiness probe on `port`, and `web`.
fn db(port: u16) -> String {
    format!(
        r#"[{{"name":"db","mode":"post-start","readinessProbe":{{"tcpSocket":{{"port":{port}}}}}}},{{"name":"web"}}]"#
    )
}

fn free_port() -> u16 {
    free_address().port()
}

/// Returns the sidecar's response to a request for `path`.
fn get(port: u16, path: &str) -> String {
    let mut stream = None;
    until("the sidecar listens", || {
        stream = TcpStream::connect(("127.0.0.1", port)).ok();
        stream.is_some()
    });
    let mut stream = stream.unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn wrong_setup_has_an_error_message_and_exit_code() {
    let pod = Pod::new();
    for (arguments, code, text) in [
        (&["--nonsense"][..], 64, "--nonsense"),
        (&["--boardx", "x"], 64, "tip: a similar argument exists: '--board'"),
        (&["help"], 0, ""),
        (&["--containers", "[{\"name\":\"A\"}]"], 64, "not a container name"),
        (&["--publish", "nowhere"], 64, "use api or none"),
        (&["--probe-floor", "soon"], 64, "--probe-floor"),
        (&["--pod-ips", "localhost"], 64, "is not an IP address"),
        (&["--pod-ips", ""], 78, "POD_NAME and POD_NAMESPACE are not set"),
        (&[], 78, "POD_NAME and POD_NAMESPACE are not set"),
        (&["--publish", "none"], 78, "needs --containers"),
        (&["--publish", "none", "--containers", "[]", "--board", "nowhere"], 78, "--board nowhere: no such directory"),
        (&["--publish", "none", "--containers", "[]", "--self", "nowhere"], 78, "--self nowhere: no such directory"),
        (&["--publish", "none", "--containers", "[]", "--agent", "nowhere"], 78, "cannot install nowhere"),
        (&["--publish", "none", "--containers", "[]", "--metrics-addr", "192.0.2.1:1"], 78, "--metrics-addr"),
        (&["ready", "--timeout", "10ms"], 75, "the sidecar was not ready within 10ms"),
        (&["ready", "--timeout", "10ms"], 75, "; see kubectl logs POD -c podgate\n"),
    ] {
        let output = pod.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(text), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn old_board_is_reset_and_its_revision_grows() {
    let pod = Pod::new();
    for sandbox in [sandbox_id().to_string(), "3f2a9c1e-1-1".to_owned()] {
        let stale = format!(
            "sandbox.podgate.io/epoch=\"old\"\nsandbox.podgate.io/id=\"{sandbox}\"\nsandbox.podgate.io/stage=\"started\"\n\
             sandbox.podgate.io/revision=\"41\"\nstatus.podgate.io/db=\"Ready\"\nstatus.podgate.io/ghost=\"Ready\""
        );
        files::replace(&pod.path("board"), names::ANNOTATIONS_FILE, stale.as_bytes(), 0o444).unwrap();
        let _sidecar = pod.sidecar(&db(free_port()), &[]);
        let board = pod.board();
        assert!(board.revision > 41 && board.epoch != "old" && board.stage == Stage::Starting, "{board:?}");
        assert_eq!(board.states.get("db"), Some(&State::Waiting));
        assert_eq!(board.states.get("ghost"), None);
    }
}

#[test]
fn db_is_ready_after_it_has_reported_and_listens() {
    let listen = |port: u16| TcpListener::bind(("127.0.0.1", port)).unwrap();
    let (pod, port) = (Pod::new(), free_port());
    let _listener = listen(port);
    let _sidecar = pod.sidecar(&db(port), &[]);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(pod.state("db"), State::Waiting, "the port is open, but db has not reported");
    pod.report("db", Report::default());
    until("db is Ready", || pod.state("db") == State::Ready);
    assert_eq!(pod.board().stage, Stage::Started, "web has no hook and no gate, so its start does not count");

    // Use another port, because the first one can still be in use: a process of another test may have inherited it.
    let (pod, port) = (Pod::new(), free_port());
    let _sidecar = pod.sidecar(&db(port), &[]);
    pod.report("db", Report::default());
    until("db has started", || pod.state("db") == State::Started);
    let _listener = listen(port);
    until("db listens", || pod.state("db") == State::Ready);
}

#[test]
fn sidecar_releases_the_agents_hook() {
    let pod = Pod::new();
    let port = free_port();
    let _sidecar = pod.sidecar(&db(port), &[]);
    let agent = pod.path("board").join(names::BIN_SUBDIR).join(names::AGENT_FILE);
    let arguments = ["post-start", "--container", "db", "--board", "board", "--self", "self/db", "--timeout", "10s"];
    let mut hook = Command::new(agent).args(arguments).current_dir(pod.root.path()).spawn().unwrap();
    until("db has started", || pod.state("db") == State::Started);
    assert!(hook.try_wait().unwrap().is_none());
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    assert!(hook.wait().unwrap().success());
}

#[test]
fn restarted_sidecar_finds_ready_containers_by_probing() {
    let pod = Pod::new();
    let port = free_port();
    let first = pod.sidecar(&db(port), &[]);
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    pod.report("db", Report::default());
    until("db is Ready", || pod.state("db") == State::Ready);
    let epoch = pod.board().epoch;
    first.end(Signal::KILL);
    let _second = pod.sidecar(&db(port), &[]);
    assert_ne!(pod.board().epoch, epoch);
    until("db is Ready again, though its report is of the old epoch", || pod.state("db") == State::Ready);
}

#[test]
fn reported_exec_check_makes_a_container_ready() {
    let pod = Pod::new();
    let exec = r#"[{"name":"db","mode":"post-start","readinessProbe":{"exec":{"command":["true"]}}}]"#;
    let _sidecar = pod.sidecar(exec, &[]);
    pod.report("db", Report::default());
    until("db has started", || pod.state("db") == State::Started);
    pod.report("db", Report { check_passed: true, ..Report::default() });
    until("db is Ready", || pod.state("db") == State::Ready);
}

#[test]
fn hostile_directory_does_not_affect_other_containers() {
    let pod = Pod::new();
    let _sidecar = pod.sidecar(r#"[{"name":"db","mode":"post-start"},{"name":"bad","mode":"post-start"}]"#, &[]);
    let bad = pod.path("self/bad");
    let report = bad.join(names::REPORT_FILE);
    for round in 0..6 {
        std::fs::remove_file(&report).unwrap_or_else(|_| std::fs::remove_dir(&report).unwrap());
        let beside = bad.join("beside");
        match round {
            0 => std::os::unix::fs::symlink("../db/report", &beside).unwrap(),
            1 => std::fs::write(&beside, vec![b'x'; 1 << 20]).unwrap(),
            2 => std::fs::write(&beside, b"started=\"true").unwrap(),
            3 => std::fs::create_dir(&beside).unwrap(),
            4 => std::fs::write(&beside, [0, 159, 146, 150]).unwrap(),
            _ => {
                let mode = rustix::fs::Mode::from_raw_mode(0o666);
                rustix::fs::mknodat(rustix::fs::CWD, &beside, rustix::fs::FileType::Fifo, mode, 0).unwrap();
            }
        }
        std::fs::rename(&beside, &report).unwrap();
    }
    pod.report("db", Report::default());
    until("db is Ready (it has no probe)", || pod.state("db") == State::Ready);
    assert_eq!(pod.state("bad"), State::Waiting);
}

#[test]
fn exit_code_is_0_only_after_the_hook_has_succeeded() {
    let pod = Pod::new();
    let hooked = pod.sidecar(&db(free_port()), &[]);
    assert_eq!(hooked.end(Signal::TERM).status.code(), Some(0));
    let arguments = ["--publish", "none", "--containers", "[]"];
    let unhooked = Sidecar { child: Some(pod.command(&arguments).spawn().unwrap()) };
    until("the lock is taken", || podgate::edge::lock::is_taken(&pod.path("board/controller")).unwrap());
    assert_eq!(unhooked.end(Signal::TERM).status.code(), Some(143));
}

#[test]
fn missing_api_is_logged_once_and_delays_nothing() {
    let pod = Pod::new();
    let port = free_port();
    let containers = db(port);
    let waits = r#",{"name":"api","mode":"entrypoint","until":["db","db=Completed"]}]"#;
    let containers = containers.strip_suffix(']').unwrap().to_owned() + waits;
    let mut command = pod.command(&["--containers", &containers]);
    let child = command.env("POD_NAME", "p").env("POD_NAMESPACE", "n").spawn().unwrap();
    let sidecar = Sidecar { child: Some(child) };
    assert!(pod.command(&["ready"]).status().unwrap().success());
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    pod.report("db", Report::default());
    until("db is Ready", || pod.state("db") == State::Ready);
    // db is a hook, which cannot report its exit.
    until("the board names the condition", || pod.board().unseen.iter().eq(["db=Completed"]));
    // In this pause, each of the two API tasks can make several attempts.
    std::thread::sleep(Duration::from_millis(1500));
    let log = stderr(&sidecar.end(Signal::TERM));
    assert_eq!(log.matches("WARN").count(), 1, "{log}");
}

#[test]
fn metrics_are_served_at_the_given_address() {
    let pod = Pod::new();
    let (port, metrics) = (free_port(), free_port());
    let _sidecar = pod.sidecar(&db(port), &["--metrics-addr", &format!(":{metrics}")]);
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    pod.report("db", Report::default());
    until("db is Ready", || pod.state("db") == State::Ready);
    let get = |path: &str| get(metrics, path);
    let page = get("/metrics");
    for line in [
        "podgate_build_info{version=",
        "podgate_container_state{container=\"db\",state=\"Started\"} 0",
        "podgate_container_state{container=\"db\",state=\"Ready\"} 1",
        "podgate_state_transitions_total{container=\"db\",state=\"Ready\"} 1",
        "podgate_probe_seconds_count{container=\"db\",outcome=\"success\"}",
        "podgate_startup_seconds{container=\"db\"} ",
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
    assert!(get("/").starts_with("HTTP/1.1 404"));
    // A silent client does not block other clients.
    let _silent = TcpStream::connect(("127.0.0.1", metrics)).unwrap();
    assert!(get("/metrics").contains("podgate_build_info"));
}

#[test]
fn help_is_short_or_long_and_in_its_file() {
    crate::help::check_help(PROGRAM);
}
