//! Tests a jump of the wall clock by an hour while a hook or a gate waits. The jump must not change the time limit. A
//! test cannot change the node's clock, so a preloaded library changes the clock that the programs read. The programs
//! must be linked dynamically to this machine's C library. The times in the programs' logs prove the jump.

use super::{AGENT, Pod, db, free_port, stderr, until};
use podgate::core::report::Report;
use podgate::core::{annotations, names};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

const HOUR: u64 = 3600;

/// Makes the wall clock jump by `seconds` for `command` when the file `step` exists in the Pod's directory.
fn step_clock(command: &mut Command, library: &Path, pod: &Pod, seconds: i64) {
    command.env("LD_PRELOAD", library).env("STEP_WHEN", pod.path("step")).env("STEP_SECONDS", seconds.to_string());
}

/// Compiles `tests/sidecar/program/NAME.c` to a library for `LD_PRELOAD`.
pub(crate) fn library(pod: &Pod, name: &str) -> std::path::PathBuf {
    let library = pod.path(&format!("{name}.so"));
    let source = format!("{}/tests/sidecar/program/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    library
}

/// Returns the difference between the time in a log line and the machine's time, in seconds.
fn time_difference(line: &str) -> i64 {
    let stamp = line.split([' ', '"']).find(|word| word.starts_with("20") && word.ends_with('Z')).unwrap();
    let logged = humantime::parse_rfc3339(stamp).unwrap();
    let ahead = logged.duration_since(SystemTime::now()).map(|ahead| ahead.as_secs() as i64);
    ahead.unwrap_or_else(|behind| -(behind.duration().as_secs() as i64))
}

/// Waits until the agent exits. Returns its exit status and the rest of its log.
fn end((mut agent, mut log): (Child, BufReader<ChildStderr>)) -> (ExitStatus, String) {
    until("the agent exits", || agent.try_wait().unwrap().is_some());
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    (agent.wait().unwrap(), rest)
}

/// Makes the clock jump forward in one Pod and back in another.
fn jump_both_ways(containers: impl Fn(u16) -> String + Sync, waiter: &[&str]) {
    std::thread::scope(|scope| {
        for seconds in [3600, -3600] {
            let (port, containers) = (free_port(), &containers);
            scope.spawn(move || jump(&containers(port), port, waiter, seconds));
        }
    });
}

fn jump(containers: &str, port: u16, waiter: &[&str], seconds: i64) {
    let pod = Pod::new();
    let library = library(&pod, "step_clock");
    let _sidecar = pod.sidecar_with(containers, &[], |command| step_clock(command, &library, &pod, seconds));
    pod.report("db", Report::default());
    let wait = |limit: &str| {
        let mut command = Command::new(AGENT);
        command.args([
            waiter[0],
            "--board",
            "board",
            "--timeout",
            limit,
            "--log-to",
            "/proc/self/fd/2",
            "--termination-log",
            "last",
        ]);
        command.args(&waiter[1..]).current_dir(pod.root.path()).stderr(Stdio::piped());
        step_clock(&mut command, &library, &pod, seconds);
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(": waiting for db=Ready") {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the agent has exited");
        }
        (child, log)
    };
    let jump = || std::fs::write(pod.path("step"), "").unwrap();

    // The jump does not change the time limit.
    let since = Instant::now();
    let agent = wait("2s");
    jump();
    let (status, log) = end(agent);
    assert_eq!(status.code(), Some(75), "{log}");
    assert!(since.elapsed() >= Duration::from_secs(2), "the agent waited {:?}", since.elapsed());

    // The agent continues to wait until db is Ready.
    std::fs::remove_file(pod.path("step")).unwrap();
    let mut agent = wait("10m");
    jump();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(agent.0.try_wait().unwrap().is_none());
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let (status, log) = end(agent);
    assert!(status.success(), "{log}");

    // The jump was visible to both agent and sidecar.
    let board = std::fs::read(pod.path("board").join(names::ANNOTATIONS_FILE)).unwrap();
    let board = annotations::read(&board, |_| true).unwrap();
    for line in [log.lines().last().unwrap(), &board[names::LAST_SEEN_TIME_KEY]] {
        assert!(time_difference(line).unsigned_abs().abs_diff(HOUR) < 60, "{line}");
    }
}

#[test]
fn waiting_hook_ignores_a_jump_of_the_wall_clock() {
    jump_both_ways(db, &["post-start", "--self", "self/db", "--container", "db"]);
}

#[test]
fn waiting_gate_ignores_a_jump_of_the_wall_clock() {
    let web = r#"{"name":"web","mode":"entrypoint","until":["db"]}"#;
    let containers = |port| db(port).replace(r#"{"name":"web"}"#, web);
    jump_both_ways(containers, &["entrypoint", "--self", "self/web", "--until", "db", "--", "true"]);
}
