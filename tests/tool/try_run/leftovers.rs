//! Tests that no process and no file stays behind. After SIGKILL, only the directory may stay.

use super::{Machine, scenarios, signal};
use crate::hang_guard::HANG_GUARD;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Returns the pids of the processes whose command line satisfies `is_wanted`.
fn pids(is_wanted: impl Fn(&str) -> bool) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let words = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
    pids.filter(|pid| is_wanted(&words(pid))).collect()
}

fn wait_until(what: &str, is_reached: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_reached() {
        assert!(since.elapsed() < HANG_GUARD, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts `try`. When this function returns, some gates wait, and one gate runs as the parent of its container's
/// command.
fn start(machine: &Machine) -> (Child, BufReader<impl Read + use<>>) {
    let flags = ["--ready=db=1m", "--timeout=2m"];
    let (child, out) = machine.start_until(&flags, "db       started");
    assert!(machine.processes().len() >= 4, "{:?}", machine.processes());
    (child, out)
}

/// SIGTERM and SIGHUP stop the containers in order, as Ctrl-C does.
#[test]
fn nothing_is_left_after_a_signal() {
    for by in [Signal::INT, Signal::TERM, Signal::HUP] {
        let machine = Machine::new();
        let (mut child, mut out) = start(&machine);
        signal(&child, by);
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3), "{text}");
        assert!(text.contains("the Pod stops") && text.contains("db       ended (SIGTERM)"), "{text}");
    }
}

/// `try` cannot delete its directory after SIGKILL, so the directory may stay.
#[test]
fn no_process_is_left_after_sigkill() {
    for wait_ms in [0, 3, 10, 30, 100, 300, 1000] {
        let machine = Machine::new();
        let mut pod = scenarios::chain();
        pod["metadata"]["annotations"]["podgate.io/job-sidecars"] = "db".into();
        let mut command = machine.command(&["-", "--stop"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(pod.to_string().as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        // A stopped process cannot clean up.
        signal(&child, Signal::STOP);
        signal(&child, Signal::KILL);
        child.wait().unwrap();
        wait_until("the end of all processes", || machine.processes().is_empty());
        for entry in fs::read_dir(machine.directory.path()).unwrap() {
            fs::remove_dir_all(entry.unwrap().path()).unwrap();
        }
    }
    let machine = Machine::new();
    let (mut child, _out) = start(&machine);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    wait_until("the end of all processes", || machine.processes().is_empty());
    for entry in fs::read_dir(machine.directory.path()).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
}

/// A script can read the verdict and end `try` at once.
#[test]
fn nothing_is_left_when_the_verdict_appears() {
    let machine = Machine::new();
    for by in [Signal::TERM, Signal::KILL] {
        let (mut outer, _out) = machine.start_until(&super::QUICK, "The order was kept");
        signal(&outer, by);
        outer.wait().unwrap();
        machine.assert_clean();
    }
}

/// After `exec`, the shell's former children are children of `try`. `try` must not end these processes.
#[test]
fn children_from_before_the_start_go_on() {
    let machine = Machine::new();
    let try_run = machine.command(&super::QUICK);
    let mut shell = Command::new("sh");
    shell.args(["-c", "sleep 61.25 & exec \"$0\" \"$@\""]).arg(try_run.get_program()).args(try_run.get_args());
    shell.envs(try_run.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdout(Stdio::null());
    assert_eq!(shell.status().unwrap().code(), Some(0));
    let left = pids(|line| line == "sleep 61.25 ");
    left.iter().for_each(|pid| kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).unwrap());
    assert_eq!(left.len(), 1);
}

#[test]
fn directory_for_temporary_files_may_be_relative() {
    let machine = Machine::new();
    let mut command = machine.command(&super::QUICK);
    let output = command.current_dir(machine.directory.path()).env("TMPDIR", ".").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    machine.assert_clean();
}

#[test]
fn unusable_directory_for_temporary_files_is_one_error_line() {
    let machine = Machine::new();
    let unnamed = Path::new(std::ffi::OsStr::from_bytes(b"/tmp/\xff"));
    for (directory, expected) in [
        (unnamed, "the path is not UTF-8; set TMPDIR to another directory\n"),
        (Path::new("/no/such/directory"), "cannot create a directory in /no/such/directory: no such file"),
        (Path::new("/proc"), "cannot create a directory in /proc: "),
    ] {
        let mut child: Command = machine.command(&[]);
        let mut child = child.env("TMPDIR", directory).spawn().unwrap();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.lines().count()), (Some(1), 1), "{err}");
        assert!(err.contains(expected), "{expected:?} is missing in {err}");
    }
}
