//! What a Pod's annotations ask for, worked out: for each container how it waits, for whom, and for whom it stays.
//!
//! `inject` writes a plan into a manifest; `check` explains it.
//!
//! | module | holds |
//! |---|---|
//! | `types` | a plan, as types |
//! | `planner` | from what is declared to a plan |
//! | `graph` | who waits for whom, and cycles |
//! | `modes` | who waits by a gate and who is held back by hooks |
//! | `list_order` | the order of the list |
//! | `stop_order` | who stays for whom, and how long |

mod graph;
mod list_order;
mod modes;
mod planner;
mod stop_order;
#[cfg(test)]
mod tests;
mod types;

pub use planner::plan;
pub use types::{ContainerPlan, ImageCommand, KnownImages, Plan};
