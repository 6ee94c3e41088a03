//! The sidecar's outputs: the board, annotations and metrics.

pub(crate) mod board;
pub(crate) mod hold_files;
pub(crate) mod http_server;
pub(crate) mod metrics;
pub(crate) mod publisher;
