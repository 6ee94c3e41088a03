//! Light I/O that agent and controller share: std and rustix, no runtime, no thread, no decision.
//!
//! | module | holds | used by |
//! |---|---|---|
//! | [`files`] | reading what others wrote, writing what others read | both |
//! | [`bell`] | the FIFO that wakes waiters | both |
//! | [`watch`] | reading and waiting, by three rungs | agent |
//! | [`lock`] | open-file-description locks | both |
//! | [`tether`] | a lock that lives as long as a container's process | both |
//! | [`process`] | telling a process from others of its number; random ids | both |
//! | [`sandbox`] | this container's sandbox id | both |
//! | [`source`] | reading the board and the downward-API volume | both |
//! | [`install`] | putting a binary somewhere | both |
//! | [`log`] | text and JSON lines | both, `podgate-webhook` |
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
