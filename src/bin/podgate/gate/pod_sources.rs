//! The sources from which a container reads the pod's state.

use crate::failure::Failure;
use podgate::core::exit::Exit;
use podgate::core::sandbox::SandboxId;
use podgate::core::snapshot::Unreadable;
use podgate::core::sources::{PodView, choose_source};
use podgate::core::until::WaitCondition;
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::source;
use podgate::edge::watch::Watch;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The board and the downward-API volume, as mounted in this container.
#[derive(Debug)]
pub(crate) struct PodSources {
    pub(crate) sandbox: SandboxId,
    pub(crate) board: PathBuf,
    /// Directory of the downward-API volume. `None` if only the board is used.
    podinfo: Option<PathBuf>,
    poll_interval: Duration,
}

impl PodSources {
    pub(crate) fn new(board: PathBuf, podinfo: Option<PathBuf>, poll_interval: Duration) -> PodSources {
        PodSources { sandbox: sandbox_id(), board, podinfo, poll_interval }
    }

    pub(crate) fn has_source(&self) -> bool {
        self.board.is_dir() || self.podinfo.as_deref().is_some_and(Path::is_dir)
    }

    /// Returns an error if there are conditions but no source to read from.
    pub(crate) fn require_source_for(&self, conditions: &[WaitCondition]) -> Result<(), Failure> {
        if conditions.is_empty() {
            Ok(())
        } else {
            self.require_source("nothing to read from", "; mount one of them, or use --check")
        }
    }

    /// Returns an error if no source exists. The message begins with `lack` and ends with `help`.
    pub(crate) fn require_source(&self, lack: &str, help: &str) -> Result<(), Failure> {
        if self.has_source() {
            return Ok(());
        }
        let (board, podinfo) = (self.board.display(), self.podinfo.as_deref().unwrap_or(&self.board).display());
        let why = format!("{lack}: neither the board {board} nor the downward-API volume {podinfo} exists{help}");
        Err(Failure::new(Exit::BadSetup, why))
    }

    pub(crate) fn view(&self) -> PodView {
        choose_source(&self.sandbox, source::read_board(&self.board), || {
            self.podinfo.as_deref().map_or(Err(Unreadable::Missing), source::read_volume)
        })
    }

    /// Returns a watch over everything that [`view`](PodSources::view) reads.
    pub(crate) fn watch(&self) -> Watch {
        Watch::new(self.board.clone(), self.podinfo.clone(), self.poll_interval)
    }
}
