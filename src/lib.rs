//! Code that podgate's four programs share. The programs themselves are in `src/bin`.
//!
//! ```text
//!    podgate (agent)    podgate-controller       kubectl-podgate    podgate-webhook
//!         └────────┬─────────────┘                      └──────┬──────────┘
//!                  v                                           v
//!                edge  (board, bell, reports, locks, log)    order  (declare, plan, inject, lint, migrate)
//!                  │                                           │
//!                  └──────────────────┬────────────────────────┘
//!                                     v
//!                                   core  (protocol and decisions)
//! ```
//!
//! `podgate-webhook` also uses three parts of `edge`: the log, listening addresses, and the reading of small files.
//!
//! `core` and `order` are pure: they use no clock, file, socket or environment variable. `edge` does light I/O on Linux
//! without an async runtime. `tests/pure/purity.rs` checks these boundaries.
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod clock;
pub mod command_line;
pub mod core;
#[cfg(target_os = "linux")]
pub mod edge;
pub mod order;
