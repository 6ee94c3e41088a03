//! What a command's end means: a function of how it ended, why, and what the user wants.

use crate::args::{ExitCode, OnFailure};
use podgate::core::exit::Exit;
use std::time::Duration;

/// Why podgate has ended the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// It ran for longer than this.
    TimedOut(Duration),
    /// Those that it was there for have exited.
    Done,
    /// This container, which it had waited for, was started again.
    Restarted(String),
}

/// What follows from the command's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// What the command itself has come to.
    pub(super) code: u8,
    /// podgate's exit code.
    pub(super) exit: u8,
    /// What there is to say, if podgate has ended it for a failure.
    pub(super) reason: Option<String>,
    /// Whether the command has failed, as opposed to having been ended though nothing was wrong with it.
    pub(super) failed: bool,
}

pub(super) fn judge(code: u8, why: Option<&Why>, exit_code: ExitCode, on_error: OnFailure) -> Verdict {
    let (code, reason) = match why {
        Some(Why::TimedOut(limit)) => {
            let limit = humantime::format_duration(*limit);
            (Exit::TimedOut.code(), Some(format!("the command was still running after {limit}, and was ended")))
        }
        Some(Why::Done) if exit_code == ExitCode::Zero => (0, None),
        Some(Why::Restarted(container)) => (
            Exit::Never.code(),
            Some(format!("{container} was restarted; ended, so that this container starts again after it")),
        ),
        Some(Why::Done) | None => (code, None),
    };
    let failed = code != 0 && matches!(why, None | Some(Why::TimedOut(_)));
    // Not a failure that could be forgiven: only with this code the kubelet starts the container again.
    let is_forgiven = on_error == OnFailure::Continue && !matches!(why, Some(Why::Restarted(_)));
    Verdict { code, exit: if is_forgiven { 0 } else { code }, reason, failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_decides_unless_podgate_has_ended_it() {
        let judge = |code, why: Option<Why>, exit_code, on_error| {
            let verdict = judge(code, why.as_ref(), exit_code, on_error);
            (verdict.code, verdict.exit, verdict.failed)
        };
        let (zero, child) = (ExitCode::Zero, ExitCode::Child);
        let (fail, go_on) = (OnFailure::Fail, OnFailure::Continue);
        let late = || Some(Why::TimedOut(Duration::from_secs(1)));
        let restarted = || Some(Why::Restarted("db".to_owned()));
        assert_eq!(judge(0, None, zero, fail), (0, 0, false));
        assert_eq!(judge(3, None, zero, fail), (3, 3, true));
        assert_eq!(judge(3, None, zero, go_on), (3, 0, true));
        assert_eq!(judge(143, Some(Why::Done), zero, fail), (0, 0, false));
        assert_eq!(judge(143, Some(Why::Done), child, fail), (143, 143, false));
        assert_eq!(judge(0, late(), zero, fail), (75, 75, true));
        assert_eq!(judge(143, late(), zero, go_on), (75, 0, true));
        assert_eq!(judge(0, restarted(), zero, fail), (69, 69, false));
        assert_eq!(judge(0, restarted(), zero, go_on), (69, 69, false));
    }
}
