//! Builds a plan from a Pod's annotations: the mode, the conditions and the stop order of each container.
//!
//! `inject` writes a plan into a manifest; `check` explains the plan.

mod findings;
mod graph;
mod init_containers;
mod modes;
mod planner;
mod proof;
mod stop_order;
mod types;
mod without_sidecar;

pub use findings::bind_role_command;
pub(crate) use graph::Waiters;
pub use planner::plan;
pub use types::{ContainerPlan, GatePlan, ImageCommand, InitPlan, KnownFacts, Plan, PlannedMode};
