//! Where a container reads the word on the pod.

use crate::failed::Failed;
use podgate::core::exit::Exit;
use podgate::core::sandbox::SandboxId;
use podgate::core::snapshot::NoWord;
use podgate::core::sources::{View, choose};
use podgate::core::until::Until;
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::source;
use podgate::edge::watch::Watch;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The board and the downward-API volume, as this container sees them.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) sandbox: SandboxId,
    pub(crate) board: PathBuf,
    /// `None` where the board alone counts.
    podinfo: Option<PathBuf>,
    poll_interval: Duration,
}

impl Place {
    pub(crate) fn new(board: PathBuf, podinfo: Option<PathBuf>, poll_interval: Duration) -> Place {
        Place { sandbox: sandbox_id(), board, podinfo, poll_interval }
    }

    pub(crate) fn has_source(&self) -> bool {
        self.board.is_dir() || self.podinfo.as_deref().is_some_and(Path::is_dir)
    }

    /// Conditions need something to read them from.
    pub(crate) fn must_serve_conditions(&self, untils: &[Until]) -> Result<(), Failed> {
        if untils.is_empty() {
            Ok(())
        } else {
            self.must_serve("nothing to read from", "; mount them, or give --check")
        }
    }

    /// An error that begins with `lack` and ends with `help` where there is nothing to read from.
    pub(crate) fn must_serve(&self, lack: &str, help: &str) -> Result<(), Failed> {
        if self.has_source() {
            return Ok(());
        }
        let (board, podinfo) = (self.board.display(), self.podinfo.as_deref().unwrap_or(&self.board).display());
        let why = format!("{lack}: neither the board {board} nor the downward-API volume {podinfo} is there{help}");
        Err(Failed::new(Exit::SetUp, why))
    }

    /// What is believed of the pod now.
    pub(crate) fn view(&self) -> View {
        choose(&self.sandbox, source::board(&self.board), || {
            self.podinfo.as_deref().map_or(Err(NoWord::Missing), source::volume)
        })
    }

    /// Watches all that [`view`](Place::view) reads.
    pub(crate) fn watch(&self) -> Watch {
        Watch::new(self.board.clone(), self.podinfo.clone(), self.poll_interval)
    }
}
