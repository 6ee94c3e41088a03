//! Black-box tests of the agent's binary, in directories that look like those of the sidecar and the kubelet.
#![allow(clippy::disallowed_methods, reason = "tests may read a clock")]

mod becoming;
mod checks;
mod cli;
mod dead_mount;
mod denied_calls;
mod edge;
mod entrypoint;
#[path = "../common/free_port.rs"]
mod free_port;
#[path = "../common/hang_guard.rs"]
mod hang_guard;
#[path = "../common/help.rs"]
mod help;
mod hostile_board;
mod kubelet_volume;
#[path = "../common/needs.rs"]
mod needs;
mod opened;
mod parent;
mod parent_follow;
mod post_file;
mod pre_stop;
mod predecessors;
mod probe;
mod process_tree;
mod rungs;
mod signals;
mod support;
mod tether;
mod then;
mod wait;
