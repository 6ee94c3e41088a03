//! Derives podgate's exit code from the command's end and the flags.

use crate::args::OnError;
use podgate::core::exit::Exit;
use std::time::Duration;

/// Reason why podgate has ended the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EndReason {
    /// The command ran longer than this time limit.
    TimedOut(Duration),
    /// All containers of `--stop-after` have exited.
    AllExited,
    /// This container, which the gate waited for, was restarted.
    Restarted(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Exit code of the command, or the code for podgate's reason to end the command.
    pub(super) command_code: u8,
    pub(super) exit_code: u8,
    /// Message, if podgate has ended the command because of a failure.
    pub(super) reason: Option<String>,
}

pub(super) fn verdict_of(code: u8, why: Option<&EndReason>, on_error: OnError) -> Verdict {
    let (code, reason) = match why {
        Some(EndReason::TimedOut(limit)) => {
            let limit = humantime::format_duration(*limit);
            (Exit::TimedOut.code(), Some(format!("the command timed out after {limit}")))
        }
        Some(EndReason::AllExited) => (0, None),
        Some(EndReason::Restarted(container)) => (
            Exit::NeverMet.code(),
            Some(format!("{container} was restarted; ended the command so that this container restarts too")),
        ),
        None => (code, None),
    };
    // --on-error does not apply to a restart: the kubelet restarts this container only after a failure.
    let is_ignored = on_error == OnError::Continue && !matches!(why, Some(EndReason::Restarted(_)));
    Verdict { command_code: code, exit_code: if is_ignored { 0 } else { code }, reason }
}
