//! The agent's binary as a child: run to its end, or watched while it waits.

use super::{WAIT_LIMIT, wait_until};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_podgate");

/// The agent, about to be run.
pub(crate) struct Agent {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    termination: PathBuf,
}

/// The agent, while it runs. Killed when dropped.
pub(crate) struct RunningAgent {
    child: Child,
    started: Instant,
    termination: PathBuf,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct AgentOutput {
    /// Exit code, or 128 + N for signal N.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Agent {
    pub(crate) fn new(arguments: &[&str], termination: &Path) -> Agent {
        Agent {
            program: PROGRAM.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            // What goes wrong with the flags themselves must not land in the machine's own /dev/termination-log.
            environment: vec![("PODGATE_TERMINATION_LOG".into(), termination.into())],
            termination: termination.to_owned(),
        }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Agent {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds `--name value`, in the place of an earlier one unless the flag is repeatable.
    pub(crate) fn flag(self, name: &str, value: impl AsRef<OsStr>) -> Agent {
        let this = if ["until", "check", "check-closed"].contains(&name) { self } else { self.without_flag(name) };
        this.arg(format!("--{name}")).arg(value)
    }

    pub(crate) fn without_flag(mut self, name: &str) -> Agent {
        let flag: OsString = format!("--{name}").into();
        if let Some(at) = self.arguments.iter().position(|argument| *argument == flag) {
            self.arguments.drain(at..at + 2);
        }
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Agent {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// What the gate stands in front of.
    pub(crate) fn with_command(self, command: &[&str]) -> Agent {
        command.iter().fold(self.arg("--"), Agent::arg)
    }

    /// With a further descriptor, open on `file`, which is not closed at `execve`.
    pub(crate) fn with_open_file(mut self, file: &Path) -> Agent {
        let script = format!("exec 9<{}; exec \"$0\" \"$@\"", file.display());
        let words = ["-c".into(), script.into(), self.program.clone().into_os_string()];
        self.arguments.splice(0..0, words);
        self.program = "sh".into();
        self
    }

    /// As the first process of a PID namespace, which is what a container's command is.
    pub(crate) fn in_a_pid_namespace(mut self) -> Agent {
        let words = ["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"].map(OsString::from);
        self.arguments.splice(0..0, words.into_iter().chain([self.program.clone().into()]));
        self.program = "unshare".into();
        self
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().env("PATH", "/usr/bin:/bin");
        command.envs(self.environment.iter().cloned()).stdin(Stdio::null());
        command
    }

    pub(crate) fn spawn(self) -> RunningAgent {
        let started = Instant::now();
        let child = self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        RunningAgent { child, started, termination: self.termination }
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> AgentOutput {
        self.spawn().wait()
    }

    /// Starts it, and returns when it waits.
    pub(crate) fn spawn_waiting(self) -> RunningAgent {
        let mut waiting = self.spawn();
        waiting.wait_until_waiting();
        waiting
    }
}

impl RunningAgent {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How long it has run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns once it has said for what it waits.
    pub(crate) fn wait_until_waiting(&mut self) {
        wait_until("the agent says for what it waits", || {
            let message = std::fs::read_to_string(&self.termination).unwrap();
            assert!(self.child.try_wait().unwrap().is_none(), "ended before it waited: {message}");
            message.contains(": waiting for")
        });
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end, and for the end of its output. Fails the test if that does not come.
    pub(crate) fn wait(mut self) -> AgentOutput {
        let (mut stdout, mut stderr) = (self.child.stdout.take().unwrap(), self.child.stderr.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).unwrap();
            text
        });
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).unwrap();
            text
        });
        wait_until("the agent ends", || self.child.try_wait().unwrap().is_some());
        let took = self.started.elapsed();
        wait_until("the agent's output ends", || reader.is_finished() && errors.is_finished());
        let status = self.child.wait().unwrap();
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        AgentOutput {
            code: status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap(),
            stdout: text(reader.join().unwrap()),
            stderr: text(errors.join().unwrap()),
            took,
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        self::signal(self.id(), signal);
    }

    /// Its only child.
    pub(crate) fn child(&self) -> u32 {
        let id = self.id();
        std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap().trim().parse().unwrap()
    }

    /// How often it has gone to sleep so far.
    pub(crate) fn sleep_count(&self) -> u64 {
        status_field(self.id(), "voluntary_ctxt_switches:").unwrap()
    }

    pub(crate) fn thread_count(&self) -> u64 {
        status_field(self.id(), "Threads:").unwrap()
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl AgentOutput {
    /// Ended with `code`, and said so in one short line that holds `says`.
    #[track_caller]
    pub(crate) fn assert_failed(&self, code: i32, says: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stderr.contains(says), "{says:?} is not in {self:?}");
        assert!(self.stderr.ends_with('\n') && self.stderr.lines().count() == 1, "not one line: {self:?}");
        assert!(self.stderr.len() + self.stdout.len() < 1024, "too long: {self:?}");
        assert_eq!(self.stdout, "");
    }

    /// Ended with 0, silently.
    #[track_caller]
    pub(crate) fn assert_released(&self) {
        assert_eq!((self.code, self.stdout.as_str(), self.stderr.as_str()), (0, "", ""), "{self:?}");
    }
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn status_field(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// A shell in namespaces of its own, fed line by line. Ends with its test.
pub(crate) struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Shell {
    /// `None` where this machine does not let us make the namespaces: the test has nothing to run in then.
    pub(crate) fn in_namespaces(unshare: &[&str]) -> Option<Shell> {
        let mut command = Command::new("unshare");
        command.args(unshare).args(["sh", "-s"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().ok()?;
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take()?));
        let mut shell = Shell { child, input, output };
        let lives = shell.try_run("true").is_some();
        if !lives {
            eprintln!("skipped: no namespaces by unshare {unshare:?} here");
        }
        lives.then_some(shell)
    }

    /// Runs one line, and returns its exit code.
    pub(crate) fn run(&mut self, line: &str) -> i32 {
        self.try_run(line).unwrap_or_else(|| panic!("the shell has ended at {line}"))
    }

    fn try_run(&mut self, line: &str) -> Option<i32> {
        writeln!(self.input.as_mut()?, "{line}\necho \"$?\"").ok()?;
        let mut answer = String::new();
        self.output.read_line(&mut answer).ok()?;
        answer.trim().parse().ok()
    }

    /// Starts `agent` in the background, its standard error going to `errors`; [`wait`](Self::join) waits for it.
    pub(crate) fn start_agent(&mut self, agent: &Agent, errors: &Path) {
        let quoted = |word: &OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"));
        let words: Vec<String> = agent.arguments.iter().map(|word| quoted(word)).collect();
        let line = format!("{PROGRAM} {} </dev/null >/dev/null 2>{} &", words.join(" "), quoted(errors.as_os_str()));
        assert_eq!(self.run(&line), 0);
    }

    /// The exit code of what was started.
    pub(crate) fn wait_for_agent(&mut self) -> i32 {
        self.run("wait $!")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // At the end of its input it ends by itself; what it has started in the background is ended first.
        let _ = self.try_run("kill $(jobs -p) 2>/dev/null");
        drop(self.input.take());
        let start = Instant::now();
        while start.elapsed() < WAIT_LIMIT && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
