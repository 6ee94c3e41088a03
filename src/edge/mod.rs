//! Light I/O shared by agent and sidecar, based on std and rustix. No async runtime, no threads, no decisions.
//!
//! | module | holds | used by |
//! |---|---|---|
//! | [`files`] | safe reads of untrusted files, atomic writes | both |
//! | [`bell`] | the FIFO that wakes waiting agents | both |
//! | [`watch`] | waiting for a change: bell, inotify or polling | agent |
//! | [`lock`] | open-file-description locks | both |
//! | [`tether`] | a lock that lives as long as a container's process | both |
//! | [`process`] | process identity, exit codes, random ids | both |
//! | [`sandbox`] | this container's sandbox id | both |
//! | [`source`] | reading the board and the downward-API volume | both |
//! | [`install`] | installing a binary | both |
//! | [`log`] | log lines as text or JSON | both, `podgate-webhook` |
//! | [`sys`] | the system calls that need `unsafe` | edge alone |

pub mod bell;
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
