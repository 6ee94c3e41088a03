//! The sources from which a container reads the pod's state.

use crate::failure::Failure;
use podgate::core::exit::Exit;
use podgate::core::sandbox::SandboxId;
use podgate::core::sources::{PodView, choose_view};
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::source;
use podgate::edge::watch::Watch;
use std::path::{Path, PathBuf};

/// The board and, for a hook, the downward-API volume, as mounted in this container.
pub(crate) struct PodSources {
    pub(crate) sandbox: SandboxId,
    pub(crate) board: PathBuf,
    /// Directory of the downward-API volume. `None` if only the board is used.
    podinfo: Option<PathBuf>,
}

impl PodSources {
    pub(crate) fn new(board: PathBuf, podinfo: Option<PathBuf>) -> PodSources {
        PodSources { sandbox: sandbox_id(), board, podinfo }
    }

    pub(crate) fn has_source(&self) -> bool {
        self.board.is_dir() || self.podinfo.as_deref().is_some_and(Path::is_dir)
    }

    /// Returns an error if `needs_source` is true, but no source exists. `subject` is the flag or hook that needs it.
    pub(crate) fn require_source(&self, subject: &str, needs_source: bool) -> Result<(), Failure> {
        if !needs_source || self.has_source() {
            return Ok(());
        }
        let why =
            format!("{subject} needs the board, but {} does not exist; mount podgate's volumes", self.board.display());
        Err(Failure::new(Exit::BadSetup, why))
    }

    pub(crate) fn view(&self) -> PodView {
        choose_view(&self.sandbox, source::read_board(&self.board), || self.podinfo.as_deref().map(source::read_volume))
    }

    /// Returns a watch over everything that [`view`](PodSources::view) reads.
    pub(crate) fn watch(&self) -> Watch {
        Watch::new(self.board.clone(), self.podinfo.clone())
    }
}
