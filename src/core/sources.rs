//! Which source counts: a board with a valid snapshot of this sandbox always wins; the downward-API volume counts only where
//! there is no such board, since an operator with the right to patch pods can write there, and never onto the board.

use crate::core::sandbox::SandboxId;
use crate::core::snapshot::{NoWord, Snapshot};

/// What a source gave when it was read.
pub type Reading = Result<Snapshot, NoWord>;

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
pub enum View {
    /// A snapshot of this sandbox.
    Word(Snapshot, Source),
    /// None; what each source gave instead.
    None {
        /// The board's reading.
        board: Absence,
        /// The volume's reading.
        volume: Absence,
    },
}

/// Why a source gives nothing to believe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absence {
    /// It gave no snapshot.
    #[error(transparent)]
    NoWord(#[from] NoWord),
    /// It speaks of another sandbox: left from before a reboot or a recreation, or copied into a template.
    #[error("speaks of another sandbox")]
    OtherSandbox,
}

/// Chooses between the two sources, for an agent in the sandbox `here`. The volume is read only where the board does not count.
pub fn choose(here: &SandboxId, board: Reading, volume: impl FnOnce() -> Reading) -> View {
    let believe = |reading: Reading| match reading {
        Ok(snapshot) if snapshot.sandbox.matches(here) => Ok(snapshot),
        Ok(_) => Err(Absence::OtherSandbox),
        Err(no_word) => Err(no_word.into()),
    };
    match believe(board) {
        Ok(snapshot) => View::Word(snapshot, Source::Board),
        Err(board) => match believe(volume()) {
            Ok(snapshot) => View::Word(snapshot, Source::Volume),
            Err(volume) => View::None { board, volume },
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
        let view = choose(&HERE.parse().unwrap(), Ok(snapshot(HERE, 1)), || Ok(snapshot(HERE, 9)));
        assert_eq!(view, View::Word(snapshot(HERE, 1), Source::Board));
    }

    #[test]
    fn the_volume_counts_where_no_board_of_this_sandbox_is() {
        for board in [Ok(snapshot(THERE, 5)), Err(NoWord::Missing), Err(NoWord::Torn("x".to_owned()))] {
            let view = choose(&HERE.parse().unwrap(), board, || Ok(snapshot(HERE, 2)));
            assert_eq!(view, View::Word(snapshot(HERE, 2), Source::Volume));
        }
    }

    #[test]
    fn another_sandbox_is_never_believed() {
        let view = choose(&HERE.parse().unwrap(), Ok(snapshot(THERE, 1)), || Ok(snapshot(THERE, 1)));
        assert_eq!(view, View::None { board: Absence::OtherSandbox, volume: Absence::OtherSandbox });
    }
}
