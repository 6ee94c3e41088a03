//! Runs one container as the kubelet does: start, restart with back-off, preStop hook, stop signal, SIGKILL.

use super::history::{ContainerHistory, Incarnation, describe_exit};
use super::run_plan::ContainerTask;
use super::stand_in::{StandInEvent, parse_event};
use crate::error::CommandResult;
use podgate::core::restart::{RestartDecision, restart_decision};
use podgate::core::text::error_chain;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// Delay of the first restart: the kubelet notices an end within about one second.
const FIRST_RESTART: Duration = Duration::from_secs(1);
/// Back-off of the second restart. The back-off doubles with each further restart.
const BACK_OFF: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// Maximum length of a line in a log, in bytes.
const LINE_MAX: u64 = 4096;

/// Message from a thread to the main loop.
pub(super) enum Message {
    Log {
        name: String,
        line: String,
    },
    /// An event of a stand-in. `run` is the index of the container's run; `at` is in milliseconds since 1970.
    StandIn {
        name: String,
        run: usize,
        event: StandInEvent,
        at: i64,
    },
    Interrupt,
}

pub(super) struct SupervisedContainer {
    pub(super) history: ContainerHistory,
    pub(super) child: Option<Child>,
    hook: Option<Child>,
    pub(super) start_at: Option<Instant>,
    /// Time at which SIGKILL follows.
    kill_at: Option<Instant>,
    messages: SyncSender<Message>,
}

impl SupervisedContainer {
    pub(super) fn new(task: ContainerTask, messages: SyncSender<Message>) -> SupervisedContainer {
        let history = ContainerHistory { task, runs: Vec::new() };
        SupervisedContainer { history, child: None, hook: None, start_at: None, kill_at: None, messages }
    }

    /// Returns true if the container does not run and will not start again.
    pub(super) fn is_over(&self) -> bool {
        self.child.is_none() && self.hook.is_none() && self.start_at.is_none()
    }

    pub(super) fn start_hook(&mut self, words: &[String]) -> CommandResult<()> {
        self.hook = Some(self.spawn(words, None)?);
        Ok(())
    }

    /// Begins the container's stop: the preStop hook, the stop signal, and SIGKILL at `kill_at`.
    pub(super) fn begin_stop(&mut self, kill_at: Instant) -> CommandResult<()> {
        self.start_at = None;
        self.kill_at = Some(kill_at);
        match (&self.history.task.pre_stop, &self.child) {
            (Some(words), Some(_)) => self.start_hook(&words.clone()),
            _ => {
                self.send_stop_signal();
                Ok(())
            }
        }
    }

