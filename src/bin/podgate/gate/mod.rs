//! The wait that gate and hook share, and what both say of it.
//!
//! | module | holds |
//! |---|---|
//! | [`wait`] | the loop: read, decide, sleep |
//! | [`place`] | the board and the downward-API volume |
//! | [`report`] | the container's report to the sidecar |
//! | [`voice`] | termination message, log |
//! | [`explain`] | one line, written where Kubernetes shows it |
//! | [`then`] | the container's own hook command, run beside the wait |

pub(crate) mod explain;
pub(crate) mod place;
pub(crate) mod report;
pub(crate) mod then;
pub(crate) mod voice;
pub(crate) mod wait;
