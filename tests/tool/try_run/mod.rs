//! Tests of `kubectl podgate try`: order, faults, exit codes, output, and that nothing stays behind.
#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

mod faults;
mod leftovers;
mod random;
mod scenarios;
mod verdicts;

use crate::hang_guard::HANG_GUARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-podgate");
/// Delays of the built-in example that make a run short.
const QUICK: [&str; 4] = ["--ready=db=300ms", "--ready=api=200ms", "--ready=web=100ms", "--timeout=20s"];

/// Directory for temporary files of one run. On drop, the directory must be empty, and no process of the run may be
/// left.
struct Machine {
    directory: TempDir,
}

/// Exit code and output of a run.
#[derive(Debug)]
struct Outcome {
    code: i32,
    out: String,
    err: String,
}

impl Machine {
    fn new() -> Machine {
        Machine { directory: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("try").args(arguments).env("TMPDIR", self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Outcome { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs `try` without FILE, with this standard input.
    fn run_with_input(&self, input: fs::File, arguments: &[&str]) -> Outcome {
        let output = self.command(arguments).stdin(input).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Outcome { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs `try` with `manifest` on standard input.
    fn run_manifest(&self, manifest: &Value, arguments: &[&str]) -> Outcome {
        let mut child = self.command(&[&["-"], arguments].concat()).stdin(Stdio::piped()).spawn().unwrap();
        // Ignore the error: with wrong arguments, `try` ends before it reads the manifest.
        let _ = child.stdin.take().unwrap().write_all(manifest.to_string().as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Outcome { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Starts `try`, and returns it once a line contains `text`.
    fn start_until(&self, arguments: &[&str], text: &str) -> (Child, BufReader<impl Read + use<>>) {
        let mut child = self.command(arguments).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "the output ended without {text:?}");
        }
        (child, out)
    }

    /// Returns the command lines of all processes of the run.
    fn processes(&self) -> Vec<String> {
        let mark = format!("PODGATE_BOARD={}", self.directory.path().display());
        let board = self.directory.path().join("podgate-try-").display().to_string();
        let is_own = |path: &Path| {
            let environment = fs::read(path.join("environ")).unwrap_or_default();
            // Only root can read the sidecar's environment, so also search the command line.
            environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(mark.as_bytes()))
                || fs::read_to_string(path.join("cmdline")).is_ok_and(|words| words.contains(&board))
        };
        let processes = fs::read_dir("/proc").unwrap().flatten().filter(|entry| is_own(&entry.path()));
        processes.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok()).collect()
    }

    /// Waits until no process and no file is left.
    fn assert_clean(&self) {
        let is_empty = || self.processes().is_empty() && fs::read_dir(self.directory.path()).unwrap().next().is_none();
        let since = Instant::now();
        while !is_empty() {
            assert!(since.elapsed() < HANG_GUARD, "left behind: {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.assert_clean();
        }
    }
}

impl Outcome {
    /// Returns the events in the order of their times, such as `db Ready`.
    fn events(&self) -> Vec<(f64, String)> {
        let event = |line: &str| {
            let (time, rest) = line.split_once(" s  ")?;
            let time: f64 = time.trim().parse().ok()?;
            Some((time, rest.split_whitespace().collect::<Vec<_>>().join(" ")))
        };
        let mut events: Vec<(f64, String)> = self.out.lines().filter_map(event).collect();
        // On a busy machine, `try` may print a line late.
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        events
    }

    /// Asserts that these events occur in this order. Events within the same 10 ms may be printed in any order.
    fn assert_events(&self, expected: &[&str]) {
        let (mut events, mut last) = (self.events(), 0.0);
        for wanted in expected {
            let found = events.iter().position(|(time, event)| *time >= last && event.starts_with(wanted));
            let found = found.unwrap_or_else(|| panic!("{wanted:?} is missing in {}{}", self.out, self.err));
            (last, _) = events.remove(found);
        }
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn example_starts_and_stops_in_order() {
    let run = Machine::new().run(&[&QUICK[..], &["--stop"]].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    run.assert_events(&[
        "podgate started",
        "db started",
        "db Ready",
        "api started",
        "api Ready",
        "web started",
        "web Ready",
    ]);
    run.assert_events(&[
        "the Pod stops",
        "web ended (SIGTERM)",
        "api ended",
        "db ended",
        "podgate ended (exit code 0)",
    ]);
    for expected in [
        "The order was kept: the built-in example started in ",
        " ms after db was Ready; without podgate, ",
        "- web started ",
        "- db stopped ",
    ] {
        assert!(run.out.contains(expected), "{expected:?} is missing in {}", run.out);
    }
}

#[test]
fn output_formats_go_to_standard_output_alone() {
    let machine = Machine::new();
    let run = machine.run(&[&QUICK[..], &["-o", "json"]].concat());
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, &json["started"]), (0, &Value::Bool(true)));
    assert!(json["summary"].as_str().unwrap().starts_with("The order was kept"), "{json:#}");
    assert_eq!(json["containers"].as_array().unwrap().len(), 4);
    assert!(run.err.contains("db       Ready"), "{}", run.err);
}

/// The program `script` of util-linux provides the terminal.
#[test]
fn chart_grows_on_a_terminal() {
    let machine = Machine::new();
    let words = format!("stty columns 100 rows 40; {PROGRAM} try {}", QUICK.join(" "));
    let mut command = Command::new("script");
    let output = command.args(["-qec", &words, "/dev/null"]).env("TMPDIR", machine.directory.path()).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}");
    let charts = out.matches("the built-in example after ").count();
    assert!(charts >= 3, "{charts} charts in {out}");
    // The report replaces the last chart.
    let (_, report) = out.rsplit_once("\u{1b}[J").unwrap();
    assert!(report.contains("The order was kept") && !report.contains("example after"), "{report}");
}

#[test]
fn order_broken_by_a_declared_time_out_exits_with_2() {
    let mut pod = scenarios::chain();
    pod["spec"]["containers"][0]["readinessProbe"] = serde_json::json!({"exec": {"command": ["pg_isready"]}});
    pod["metadata"]["annotations"]["podgate.io/timeout"] = "300ms".into();
    pod["metadata"]["annotations"]["podgate.io/on-timeout"] = "continue".into();
    let run = Machine::new().run_manifest(&pod, &["--break", "db@never", "--timeout", "3s"]);
    assert_eq!(run.code, 2, "{}", run.out);
    assert!(run.out.contains("api started although db=Ready was not met: the order was broken."), "{}", run.out);
}

#[test]
fn unusable_input_exits_with_1_and_one_line() {
    let machine = Machine::new();
    let mut undeclared = scenarios::chain();
    undeclared["metadata"]["annotations"] = serde_json::json!({});
    let mut wrong = scenarios::chain();
    wrong["metadata"]["annotations"]["podgate.io/order"] = "db, ap".into();
    for (pod, expected) in [
        (undeclared, "<stdin>: no Pod or Pod template declares an order; add the annotation podgate.io/order"),
        (wrong, "did you mean api"),
    ] {
        let run = machine.run_manifest(&pod, &[]);
        assert_eq!((run.code, run.out.as_str(), run.err.lines().count()), (1, "", 1), "{}", run.err);
        assert!(run.err.to_lowercase().contains(&expected.to_lowercase()), "{expected:?} is missing in {}", run.err);
    }
    // If agent and sidecar are not in the program's directory, the program prints how to build the two.
    let alone = tempfile::tempdir().unwrap();
    let program = alone.path().join("kubectl-podgate");
    fs::copy(PROGRAM, &program).unwrap();
    let output = Command::new(program).arg("try").env("PATH", "/nonexistent").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && err.contains("run `make agent controller` in podgate's source"),
        "{err}"
    );
}

#[test]
fn wrong_flags_exit_with_64() {
    for (arguments, expected) in [
        (&["--break", "db"][..], "write NAME@FAULT"),
        (&["--break", "@never"], "write NAME@FAULT, such as db@never"),
        (&["--break", "db@hang"], "is not a fault"),
        (&["--break", "db@slow:1s"], "is not a fault; write never, crash:3s, kill:2s or ignores-term"),
        (&["--break", "sidecar@never"], "can only be killed"),
        (&["--break", "dbb@never"], "--break dbb: the Pod has no such container; choose one of db, api, web"),
        (&["--ready", "db"], "write NAME=DURATION"),
        (&["--ready", "dbb=1s"], "--ready dbb: the Pod has no such container"),
        (&["--timeout", "0s"], "between 1ms and 1day"),
    ] {
        let run = Machine::new().run(arguments);
        assert!(run.code == 64 && run.err.contains(expected), "{arguments:?}: {run:?}");
    }
}

#[test]
fn interrupt_stops_in_order_and_a_second_one_at_once() {
    let machine = Machine::new();
    let arguments = ["--ready=db=100ms", "--ready=api=1m"];
    let (mut child, mut out) = machine.start_until(&arguments, "api      started");
    signal(&child, Signal::INT);
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    let stopped = Outcome { code: child.wait().unwrap().code().unwrap(), out: text, err: String::new() };
    assert_eq!(stopped.code, 3, "{}", stopped.out);
    assert!(stopped.out.contains("api was not Ready when you stopped the run."), "{}", stopped.out);
    stopped.assert_events(&["Ctrl-C or a signal", "the Pod stops", "api ended", "db ended", "podgate ended"]);

    let (mut child, _out) = machine.start_until(&arguments, "api      started");
    for _ in 0..2 {
        signal(&child, Signal::INT);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// The manifest may be untrusted. `try` must not run a command of the manifest, or pass a value of it to a program.
#[test]
fn nothing_of_the_manifest_runs() {
    let directory = tempfile::tempdir().unwrap();
    let touch = |name: &str| serde_json::json!(["touch", directory.path().join(name).to_str().unwrap()]);
    let exec = |name: &str| serde_json::json!({"exec": {"command": touch(name)}, "periodSeconds": 1});
    let program = directory.path().join("sh").to_str().unwrap().to_owned();
    fs::write(&program, format!("#!/bin/sh\n/bin/touch {}/program", directory.path().display())).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut pod = scenarios::chain();
    for container in pod["spec"]["containers"].as_array_mut().unwrap() {
        container["command"] = touch("command");
        container["args"] = touch("args");
        container["workingDir"] = directory.path().to_str().into();
        container["env"] = serde_json::json!([
            {"name": "PATH", "value": directory.path()}, {"name": "LD_PRELOAD", "value": program},
            {"name": "PODGATE_BOARD", "value": directory.path()},
        ]);
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            container[probe] = exec(probe);
        }
        container["lifecycle"] = serde_json::json!({"postStart": exec("postStart"), "preStop": exec("preStop")});
        container["lifecycle"]["postStart"].as_object_mut().unwrap().remove("periodSeconds");
        container["lifecycle"]["preStop"].as_object_mut().unwrap().remove("periodSeconds");
    }
    pod["spec"]["containers"][2].as_object_mut().unwrap().remove("command");
    let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.insert("command.podgate.io/web".into(), touch("annotation").to_string().into());
    annotations.insert("ready.podgate.io/db".into(), format!("exec:{}", touch("ready")).into());
    annotations.insert("check.podgate.io/api".into(), format!("exec:{}", touch("check")).into());
    pod["spec"]["initContainers"] = serde_json::json!([{"name": "init", "image": "x", "command": touch("init")}]);
    let run = Machine::new().run_manifest(&pod, &["--stop", "--timeout=20s"]);
    assert_eq!(run.code, 0, "{run:?}");
    for name in ["db", "api", "web"] {
        for hook in ["postStart", "preStop"] {
            assert!(run.out.contains(&format!("the {hook} hook of {name} does not run here\n")), "{}", run.out);
        }
    }
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["sh"], "{run:?}");
    let run = Machine::new().run_manifest(&pod, &["--processes"]);
    assert!(run.code == 64 && run.err.contains("unexpected argument '--processes'"), "{run:?}");
}
