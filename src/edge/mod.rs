//! Light I/O that the agent and the sidecar share, based on std and rustix. This module uses no async runtime and no
//! threads, and makes no decisions.

pub mod bell;
pub mod exchange;
pub mod files;
pub mod install;
pub mod listen;
pub mod lock;
pub mod log;
pub mod process;
pub mod sandbox;
pub mod sock_diag;
pub mod source;
pub mod sys;
pub mod tether;
pub mod watch;
