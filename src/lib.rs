//! What podgate's three binaries share.
//!
//! ```text
//!    podgate (agent)      podgate-controller      kubectl-podgate      binaries: thin main, modules of their own
//!         └──────────┬───────────┴──────────┬───────────┘
//!                    v                      v
//!                  edge  (board, bell, reports, locks, sandbox id, logging)     light I/O, no runtime
//!                    │
//!                    v
//!                  core  (values only: no clock, no file, no socket, no environment)
//! ```
//!
//! `core` never names `edge`, and neither names a binary; `tests/purity.rs` holds the first, the crate borders the second.

pub mod core;
pub mod edge;
