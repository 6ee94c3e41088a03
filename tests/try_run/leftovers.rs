//! No process and no file stays behind, even if a process hides or `try` is killed.

use super::{Machine, scenarios, signal};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
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
        assert!(since.elapsed() < Duration::from_secs(20), "{what} takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns a Pod with processes that leave their environment, parent and session, and the arguments of these.
fn escapees(line: u32) -> (Value, [String; 2]) {
    let times =
        [1, 2].map(|number| format!("{}", (u64::from(std::process::id()) * 1000 + u64::from(line)) * 10 + number));
    let mut pod = scenarios::chain();
    let script = format!("env -i sleep {} & (env -i setsid sleep {} &) & wait", times[0], times[1]);
    pod["spec"]["containers"][0]["command"] = serde_json::json!(["sh", "-c", script]);
    (pod, times.map(|time| format!("sleep {time} ")))
}

/// Starts `try` with processes that hide, and with a gate that waits. Returns when all of them run.
fn start_escapees(machine: &Machine, line: u32) -> (Child, [String; 2]) {
    let (mut pod, escapees) = escapees(line);
    let mut command = machine.command(&["-", "--processes", "--ready=api=1m", "--break=api@never"]);
    pod["spec"]["containers"][1]["readinessProbe"] = serde_json::json!({"exec": {"command": ["x"]}});
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(pod.to_string().as_bytes()).unwrap();
    wait_until("the start", || escapees.iter().all(|words| !pids(|line| line == words).is_empty()));
    wait_until("the start of gates", || machine.processes().len() >= 5);
    (child, escapees)
}

fn assert_gone(escapees: &[String; 2]) {
    wait_until("the end of processes", || pids(|line| escapees.iter().any(|words| line == words)).is_empty());
}

/// Returns the pid of the inner process.
fn inner(outer: &Child) -> Pid {
    let words = format!(" try --inner {} ", outer.id());
    Pid::from_raw(pids(|line| line.contains(&words))[0]).unwrap()
}

#[test]
fn processes_that_hide_end_with_the_run() {
    let machine = Machine::new();
    for flags in [&["--processes"][..], &["--processes", "--stop"]] {
        let (pod, escapees) = escapees(line!() + flags.len() as u32);
        let run = machine.run_manifest(&pod, flags);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(pids(|line| escapees.iter().any(|words| line == words)).is_empty());
    }
}

#[test]
fn processes_that_hide_end_after_sigkill_of_either_process() {
    let machine = Machine::new();
    let (mut outer, escapees) = start_escapees(&machine, line!());
    signal(&outer, Signal::KILL);
    outer.wait().unwrap();
    machine.assert_clean();
    assert_gone(&escapees);

    let (mut outer, escapees) = start_escapees(&machine, line!());
    kill_process(inner(&outer), Signal::KILL).unwrap();
    assert_eq!(outer.wait().unwrap().code(), Some(137));
    machine.assert_clean();
    assert_gone(&escapees);
}

/// Only the folder, and processes that hide, may stay.
#[test]
fn sidecar_and_gates_end_after_sigkill_of_both_processes() {
    let machine = Machine::new();
    let (mut outer, _out) = machine.start_until(&["--ready", "db=1m"], "db       started");
    assert!(machine.processes().len() >= 4, "{:?}", machine.processes());
    let inner = inner(&outer);
    // A stopped process cannot clean up.
    signal(&outer, Signal::STOP);
    kill_process(inner, Signal::KILL).unwrap();
    signal(&outer, Signal::KILL);
    outer.wait().unwrap();
    wait_until("the end of sidecar and gates", || machine.processes().is_empty());
    for entry in fs::read_dir(machine.folder.path()).unwrap() {
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

/// After `exec`, the children of the shell are children of `try`.
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
fn folder_for_temporary_files_may_be_relative() {
    let machine = Machine::new();
    let mut command = machine.command(&super::QUICK);
    let output = command.current_dir(machine.folder.path()).env("TMPDIR", ".").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    machine.assert_clean();
}

#[test]
fn unusable_folder_for_temporary_files_is_one_error_line() {
    let machine = Machine::new();
    let unnamed = Path::new(std::ffi::OsStr::from_bytes(b"/tmp/\xff"));
    for (folder, expected) in [
        (unnamed, "the path is not UTF-8; set TMPDIR to another folder\n"),
        (Path::new("/no/such/folder"), "can't create a folder in /no/such/folder: no such file"),
        (Path::new("/proc"), "can't create a folder in /proc: "),
    ] {
        let mut child: Command = machine.command(&[]);
        let mut child = child.env("TMPDIR", folder).spawn().unwrap();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.lines().count()), (Some(1), 1), "{err}");
        assert!(err.contains(expected), "{expected:?} is missing in {err}");
    }
}
