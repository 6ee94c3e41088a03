//! Light I/O shared by agent and sidecar, based on std and rustix. This module uses no async runtime and no threads,
//! and makes no decisions.
//!
//! | module | holds | used by |
//! |---|---|---|
//! | [`files`] | safe reads of untrusted files, atomic writes | agent, sidecar |
//! | [`bell`] | the FIFO that wakes waiting agents | agent, sidecar |
//! | [`clock`] | the clocks | agent, sidecar, webhook |
//! | [`watch`] | waiting for a change: bell, inotify or polling | agent |
//! | [`lock`] | open-file-description locks | agent, sidecar |
//! | [`tether`] | a lock held while a container's process runs | agent, sidecar |
//! | [`process`] | process identity, exit codes, random ids | agent, sidecar |
//! | [`sandbox`] | this container's sandbox id | agent, sidecar |
//! | [`source`] | reading the board and the downward-API volume | agent, sidecar |
//! | [`install`] | installing a binary | agent, sidecar |
//! | [`log`] | log lines as text or JSON | agent, sidecar, webhook |
//! | [`sys`] | the system calls that need `unsafe` | only `edge` |

pub mod bell;
pub mod clock;
pub mod files;
pub mod install;
pub mod lock;
pub mod log;
pub mod process;
pub mod sandbox;
pub mod source;
pub mod sys;
pub mod tether;
pub mod watch;
