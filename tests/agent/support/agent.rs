//! Runs the agent's binary as a child process, until it exits or in the background while it waits.

use super::log_pipe::LogPipe;
use super::wait_until;
use crate::hang_guard::HANG_GUARD;
use crate::needs::missing;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_podgate");

/// An invocation of the agent that has not started yet.
pub(crate) struct Agent {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    termination: PathBuf,
}

/// A running agent, which is killed on drop.
pub(crate) struct RunningAgent {
    child: Child,
    started: Instant,
    termination: PathBuf,
}

/// Exit code, output and run time of an agent that has exited.
#[derive(Debug)]
pub(crate) struct AgentOutput {
    /// Exit code, or 128 + N after signal N.
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
            // Without this variable, the agent would write usage errors to the machine's /dev/termination-log.
            environment: vec![("PODGATE_TERMINATION_LOG".into(), termination.into())],
            termination: termination.to_owned(),
        }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Agent {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds `--name value`. Replaces an earlier value unless the flag is repeatable.
    pub(crate) fn flag(self, name: &str, value: impl AsRef<OsStr>) -> Agent {
        let this = if ["until", "check"].contains(&name) { self } else { self.without_flag(name) };
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

    /// Adds `--` and the command that the gate runs.
    pub(crate) fn with_command(self, command: &[&str]) -> Agent {
        command.iter().fold(self.arg("--"), Agent::arg)
    }

    /// Runs the agent with descriptor 9 open on `file`. `execve` does not close this descriptor.
    pub(crate) fn with_open_file(mut self, file: &Path) -> Agent {
        let script = format!("exec 9<{}; exec \"$0\" \"$@\"", file.display());
        let words = ["-c".into(), script.into(), self.program.clone().into_os_string()];
        self.arguments.splice(0..0, words);
        self.program = "sh".into();
        self
    }

    /// Runs the agent as the first process of a PID namespace, like a container's command.
    pub(crate) fn in_a_pid_namespace(mut self) -> Agent {
        let words = ["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"].map(OsString::from);
        self.arguments.splice(0..0, words.into_iter().chain([self.program.clone().into()]));
        self.program = "unshare".into();
        self
    }

    /// Runs the agent in a pseudoterminal that python3 creates.
    pub(crate) fn in_a_terminal(mut self) -> Agent {
        let words = ["-c", "import pty, sys; pty.spawn(sys.argv[1:])"].map(OsString::from);
        self.arguments.splice(0..0, words.into_iter().chain([self.program.clone().into()]));
        self.program = "python3".into();
        self
    }

    /// Runs the agent under a seccomp filter in which the system call `number` fails with `errno`.
    pub(crate) fn denied(mut self, number: i64, errno: i32) -> Agent {
        const SCRIPT: &str = "import ctypes, os, struct, sys\n\
            rule = lambda *fields: struct.pack('HBBI', *fields)\n\
            load, is_denied = rule(0x20, 0, 0, 0), rule(0x15, 0, 1, int(sys.argv[1]))\n\
            deny, allow = rule(6, 0, 0, 0x50000 + int(sys.argv[2])), rule(6, 0, 0, 0x7fff0000)\n\
            rules = ctypes.create_string_buffer(load + is_denied + deny + allow)\n\
            prctl = ctypes.CDLL(None, use_errno=True).prctl\n\
            assert prctl(38, 1, 0, 0, 0) == 0\n\
            assert prctl(22, 2, struct.pack('HP', 4, ctypes.addressof(rules))) == 0, os.strerror(ctypes.get_errno())\n\
            os.execv(sys.argv[3], sys.argv[3:])";
        let words = ["-c".into(), SCRIPT.into(), number.to_string().into(), errno.to_string().into()];
        self.arguments.splice(0..0, words.into_iter().chain([self.program.clone().into()]));
        self.program = "python3".into();
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

    /// Runs the agent until it exits.
    pub(crate) fn run(self) -> AgentOutput {
        self.spawn().wait()
    }

    /// Starts the agent and returns once it waits.
    pub(crate) fn spawn_waiting(self) -> RunningAgent {
        let mut agent = self.spawn();
        agent.wait_until_waiting();
        agent
    }
}

impl RunningAgent {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns once the termination message names the conditions that the agent waits for.
    pub(crate) fn wait_until_waiting(&mut self) {
        wait_until("the agent waits", || {
            let message = std::fs::read_to_string(&self.termination).unwrap();
            assert!(self.child.try_wait().unwrap().is_none(), "the agent exited before it waited: {message}");
            message.contains(": waiting for")
        });
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until the agent exits and its output ends. Panics if either takes longer than `HANG_GUARD`.
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
        wait_until("the agent exits", || self.child.try_wait().unwrap().is_some());
        let took = self.started.elapsed();
        wait_until("the agent's output ends", || reader.is_finished() && errors.is_finished());
        let status = self.child.wait().unwrap();
        let text = |bytes| String::from_utf8(bytes).expect("the agent writes UTF-8");
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

    /// Returns the pid of the agent's only child.
    pub(crate) fn child(&self) -> u32 {
        let id = self.id();
        std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap().trim().parse().unwrap()
    }

    /// Returns the number of times that the agent has gone to sleep so far.
    pub(crate) fn sleep_count(&self) -> u64 {
        status_field(self.id(), "voluntary_ctxt_switches:").unwrap()
    }

    /// Asserts that without events the agent only wakes up for the slow re-read of the board, at most once per second.
    pub(crate) fn assert_idle(&self) {
        std::thread::sleep(Duration::from_millis(50));
        let (since, before) = (Instant::now(), self.sleep_count());
        std::thread::sleep(Duration::from_millis(1200));
        let wake_ups = self.sleep_count() - before;
        let seconds = since.elapsed().as_secs_f64();
        assert!(wake_ups >= 1 && wake_ups as f64 <= seconds + 1.0, "{wake_ups} wake-ups in {seconds} s");
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
    /// Asserts that the agent exited with `code` after one short line on standard error that contains `message`.
    #[track_caller]
    pub(crate) fn assert_failed(&self, code: i32, message: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stderr.contains(message), "{message:?} is not in {self:?}");
        assert!(self.stderr.ends_with('\n') && self.stderr.lines().count() == 1, "not one line: {self:?}");
        assert!(self.stderr.len() + self.stdout.len() < 1024, "too long: {self:?}");
        assert_eq!(self.stdout, "");
    }

    /// Asserts that the agent exited with 0 and without output.
    #[track_caller]
    pub(crate) fn assert_released(&self) {
        assert_eq!((self.code, self.stdout.as_str(), self.stderr.as_str()), (0, "", ""), "{self:?}");
    }
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Sends the signal `number`, which may be a real-time signal.
pub(crate) fn send(pid: u32, number: i32) {
    let sent = Command::new("kill").arg(format!("-{number}")).arg(pid.to_string()).status();
    assert!(sent.unwrap().success());
}

fn status_field(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// A shell in its own namespaces, which runs one line at a time and exits on drop.
pub(crate) struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Pipe for the errors of the shell and the log of the agents.
    pub(crate) log: Arc<LogPipe>,
}

/// Descriptor to which agents in a [`Shell`] write their log. In a user namespace, agents cannot open descriptors of
/// this process.
const LOG_FD: u8 = 9;

impl Shell {
    /// Starts the shell. Returns `None` if the machine does not permit the namespaces and the test may be skipped.
    pub(crate) fn in_namespaces(unshare: &[&str]) -> Option<Shell> {
        let mut command = Command::new("unshare");
        command.args(unshare).args(["sh", "-s"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let log = LogPipe::new(|_| format!("/proc/self/fd/{LOG_FD}"));
        let mut child = command.stderr(log.writer()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut shell = Shell { child, input, output, log };
        let is_running = shell.try_run("true").is_some();
        if !is_running {
            missing("namespaces");
        }
        is_running.then_some(shell)
    }

    /// Runs one line and returns its exit code.
    pub(crate) fn run(&mut self, line: &str) -> i32 {
        self.try_run(line).unwrap_or_else(|| panic!("the shell exited at this line: {line}"))
    }

    fn try_run(&mut self, line: &str) -> Option<i32> {
        writeln!(self.input.as_mut()?, "{line}\necho \"$?\"").ok()?;
        let mut answer = String::new();
        self.output.read_line(&mut answer).ok()?;
        answer.trim().parse().ok()
    }

    /// Starts `agent` in the background, and redirects its standard error to the file `errors`.
    /// [`wait_for_agent`](Self::wait_for_agent) waits for the agent.
    pub(crate) fn start_agent(&mut self, agent: &Agent, errors: &Path) {
        let quoted = |word: &OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"));
        let words: Vec<String> = agent.arguments.iter().map(|word| quoted(word)).collect();
        let (words, errors) = (words.join(" "), quoted(errors.as_os_str()));
        let line = format!("{PROGRAM} {words} </dev/null >/dev/null {LOG_FD}>&2 2>{errors} &");
        assert_eq!(self.run(&line), 0);
    }

    /// Waits until the agent exits and returns its exit code.
    pub(crate) fn wait_for_agent(&mut self) -> i32 {
        self.run("wait $!")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The shell exits at the end of its input. The background processes must be killed before that.
        let _ = self.try_run("kill $(jobs -p) 2>/dev/null");
        drop(self.input.take());
        let start = Instant::now();
        while start.elapsed() < HANG_GUARD && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
