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
//! `podgate-webhook` also uses the log, listening addresses and a read of small files from `edge`.
//!
//! `core` and `order` are pure: they use no clock, file, socket or environment variable. `edge` does light I/O on Linux
//! without an async runtime. `tests/pure/purity.rs` checks these boundaries.
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod clock;
pub mod core;
#[cfg(target_os = "linux")]
pub mod edge;
pub mod order;
