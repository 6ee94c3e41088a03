//! Becoming the container's own command.

use crate::gate::voice::Failed;
use podgate::core::exit::Exit;
use podgate::edge::sys::Signals;
use podgate::edge::tether::Tether;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Replaces this process by `command`: the same process, the same environment. Returns only if that can't be done.
pub(super) fn become_the(command: &[OsString], tether: Option<&Tether>, signals: &Signals) -> Failed {
    let Some((program, arguments)) = command.split_first() else {
        return Failed::new(Exit::Usage, "no command given");
    };
    // Without a descriptor to hand on there is no tether, and the sidecar goes by what the kubelet says.
    let _inherited = tether.and_then(|tether| tether.hand_on().ok());
    // A check that ran commands took their orphans in, and execve keeps that.
    let _ = rustix::process::set_child_subreaper(None);
    // What came since the last look would be lost.
    if let Some(signal) = signals.next() {
        let code = u8::try_from(128 + signal).unwrap_or(Exit::Terminated.code());
        return Failed(code, "ended by a signal just before the command was to run".to_owned());
    }
    signals.let_go();
    let error = Command::new(program).args(arguments).exec();
    cannot_run(program, &error)
}

/// Why `program` can't be run: 127 if it is not there, else 126, as a shell has it.
pub(super) fn cannot_run(program: &OsStr, error: &io::Error) -> Failed {
    let name = program.to_string_lossy();
    let path = Path::new(program);
    match error.raw_os_error() {
        Some(libc::ENOENT) if name.contains('/') && path.exists() => Failed::new(
            Exit::CannotExecute,
            format!("{name} is there, but its interpreter, or the loader that it is linked to, is not in this image"),
        ),
        Some(libc::ENOENT | libc::ENOTDIR) => {
            let hint = match name.contains('/') {
                false => format!("looked for in PATH={}", std::env::var_os("PATH").unwrap_or_default().display()),
                true if path.is_relative() => {
                    let folder = std::env::current_dir().map_or("?".to_owned(), |dir| dir.display().to_string());
                    format!("looked for from the working directory {folder}")
                }
                true => "give a path inside this image".to_owned(),
            };
            Failed::new(Exit::NotFound, format!("{name}: command not found; {hint}"))
        }
        Some(libc::EACCES) if path.is_dir() => Failed::new(Exit::CannotExecute, format!("{name} is a directory")),
        Some(libc::EACCES) => Failed::new(
            Exit::CannotExecute,
            format!("{name}: permission denied; is it executable for this user, on a volume without noexec?"),
        ),
        Some(libc::ENOEXEC) => Failed::new(
            Exit::CannotExecute,
            format!("{name} is no program for this machine; a script needs a first line such as #!/bin/sh"),
        ),
        _ => Failed::new(Exit::CannotExecute, format!("{name} can't be executed: {error}")),
    }
}
