//! What a Pod's annotations ask for, worked out: for each container how it waits, for whom, and for whom it stays.
//!
//! `inject` writes a plan into a manifest; `check` explains it.
//!
//! | module | holds |
//! |---|---|
//! | `planned` | a plan, as types |
//! | `build` | from what is declared to a plan |
//! | `graph` | who waits for whom, and cycles |
//! | `modes` | who waits by a gate and who is held back by hooks |
//! | `placing` | the order of the list |
//! | `stopping` | who stays for whom, and how long |

mod build;
mod graph;
mod modes;
mod placing;
mod planned;
mod stopping;
#[cfg(test)]
mod tests;

pub use build::plan;
pub use planned::{ImageCommand, Known, Plan, Planned};
