//! Runs the container's own hook command from podgate's hook.

use crate::clock::now;
use crate::failure::Failure;
use podgate::core::argv::Argv;
use podgate::core::exit::Exit;
use podgate::edge::process::{ChildWatch, exit_code};
use podgate::edge::sys::die_with_parent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes kept from the end of the command's output, for the error message.
const OUTPUT_TAIL_MAX: usize = 400;

/// Runs the container's own hook command until `deadline`.
pub(crate) fn run(hook: &str, command: &Argv, deadline: Instant) -> Result<(), Failure> {
    let (code, why) = match run_until(command, deadline) {
        Ok(Some((0, _))) => return Ok(()),
        Ok(Some((code, output))) => (code, format!("exited with {code}: {output}")),
        Ok(None) => (Exit::TimedOut.code(), "was still running at the time limit and was killed".to_owned()),
        Err(error) => (Exit::CannotExecute.code(), format!("cannot be executed: {error}")),
    };
    Err(Failure(code, format!("the container's own {hook} command {command} {why}")))
}

/// Returns the exit code and the end of the output, or `None` if the command was killed at the deadline. Drains the
/// output through a pipe, so that the command never blocks and orphans cannot keep the hook's own output open.
fn run_until(command: &Argv, deadline: Instant) -> io::Result<Option<(u8, String)>> {
    let (mut output, input) = io::pipe()?;
    rustix::io::ioctl_fionbio(&output, true)?;
    let mut child = {
        // Spawning a process waits for its execve, which may block on a dead mount. So spawn podgate's own program,
        // which then executes the command.
        let mut starter = Command::new(crate::OWN_PROGRAM);
        starter.args(["exec", "--"]).args(command.as_slice());
        starter.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input).process_group(0);
        die_with_parent(&mut starter);
        starter.spawn()?
        // Dropping `starter` closes the parent's copies of the write end, so that the output can end.
    };
    let pid = Pid::from_child(&child);
    let watch = ChildWatch::new(&child);
    let mut tail = Vec::new();
    let mut open = true;
    loop {
        let left = deadline.saturating_duration_since(now());
        if left.is_zero() {
            // Don't wait for the end of the command, which may be waiting for a dead mount.
            let _ = kill_process_group(pid, Signal::KILL);
            return Ok(None);
        }
        let timeout = Timespec::try_from(watch.poll_interval(left.min(Duration::from_secs(1)))).ok();
        let mut set: Vec<PollFd<'_>> = watch.poll_fd().into_iter().collect();
        if open {
            set.push(PollFd::new(&output, PollFlags::IN));
        }
        let _ = poll(&mut set, timeout.as_ref());
        drop(set);
        open = open && read_available(&mut output, &mut tail);
        if let Ok(Some(status)) = child.try_wait() {
            read_available(&mut output, &mut tail);
            return Ok(Some((exit_code(status), String::from_utf8_lossy(&tail).into_owned())));
        }
    }
}

/// Reads the available output. Returns false at the end of the output.
fn read_available(output: &mut io::PipeReader, tail: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    // Limit the number of reads, so that a command that never stops writing cannot delay the deadline.
    for _ in 0..64 {
        match output.read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => {
                tail.extend_from_slice(&buffer[..length]);
                tail.drain(..tail.len().saturating_sub(OUTPUT_TAIL_MAX));
            }
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}
