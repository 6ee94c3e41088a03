//! The wait that gate and hook share, and what both say of it.
//!
//! | module | holds |
//! |---|---|
//! | [`wait`] | the loop: arm, read, decide, sleep |
//! | [`report`] | the container's report to the sidecar |
//! | [`voice`] | termination message, log, exit code |
//! | [`explain`] | one line, written where Kubernetes shows it |
//! | [`then`] | the container's own hook command, run beside the wait |

pub(crate) mod explain;
pub(crate) mod report;
pub(crate) mod then;
pub(crate) mod voice;
pub(crate) mod wait;
