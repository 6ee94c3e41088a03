//! Works out a plan from a Pod's annotations: how each container waits, what it waits for, and what it must outlive.
//!
//! `inject` writes a plan into a manifest; `check` explains it.
//!
//! | module | holds |
//! |---|---|
//! | `types` | types of a plan |
//! | `planner` | builds the plan from the declaration |
//! | `graph` | waits between containers, and cycles |
//! | `modes` | gate or hooks for each container |
//! | `list_order` | order of the container list |
//! | `stop_order` | which containers outlive others, and for how long |

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
