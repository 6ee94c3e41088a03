//! The wait that gate and hook share, and what both say of it.
//!
//! | module | holds |
//! |---|---|
//! | [`wait`] | the loop: read, decide, sleep |
//! | [`pod_sources`] | the board and the downward-API volume |
//! | [`report`] | the container's report to the sidecar |
//! | [`messenger`] | termination message, log |
//! | [`output`] | one line, written where Kubernetes shows it |
//! | [`hook_command`] | the container's own hook command, run beside the wait |

pub(crate) mod hook_command;
pub(crate) mod messenger;
pub(crate) mod output;
pub(crate) mod pod_sources;
pub(crate) mod report;
pub(crate) mod wait;
