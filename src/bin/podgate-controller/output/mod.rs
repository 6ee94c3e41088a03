//! What the sidecar writes beside annotations: the board, and metrics.

pub(crate) mod board;
pub(crate) mod metrics;
