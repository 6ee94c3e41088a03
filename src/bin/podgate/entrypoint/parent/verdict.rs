//! What a command's end means: a function of how it ended, why, and what the user wants.

use crate::args::{ExitCodeSource, OnFailure};
use podgate::core::exit::Exit;
use std::time::Duration;

/// Why podgate has ended the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EndReason {
    /// It ran for longer than this.
    TimedOut(Duration),
    /// Those that it was there for have exited.
    AllExited,
    /// This container, which it had waited for, was started again.
    Restarted(String),
}

/// What follows from the command's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// What the command itself has come to.
    pub(super) command_code: u8,
    /// podgate's exit code.
    pub(super) exit_code: u8,
    /// What there is to say, if podgate has ended it for a failure.
    pub(super) reason: Option<String>,
    /// Whether the command has failed, as opposed to having been ended though nothing was wrong with it.
    pub(super) has_failed: bool,
}

pub(super) fn decide(code: u8, why: Option<&EndReason>, exit_code: ExitCodeSource, on_error: OnFailure) -> Verdict {
    let (code, reason) = match why {
        Some(EndReason::TimedOut(limit)) => {
            let limit = humantime::format_duration(*limit);
            (Exit::TimedOut.code(), Some(format!("the command was still running after {limit}, and was ended")))
        }
        Some(EndReason::AllExited) if exit_code == ExitCodeSource::Zero => (0, None),
        Some(EndReason::Restarted(container)) => (
            Exit::NeverMet.code(),
            Some(format!("{container} was restarted; ended, so that this container starts again after it")),
        ),
        Some(EndReason::AllExited) | None => (code, None),
    };
    let failed = code != 0 && matches!(why, None | Some(EndReason::TimedOut(_)));
    // Not a failure that could be forgiven: only with this code the kubelet starts the container again.
    let is_forgiven = on_error == OnFailure::Continue && !matches!(why, Some(EndReason::Restarted(_)));
    Verdict { command_code: code, exit_code: if is_forgiven { 0 } else { code }, reason, has_failed: failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_decides_unless_podgate_has_ended_it() {
        let judge = |code, why: Option<EndReason>, exit_code, on_error| {
            let verdict = decide(code, why.as_ref(), exit_code, on_error);
            (verdict.command_code, verdict.exit_code, verdict.has_failed)
        };
        let (zero, child) = (ExitCodeSource::Zero, ExitCodeSource::Child);
        let (fail, go_on) = (OnFailure::Fail, OnFailure::Continue);
        let late = || Some(EndReason::TimedOut(Duration::from_secs(1)));
        let restarted = || Some(EndReason::Restarted("db".to_owned()));
        assert_eq!(judge(0, None, zero, fail), (0, 0, false));
        assert_eq!(judge(3, None, zero, fail), (3, 3, true));
        assert_eq!(judge(3, None, zero, go_on), (3, 0, true));
        assert_eq!(judge(143, Some(EndReason::AllExited), zero, fail), (0, 0, false));
        assert_eq!(judge(143, Some(EndReason::AllExited), child, fail), (143, 143, false));
        assert_eq!(judge(0, late(), zero, fail), (75, 75, true));
        assert_eq!(judge(143, late(), zero, go_on), (75, 0, true));
        assert_eq!(judge(0, restarted(), zero, fail), (69, 69, false));
        assert_eq!(judge(0, restarted(), zero, go_on), (69, 69, false));
    }
}
