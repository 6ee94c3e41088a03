//! The container's own hook command, run beside ours.

use crate::clock::now;
use crate::gate::voice::Failed;
use podgate::core::argv::Argv;
use podgate::core::exit::Exit;
use podgate::edge::sys::die_with_parent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How much of its output is kept for the reason, in bytes: the end, where errors stand.
const KEPT: usize = 400;

/// How the command ended, if not well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It could not be started.
    Start(io::Error),
    /// It was still running at the deadline, and was killed.
    Late,
    /// It exited otherwise than with 0: its code (128 + N for signal N), and the end of its output.
    Exit(u8, String),
}

impl Failure {
    /// As an end of the hook whose `what` it was.
    pub(crate) fn explain(self, what: &str) -> Failed {
        let (code, why) = match self {
            Failure::Start(error) if error.kind() == io::ErrorKind::NotFound => {
                (Exit::NotFound.code(), format!("was not found: {error}"))
            }
            Failure::Start(error) => (Exit::CannotExecute.code(), format!("can't be executed: {error}")),
            Failure::Late => (Exit::TimedOut.code(), "was still running at the time limit, and was ended".to_owned()),
            Failure::Exit(code, output) => (code, format!("exited with {code}: {output}")),
        };
        Failed(code, format!("{what} {why}"))
    }
}

/// Runs `command` until `deadline`. Its output is drained, so that it never blocks on it, and its end is kept; a child that it
/// leaves behind may live on, but can't hold the hook's own output open.
pub(crate) fn run(command: &Argv, deadline: Instant) -> Result<(), Failure> {
    let (program, arguments) = command.as_slice().split_first().ok_or(Failure::Late)?;
    let (mut output, input) = io::pipe().map_err(Failure::Start)?;
    rustix::io::ioctl_fionbio(&output, true).map_err(|e| Failure::Start(e.into()))?;
    let mut child = {
        let mut command = Command::new(program);
        let errors = input.try_clone().map_err(Failure::Start)?;
        command.args(arguments).stdin(Stdio::null()).stdout(input).stderr(errors).process_group(0);
        die_with_parent(&mut command);
        command.spawn().map_err(Failure::Start)?
        // The parent's copies of the write end go with `command`.
    };
    let pid = Pid::from_child(&child);
    let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| Failure::Start(e.into()))?;
    let mut tail = Vec::new();
    let mut open = true;
    let status: ExitStatus = loop {
        let left = deadline.saturating_duration_since(now());
        if left.is_zero() {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = child.wait();
            return Err(Failure::Late);
        }
        let timeout = Timespec::try_from(left.min(Duration::from_secs(1))).ok();
        let mut set = vec![PollFd::new(&ended, PollFlags::IN)];
        if open {
            set.push(PollFd::new(&output, PollFlags::IN));
        }
        let _ = poll(&mut set, timeout.as_ref());
        drop(set);
        open = open && drain(&mut output, &mut tail);
        if let Ok(Some(status)) = child.try_wait() {
            drain(&mut output, &mut tail);
            break status;
        }
    };
    match status.code().or_else(|| status.signal().map(|signal| 128 + signal)) {
        Some(0) => Ok(()),
        code => Err(Failure::Exit(
            code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
            String::from_utf8_lossy(&tail).into_owned(),
        )),
    }
}

/// Takes what is there; `false` at the end of the output.
fn drain(output: &mut io::PipeReader, tail: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    // Bounded, so that an endless writer can't keep us from looking at the clock.
    for _ in 0..64 {
        match output.read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => {
                tail.extend_from_slice(&buffer[..length]);
                let surplus = tail.len().saturating_sub(KEPT);
                tail.drain(..surplus);
            }
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}
