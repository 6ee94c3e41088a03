//! Builds a plan from a Pod's annotations: the mode, the conditions and the stop order of each container.
//!
//! `inject` writes a plan into a manifest; `check` explains the plan.
//!
//! | module | purpose |
//! |---|---|
//! | `types` | types of a plan |
//! | `planner` | builds the plan from the declaration |
//! | `init_containers` | waits for init containers and native sidecars |
//! | `graph` | graph of the waits; detects cycles |
//! | `modes` | gate or hooks for each container |
//! | `list_order` | order of the container list |
//! | `stop_order` | containers that must outlive others, and the time limits |
//! | `waiters` | containers that wait for a container, directly or indirectly |

mod graph;
mod init_containers;
mod list_order;
mod modes;
mod planner;
mod stop_order;
mod types;
mod waiters;

pub use planner::plan;
pub use types::{ContainerPlan, ImageCommand, InitPlan, KnownFacts, Plan};
pub(crate) use waiters::Waiters;
