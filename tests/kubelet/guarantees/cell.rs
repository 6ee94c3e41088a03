//! Cells of the tables in `docs/guarantees.md`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// The mechanism that enforces the Pod's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    PostStart,
    Entrypoint,
    Hold,
    /// Entrypoint mode in a Pod without a sidecar.
    Lean,
    /// Native sidecars with startupProbes, without podgate.
    NativeSidecars,
    /// Kruise's container launch priority, without podgate.
    Kruise,
    /// A wrapper, Tekton's entrypoint, that waits for a file, which the awaited server creates when it is ready.
    Tekton,
    /// A postStart hook that polls the container's own server, as Istio's `pilot-agent wait` does.
    HookLoop,
    /// A wrapper that polls the awaited servers.
    PollingWrapper,
}

impl Mode {
    /// All modes with a sidecar.
    pub(crate) const ALL: [Mode; 3] = [Mode::Entrypoint, Mode::Hold, Mode::PostStart];

    pub(crate) fn has_sidecar(self) -> bool {
        Mode::ALL.contains(&self)
    }

    /// Returns true for a mechanism without podgate.
    pub(crate) fn is_peer(self) -> bool {
        !self.has_sidecar() && self != Mode::Lean
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::PostStart => "post-start",
            Mode::Entrypoint => "entrypoint",
            Mode::Hold => "hold",
            Mode::Lean => "without-sidecar",
            Mode::NativeSidecars => "native-sidecars",
            Mode::Kruise => "kruise",
            Mode::Tekton => "tekton",
            Mode::HookLoop => "hook-loop",
            Mode::PollingWrapper => "polling-wrapper",
        }
    }
}

/// The effect of a fault on the Pod's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// No container started before its predecessors were Ready. In hold mode, no gate opened before the predecessors
    /// were Ready.
    Kept,
    /// A container started too early.
    Lost,
    /// Not measured: this version of Kubernetes lacks the feature, or the mechanism has no such part.
    NotHere,
}

/// Measured result of one fault in one mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) order: Order,
    /// Description of the start times, relative to the times at which the predecessors became Ready.
    pub(super) waited: String,
    pub(super) user_sees: String,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}; {}; {}", self.order, self.waited, self.user_sees)
    }
}

/// Minor versions of Kubernetes that the tables can have, in column order. A table has the columns of the versions for
/// which all of its cells are measured.
pub(super) const VERSIONS: [u32; 4] = [34, 35, 36, 37];

/// Returns the path of the file that stores a measured cell until the tables are written.
fn cell_path(minor: u32, row: &str, mode: Mode) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("guarantees/1.{minor}"));
    directory.join(format!("{row}.{}.json", mode.name()))
}

impl Cell {
    pub(super) fn not_here() -> Cell {
        Cell { order: Order::NotHere, waited: String::new(), user_sees: String::new() }
    }

    /// Saves the cell to a file, so that a later run can write the tables.
    pub(super) fn save(&self, minor: u32, row: &str, mode: Mode) {
        let path = cell_path(minor, row, mode);
        let directory = path.parent().expect("a directory");
        let text = serde_json::to_string(self).expect("plain text");
        std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::write(&path, text))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Loads a saved cell. Returns `None` if the file does not exist.
    pub(super) fn load(minor: u32, row: &str, mode: Mode) -> Option<Cell> {
        let path = cell_path(minor, row, mode);
        let text = std::fs::read_to_string(&path).ok()?;
        Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }
}

/// Formats an upper limit for a time. The text names one of a few limits, so that it does not change from run to run.
pub(super) fn rounded_time(ms: f64) -> String {
    const STEPS: [(f64, &str); 5] =
        [(1000.0, "1 s"), (5000.0, "5 s"), (10_000.0, "10 s"), (20_000.0, "20 s"), (40_000.0, "40 s")];
    let step = STEPS.iter().find(|(limit, _)| ms <= *limit);
    step.map_or_else(|| format!("{:.0} s", ms / 1000.0), |(_, text)| format!("< {text}"))
}