    /// Kills the container and its hook at once, and waits for their end.
    pub(super) fn kill_and_wait(&mut self) {
        for mut child in [self.child.take(), self.hook.take()].into_iter().flatten() {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }

    fn send_stop_signal(&self) {
        if let Some(child) = &self.child {
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
    }

    /// Starts, reaps and kills processes that are due at `now`. `at` is the same time in milliseconds since 1970.
    /// Returns the events.
    pub(super) fn poll(&mut self, now: Instant, at: i64) -> CommandResult<Vec<String>> {
        let mut events = Vec::new();
        if take_ended(&mut self.hook).is_some() && self.kill_at.is_some() {
            self.send_stop_signal();
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            let running = [&mut self.child, &mut self.hook].into_iter().flatten();
            running.for_each(|child| _ = child.kill());
        }
        if let Some(code) = take_ended(&mut self.child) {
            let restart_in = self.restart_delay(code);
            self.start_at = restart_in.map(|delay| now + delay);
            if let Some(run) = self.history.runs.last_mut() {
                run.ended = Some((at, code));
            }
            let next = restart_in.map(|delay| format!("; restarts in {}", humantime::format_duration(delay)));
            events.push(format!("ended ({}){}", describe_exit(code), next.unwrap_or_default()));
        }
        if self.start_at.is_some_and(|at| at <= now) {
            self.start_at = None;
            self.history.runs.push(Incarnation { created: at, ..Incarnation::default() });
            self.child = Some(self.spawn(&self.history.task.words, Some(self.history.runs.len() - 1))?);
            let conditions: Vec<String> = self.history.task.conditions.iter().map(ToString::to_string).collect();
            if !conditions.is_empty() {
                events.push(format!("waits for {}", conditions.join(", ")));
            }
        }
        Ok(events)
    }

    /// Returns the time until the restart after an end with `code`; `None` if there is no restart.
    fn restart_delay(&self, code: u8) -> Option<Duration> {
        let restarts = restart_decision(Some(&self.history.task.restart_policy), &[], Some(code.into()))
            == RestartDecision::Restarts;
        let doublings = u32::try_from(self.history.runs.len()).ok()?.checked_sub(2);
        let back_off = |doublings| BACK_OFF.saturating_mul(2_u32.saturating_pow(doublings)).min(BACK_OFF_MAX);
        (restarts && self.kill_at.is_none()).then_some(doublings.map_or(FIRST_RESTART, back_off))
    }

    /// Starts a process of the container. `run` is the index of the container's run; `None` for a hook.
    fn spawn(&self, words: &[String], run: Option<usize>) -> CommandResult<Child> {
        let name = &self.history.task.name;
        let (program, arguments) = words.split_first().ok_or_else(|| format!("{name}: its command is empty"))?;
        let mut command = Command::new(program);
        // With its own process group, the process does not receive Ctrl-C.
        command.args(arguments).env_clear().envs(self.history.task.environment.iter().cloned()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.map_err(|error| format!("{name}: cannot start {program}: {}", error_chain(&error)))?;
        if let Some(pipe) = child.stdout.take() {
            self.forward(pipe, run);
        }
        if let Some(pipe) = child.stderr.take() {
            self.forward(pipe, None);
        }
        Ok(child)
    }

    /// Starts a thread that sends each line of a pipe to the main loop. Only a pipe with a `run` has events.
    fn forward(&self, pipe: impl Read + Send + 'static, run: Option<usize>) {
        let (name, messages) = (self.history.task.name.clone(), self.messages.clone());
        std::thread::spawn(move || forward_lines(pipe, &name, run, &messages));
    }
}

/// Sends each line of a pipe as a message. Splits a line longer than [`LINE_MAX`]; only the first part of a line can be
/// an event. Waits while too many messages have not been read yet.
fn forward_lines(pipe: impl Read, name: &str, run: Option<usize>, messages: &SyncSender<Message>) {
    let mut pipe = BufReader::new(pipe);
    let (mut bytes, mut is_beginning) = (Vec::new(), true);
    while pipe.by_ref().take(LINE_MAX).read_until(b'\n', &mut bytes).is_ok_and(|length| length > 0) {
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        let event = run.filter(|_| is_beginning).and_then(|run| Some((run, parse_event(&line)?)));
        is_beginning = bytes.ends_with(b"\n");
        bytes.clear();
        let name = name.to_owned();
        let message = match event {
            Some((run, (event, at))) => Message::StandIn { name, run, event, at },
            None => Message::Log { name, line },
        };
        if messages.send(message).is_err() {
            return;
        }
    }
}

/// Reaps a child process that has ended. Returns its exit code, or 128 + N if signal N ended it. The children of that
/// process are programs of podgate, which end with their parent.
fn take_ended(child: &mut Option<Child>) -> Option<u8> {
    let status = child.as_mut()?.try_wait().ok().flatten()?;
    *child = None;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Some(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    /// Returns the events and the lengths of the log lines in `text`.
    fn read(text: &str, run: Option<usize>) -> (Vec<(StandInEvent, i64)>, Vec<usize>) {
        let (sender, receiver) = sync_channel(1);
        let bytes = text.as_bytes().to_vec();
        let thread = std::thread::spawn(move || forward_lines(bytes.as_slice(), "db", run, &sender));
        let (mut events, mut logs) = (Vec::new(), Vec::new());
        for message in receiver {
            match message {
                Message::StandIn { event, at, .. } => events.push((event, at)),
                Message::Log { line, .. } => logs.push(line.len()),
                Message::Interrupt => {}
            }
        }
        assert!(thread.join().is_ok());
        (events, logs)
    }

    #[test]
    fn lines_are_limited_and_only_their_beginning_is_an_event() {
        let event = "\u{1f}ready 7\n";
        assert_eq!(read(&format!("a\n{event}\n"), Some(0)), (vec![(StandInEvent::Passes, 7)], vec![1, 0]));
        assert_eq!(read(event, None), (vec![], vec![8]));
        for length in [1, 4094, 4095, 4096, 4097, 8191, 8192, 100_000] {
            let (events, logs) = read(&format!("{}{event}{event}", "x".repeat(length)), Some(0));
            assert_eq!((events, logs.iter().sum::<usize>()), (vec![(StandInEvent::Passes, 7)], length + 8), "{length}");
            assert!(logs.iter().all(|length| *length <= 4096), "{length}");
        }
    }
}
