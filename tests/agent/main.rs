//! Black-box tests of the agent's real binary, in folders made as the sidecar and the kubelet make them.
#![allow(clippy::disallowed_methods, reason = "tests may look at a clock")]

mod becoming;
mod checks;
mod cli;
mod entrypoint;
mod hostile_board;
mod kubelet_volume;
mod opened;
mod parent;
mod parent_follow;
mod parent_output;
mod post_file;
mod pre_stop;
mod rungs;
mod support;
mod tether;
mod then;
mod wait;
