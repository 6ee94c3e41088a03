//! The parts that podgate's programs share. The programs themselves are in `src/bin`, each with modules of its own.
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
//! `podgate-webhook` also takes its log from `edge`.
//!
//! `core` and `order` are pure: no clock, no file, no socket, no environment. `edge` does light I/O on Linux, without a runtime.
//! `tests/purity.rs` checks these borders.

pub mod core;
#[cfg(target_os = "linux")]
pub mod edge;
pub mod order;
