//! The sidecar's outputs: the board, annotations and metrics.

pub(crate) mod board;
pub(crate) mod hold_files;
pub(crate) mod metrics;
pub(crate) mod publisher;
