//! Choice between the board and the downward-API volume. A board with a valid snapshot of this sandbox always has
//! precedence. The volume is only a fallback for hooks, because every client with permission to patch Pods can change
//! its content.

use crate::core::sandbox::SandboxId;
use crate::core::snapshot::{Snapshot, Unreadable};

/// Result of reading a source.
pub type SnapshotResult = Result<Snapshot, Unreadable>;

/// Source of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The board, which is always current and written only by the sidecar.
    Board,
    /// The downward-API volume. The kubelet does not update it while a postStart hook runs or the pod terminates.
    Volume,
}

/// The agent's view of the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "an agent has one view at a time")]
pub enum PodView {
    /// A snapshot of this sandbox.
    Snapshot(Snapshot, Source),
    /// No source has a snapshot of this sandbox.
    NoSnapshot {
        /// Reason why the board is unusable.
        board: SourceError,
        /// Reason why the volume is unusable; `None` for an agent that reads only the board.
        volume: Option<SourceError>,
    },
}

impl PodView {
    /// Returns the snapshot from the board or, if the board is unusable, from the volume.
    pub fn chosen_snapshot(&self) -> Option<&Snapshot> {
        if let PodView::Snapshot(snapshot, _) = self { Some(snapshot) } else { None }
    }

    /// Returns the pod's IP address, which only the sidecar's board has.
    pub fn pod_ip(&self) -> Option<String> {
        self.chosen_snapshot()?.pod_ip.as_deref().map(str::to_owned)
    }
}

/// Reason why a source has no usable snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The source has no snapshot.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The snapshot belongs to another sandbox. The node was rebooted, the sandbox was recreated, or a user has copied
    /// the snapshot into a Pod template.
    #[error("belongs to another sandbox")]
    OtherSandbox,
}

/// Returns the view of an agent in the sandbox `own`: from the board or, if the board is unusable, from the volume.
/// `volume` returns `None` for an agent that reads only the board. The sandbox id in the volume must equal `own`: a
/// manifest may contain an id that matches any sandbox.
pub fn choose_view(own: &SandboxId, board: SnapshotResult, volume: impl FnOnce() -> Option<SnapshotResult>) -> PodView {
    let accept = |result: SnapshotResult, is_here: fn(&SandboxId, &SandboxId) -> bool| match result {
        Ok(snapshot) if is_here(&snapshot.sandbox, own) => Ok(snapshot),
        Ok(_) => Err(SourceError::OtherSandbox),
        Err(unreadable) => Err(unreadable.into()),
    };
    match accept(board, SandboxId::matches) {
        Ok(snapshot) => PodView::Snapshot(snapshot, Source::Board),
        Err(board) => match volume().map(|volume| accept(volume, |found, here| found == here && here.is_unique())) {
            Some(Ok(snapshot)) => PodView::Snapshot(snapshot, Source::Volume),
            volume => PodView::NoSnapshot { board, volume: volume.and_then(Result::err) },
        },
    }
}
