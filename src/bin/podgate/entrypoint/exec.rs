//! Replaces the agent's process with the container's own command.

use crate::failure::Failure;
use podgate::core::exit::Exit;
use podgate::edge::lock::Tether;
use podgate::edge::sys::{SignalFd, take_inherited, unblock_signals};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Message part for a stop signal between the gate's opening and the command's start.
pub(super) const SIGNAL_BEFORE_EXEC: &str = "a stop signal just before the command's start";

/// Returns the command of `words`, which clap never leaves empty.
fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// Replaces this process with `command` (execve). Returns only on failure.
pub(super) fn exec_words(words: &[OsString], tether: Option<&Tether>, signals: &SignalFd) -> Result<ExitCode, Failure> {
    let mut command = command(words);
    // A failure is not fatal: without an inheritable copy, the tether ends at execve, and the sidecar relies on the
    // kubelet's status.
    let _inherited = tether.and_then(|tether| tether.inheritable_copy().ok());
    // Check for a signal that has arrived since the last read, because execve would lose that signal.
    if let Some(signal) = signals.next_signal() {
        return Err(Failure::by_signal(signal, SIGNAL_BEFORE_EXEC));
    }
    unblock_signals();
    let error = command.exec();
    Err(exec_failure(&command, &error))
}

/// Replaces this process, a child of the agent, with a command. The agent itself does not do this, because execve may
/// block on a dead mount. Returns only on failure. With `failure_to`, writes the reason to this inherited descriptor.
pub(crate) fn replace_process(words: &[OsString], failure_to: Option<i32>) -> Result<(), Failure> {
    let pipe = failure_to.and_then(take_inherited);
    let mut command = command(words);
    let error = command.exec();
    let failed = exec_failure(&command, &error);
    if let Some(pipe) = pipe {
        let _ = File::from(pipe).write_all(failed.1.as_bytes());
    }
    Err(failed)
}

/// Describes why `command` cannot run. As in a shell, the exit code is 127 if the command was not found, otherwise 126.
fn exec_failure(command: &Command, error: &io::Error) -> Failure {
    let name = command.get_program().to_string_lossy();
    let path = Path::new(command.get_program());
    let why = match error.raw_os_error() {
        Some(libc::ENOENT) if name.contains('/') && path.exists() => {
            " exists, but its interpreter or dynamic loader is missing in this image; use a statically linked program, or add what is missing"
        }
        Some(libc::ENOENT | libc::ENOTDIR) => {
            let hint = match name.contains('/') {
                false => format!("searched in PATH={}", std::env::var_os("PATH").unwrap_or_default().display()),
                true if path.is_relative() => {
                    let directory = std::env::current_dir().map_or("?".to_owned(), |dir| dir.display().to_string());
                    format!("searched from the working directory {directory}")
                }
                true => "use a path inside this image".to_owned(),
            };
            return Failure::new(Exit::CommandNotFound, format!("{name}: command not found; {hint}"));
        }
        Some(libc::EACCES) if path.is_dir() => " is a directory",
        Some(libc::EACCES) => ": permission denied; make the file executable, and mount its volume without noexec",
        Some(libc::ENOEXEC) => " is not a program for this machine; a script needs a first line such as #!/bin/sh",
        _ => return Failure::new(Exit::CannotExecute, format!("{name} cannot be executed: {error}")),
    };
    Failure::new(Exit::CannotExecute, format!("{name}{why}"))
}
