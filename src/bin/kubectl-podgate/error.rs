//! The error of every command: what failed, the fix, and the exit code.

use podgate::core::exit::Exit;
use std::process::ExitCode;

/// Result of a command, or of a part of a command.
pub(crate) type CommandResult<T = ExitCode> = Result<T, CommandError>;

/// Error with one line for each problem. `Display` is the message for the user.
#[derive(Debug, thiserror::Error)]
#[error("{}", .lines.join("\n"))]
pub(crate) struct CommandError {
    pub(crate) kind: ErrorKind,
    pub(crate) lines: Vec<String>,
}

/// Kind of an error. The kind decides the exit code, and callers handle some kinds.
#[derive(Debug)]
pub(crate) enum ErrorKind {
    Failed,
    /// The arguments contradict each other or the manifest.
    Usage,
    /// Not all containers of a Pod have started.
    NotStarted,
    /// The API server rejected the request, with this status code and message.
    Rejected(u16, String),
    /// The API server's response cannot be read as the requested object.
    Unreadable,
}

impl ErrorKind {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            ErrorKind::Usage => Exit::Usage.into(),
            ErrorKind::NotStarted => ExitCode::from(3),
            ErrorKind::Failed | ErrorKind::Rejected(..) | ErrorKind::Unreadable => ExitCode::FAILURE,
        }
    }
}

impl CommandError {
    pub(crate) fn new(kind: ErrorKind, line: impl Into<String>) -> CommandError {
        CommandError { kind, lines: vec![line.into()] }
    }

    pub(crate) fn of_lines(lines: Vec<String>) -> CommandError {
        CommandError { kind: ErrorKind::Failed, lines }
    }

    /// Fails if there are `lines`.
    pub(crate) fn fail_if_any(lines: Vec<String>) -> CommandResult<()> {
        if lines.is_empty() { Ok(()) } else { Err(CommandError::of_lines(lines)) }
    }
}

impl<T: Into<String>> From<T> for CommandError {
    fn from(line: T) -> CommandError {
        CommandError::new(ErrorKind::Failed, line)
    }
}
