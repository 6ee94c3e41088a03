//! The sidecar's outputs apart from annotations: the board and metrics.

pub(crate) mod board;
pub(crate) mod hold_files;
pub(crate) mod metrics;
