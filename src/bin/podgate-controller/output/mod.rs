//! The sidecar's outputs apart from annotations: the board and metrics.

pub(crate) mod board;
pub(crate) mod metrics;
