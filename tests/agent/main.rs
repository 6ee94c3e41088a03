//! Black-box tests of the agent's real binary, in folders made as the sidecar and the kubelet make them.
#![allow(clippy::disallowed_methods, reason = "tests may look at a clock")]

mod checks;
mod cli;
mod hostile_board;
mod kubelet_volume;
mod parent;
mod parent_follow;
mod post_file;
mod rungs;
mod support;
mod then;
mod wait;
