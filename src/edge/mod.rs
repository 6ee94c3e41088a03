//! Light I/O that the agent and the sidecar share, based on std and rustix, and the schedule of their probes. This
//! module uses no async runtime and no threads.

pub mod bell;
pub mod exchange;
pub mod files;
pub mod listen;
pub mod lock;
pub mod log;
pub mod probe_schedule;
pub mod process;
pub mod sandbox;
pub mod sock_diag;
pub mod source;
pub mod sys;
pub mod watch;
