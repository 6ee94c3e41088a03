//! Tests of `kubectl podgate try`: order, faults, exit codes, output, and that nothing stays behind.
#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

mod faults;
mod input;
mod leftovers;
mod random;
mod scenarios;
mod verdicts;

use crate::hang_guard::HANG_GUARD;
use crate::screen::assert_screen;
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

    /// Returns the output with the digit 0 in all times, and one short bar for each container. Sorts the events by time.
    fn timeless(&self) -> String {
        let mut lines: Vec<&str> = self.out.lines().collect();
        let end = lines.iter().position(|line| line.is_empty()).unwrap();
        lines[1..end].sort_by(|a, b| a[..8].cmp(&b[..8]));
        let fix = |line: &&str| match line {
            line if line.starts_with("- ") => {
                let fix = |word| match word {
                    "s" | "ms" => "ms",
                    word if word.parse::<f64>().is_ok() => "0",
                    word => word,
                };
                line.split(' ').map(fix).collect::<Vec<_>>().join(" ")
            }
            line if line.trim_start().starts_with("0s ") => line[..line.find("0s").unwrap() + 2].to_owned(),
            line if line.ends_with('█') => format!("{}███", &line[..9]),
            line => line.replace(|c: char| c.is_ascii_digit(), "0"),
        };
        lines.iter().map(|line| fix(line) + "\n").collect()
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
    let arguments = [&QUICK[..], &["--stop"]].concat();
    let mut runs = (0..5).map(|_| Machine::new().run(&arguments));
    // On a busy machine, a run may take 10 s, and have wider columns.
    let run = runs.find(|run| run.events().last().is_none_or(|(time, _)| *time < 10.0)).unwrap();
    assert_screen("try", &[&["try"], &arguments[..]].concat(), &(run.code, run.timeless(), run.err));
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
