//! Which source counts: a board with a valid snapshot of this sandbox always wins; the downward-API volume counts only where
//! there is no such board, since an operator with the right to patch pods can write there, and never onto the board.

use crate::core::sandbox::SandboxId;
use crate::core::snapshot::{Snapshot, Unreadable};

/// What a source gave when it was read.
pub type SnapshotResult = Result<Snapshot, Unreadable>;

/// Where a snapshot came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The board: never frozen, written by the controller alone.
    Board,
    /// The downward-API volume: frozen while a postStart hook runs and during termination.
    Volume,
}

/// What is believed of the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodView {
    /// A snapshot of this sandbox.
    Snapshot(Snapshot, Source),
    /// None; what each source gave instead.
    NoSnapshot {
        /// The board's reading.
        board: SourceError,
        /// The volume's reading.
        volume: SourceError,
    },
}

/// Why a source gives nothing to believe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It gave no snapshot.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// It speaks of another sandbox: left from before a reboot or a recreation, or copied into a template.
    #[error("speaks of another sandbox")]
    OtherSandbox,
}

/// Chooses between the two sources, for an agent in the sandbox `here`. The volume is read only where the board does not count.
pub fn choose_source(here: &SandboxId, board: SnapshotResult, volume: impl FnOnce() -> SnapshotResult) -> PodView {
    let believe = |reading: SnapshotResult| match reading {
        Ok(snapshot) if snapshot.sandbox.matches(here) => Ok(snapshot),
        Ok(_) => Err(SourceError::OtherSandbox),
        Err(no_word) => Err(no_word.into()),
    };
    match believe(board) {
        Ok(snapshot) => PodView::Snapshot(snapshot, Source::Board),
        Err(board) => match believe(volume()) {
            Ok(snapshot) => PodView::Snapshot(snapshot, Source::Volume),
            Err(volume) => PodView::NoSnapshot { board, volume },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(sandbox: &str, revision: u64) -> Snapshot {
        Snapshot { revision, ..Snapshot::new(sandbox.parse().unwrap(), "e", &[]) }
    }

    const HERE: &str = "3f2a9c1e-4097-1a0c5f3b";
    const THERE: &str = "3f2a9c1e-4098-1a0c5f3b";

    #[test]
    fn a_board_of_this_sandbox_wins_over_a_newer_volume() {
        let view = choose_source(&HERE.parse().unwrap(), Ok(snapshot(HERE, 1)), || Ok(snapshot(HERE, 9)));
        assert_eq!(view, PodView::Snapshot(snapshot(HERE, 1), Source::Board));
    }

    #[test]
    fn the_volume_counts_where_no_board_of_this_sandbox_is() {
        for board in [Ok(snapshot(THERE, 5)), Err(Unreadable::Missing), Err(Unreadable::Torn("x".to_owned()))] {
            let view = choose_source(&HERE.parse().unwrap(), board, || Ok(snapshot(HERE, 2)));
            assert_eq!(view, PodView::Snapshot(snapshot(HERE, 2), Source::Volume));
        }
    }

    #[test]
    fn another_sandbox_is_never_believed() {
        let view = choose_source(&HERE.parse().unwrap(), Ok(snapshot(THERE, 1)), || Ok(snapshot(THERE, 1)));
        assert_eq!(view, PodView::NoSnapshot { board: SourceError::OtherSandbox, volume: SourceError::OtherSandbox });
    }
}
