//! Code shared by gate and hooks: the wait and its messages. `podgate::core::gate::decide` makes the decision.
//!
//! | module | holds |
//! |---|---|
//! | [`wait`] | the loop: read, decide, sleep |
//! | [`pod_sources`] | the board and the downward-API volume |
//! | [`report`] | the container's report to the sidecar |
//! | [`messenger`] | messages about waiting and failing |
//! | [`output`] | one-line output: standard error, termination message |
//! | [`hook_command`] | the container's own hook command |

pub(crate) mod hook_command;
pub(crate) mod messenger;
pub(crate) mod output;
pub(crate) mod pod_sources;
pub(crate) mod report;
pub(crate) mod wait;
