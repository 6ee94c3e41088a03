//! The wall clock jumps by an hour while a hook waits, or a gate does: nobody goes early, nobody stays longer. A node's own
//! clock is not for a test to step, so the programs' view of it is (tests build them for the C library of this machine; that
//! they log the new time shows that it is).

use crate::{AGENT, Pod, db, free_port, stderr, until};
use podgate::core::report::Report;
use podgate::core::{annotations, names};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

const HOUR: u64 = 3600;

/// Makes `command` see the wall clock jump by `seconds` once the file `step` is in the pod's folder.
fn steps(command: &mut Command, library: &Path, pod: &Pod, seconds: i64) {
    command.env("LD_PRELOAD", library).env("STEP_WHEN", pod.path("step")).env("STEP_SECONDS", seconds.to_string());
}

fn library(pod: &Pod) -> std::path::PathBuf {
    let library = pod.path("step_clock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/controller/step_clock.c");
    let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    library
}

/// How far the time in a line of a log is from the machine's, in seconds.
fn stamped_off(line: &str) -> i64 {
    let stamp = line.split([' ', '"']).find(|word| word.starts_with("20") && word.ends_with('Z')).unwrap();
    let said = humantime::parse_rfc3339(stamp).unwrap();
    let forth = said.duration_since(SystemTime::now()).map(|ahead| ahead.as_secs() as i64);
    forth.unwrap_or_else(|behind| -(behind.duration().as_secs() as i64))
}

fn jump(containers: &str, port: u16, waiter: &[&str], seconds: i64) {
    let pod = Pod::new();
    let library = library(&pod);
    let _sidecar = pod.sidecar_with(containers, &[], |command| steps(command, &library, &pod, seconds));
    pod.report("db", Report::default());
    let wait = |limit: &str, log: &str| {
        let mut command = Command::new(AGENT);
        command.args([waiter[0], "--board", "board", "--timeout", limit, "--log-to", log, "--termination-log", "last"]);
        command.args(&waiter[1..]).current_dir(pod.root.path()).stderr(Stdio::piped());
        steps(&mut command, &library, &pod, seconds);
        let waits = command.spawn().unwrap();
        until("it waits", || {
            std::fs::read_to_string(pod.path(log)).is_ok_and(|log| log.contains("waits for db=Ready"))
        });
        waits
    };
    let jump = || std::fs::write(pod.path("step"), "").unwrap();

    // The time limit is as long as it was.
    let since = Instant::now();
    let waits = wait("2s", "short");
    jump();
    let output = waits.wait_with_output().unwrap();
    let waited = since.elapsed();
    assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
    assert!(waited >= Duration::from_secs(2) && waited < Duration::from_secs(20), "it waited {waited:?}");

    // Who waits goes on waiting, and goes when db is Ready.
    std::fs::remove_file(pod.path("step")).unwrap();
    let mut waits = wait("10m", "long");
    jump();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(waits.try_wait().unwrap().is_none());
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let ready = Instant::now();
    let output = waits.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(ready.elapsed() < Duration::from_secs(10), "{:?} after db was Ready", ready.elapsed());

    // Agent and sidecar have both seen it jump.
    let log = std::fs::read_to_string(pod.path("long")).unwrap();
    let board = std::fs::read(pod.path("board").join(names::ANNOTATIONS_FILE)).unwrap();
    let board = annotations::read(&board, |_| true).unwrap();
    for line in [log.lines().last().unwrap(), &board[names::SANDBOX_SEEN]] {
        assert!(stamped_off(line).unsigned_abs().abs_diff(HOUR) < 60, "{line}");
    }
}

#[test]
fn the_wall_clock_jumps_while_a_hook_waits() {
    for seconds in [3600, -3600] {
        let port = free_port();
        jump(&db(port), port, &["post-start", "--self", "self/db", "--container", "db"], seconds);
    }
}

#[test]
fn the_wall_clock_jumps_while_a_gate_waits() {
    for seconds in [3600, -3600] {
        let port = free_port();
        let web = r#"{"name":"web","mode":"entrypoint","until":["db"]}"#;
        let containers = db(port).replace(r#"{"name":"web"}"#, web);
        jump(&containers, port, &["entrypoint", "--self", "self/web", "--until", "db", "--", "true"], seconds);
    }
}
