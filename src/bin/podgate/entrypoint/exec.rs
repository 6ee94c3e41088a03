//! Becoming the container's own command.

use crate::failure::Failure;
use podgate::core::exit::Exit;
use podgate::edge::sys::SignalFd;
use podgate::edge::tether::Tether;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Tells the user when the signal arrived that ended the container.
pub(super) const SIGNAL_BEFORE_EXEC: &str = "a signal just before the command was to run";

pub(super) fn command(words: &[OsString]) -> Result<Command, Failure> {
    let (program, arguments) = words.split_first().ok_or_else(|| Failure::new(Exit::Usage, "no command given"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Replaces this process by `command`: the same process, the same environment. Returns only if that can't be done.
pub(super) fn exec_command(
    words: &[OsString],
    tether: Option<&Tether>,
    signals: &SignalFd,
) -> Result<ExitCode, Failure> {
    let mut command = command(words)?;
    // Without a descriptor to hand on there is no tether, and the sidecar goes by what the kubelet says.
    let _inherited = tether.and_then(|tether| tether.inheritable_copy().ok());
    // A check that ran commands took their orphans in, and execve keeps that.
    let _ = rustix::process::set_child_subreaper(None);
    // What came since the last look would be lost.
    if let Some(signal) = signals.next_signal() {
        return Err(Failure::by_signal(signal, SIGNAL_BEFORE_EXEC));
    }
    signals.unblock();
    let error = command.exec();
    Err(exec_failure(&command, &error))
}

/// Why `command` can't be run: 127 if it is not there, else 126, as a shell has it.
pub(super) fn exec_failure(command: &Command, error: &io::Error) -> Failure {
    let name = command.get_program().to_string_lossy();
    let path = Path::new(command.get_program());
    let why = match error.raw_os_error() {
        Some(libc::ENOENT) if name.contains('/') && path.exists() => {
            " is there, but its interpreter, or the loader that it is linked to, is not in this image"
        }
        Some(libc::ENOENT | libc::ENOTDIR) => {
            let hint = match name.contains('/') {
                false => format!("looked for in PATH={}", std::env::var_os("PATH").unwrap_or_default().display()),
                true if path.is_relative() => {
                    let folder = std::env::current_dir().map_or("?".to_owned(), |dir| dir.display().to_string());
                    format!("looked for from the working directory {folder}")
                }
                true => "give a path inside this image".to_owned(),
            };
            return Failure::new(Exit::CommandNotFound, format!("{name}: command not found; {hint}"));
        }
        Some(libc::EACCES) if path.is_dir() => " is a directory",
        Some(libc::EACCES) => ": permission denied; is it executable for this user, on a volume without noexec?",
        Some(libc::ENOEXEC) => " is no program for this machine; a script needs a first line such as #!/bin/sh",
        _ => return Failure::new(Exit::CannotExecute, format!("{name} can't be executed: {error}")),
    };
    Failure::new(Exit::CannotExecute, format!("{name}{why}"))
}
