//! Forecast of a plan: start order, stop order, parallel containers and the longest wait.

use crate::core::container::Mode;
use crate::core::graph;
use crate::order::plan::Plan;
use std::collections::BTreeMap;
use std::time::Duration;

/// Steps and longest wait that result from a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// Containers by step. The containers of one step may start in parallel. A container of a later step starts after
    /// the required containers and after the hooks that hold the container back.
    pub start_steps: Vec<Vec<String>>,
    /// Containers of the stop order by step. The containers of the first step stop immediately.
    pub stop_steps: Vec<Vec<String>>,
    /// Maximum time until the last container starts or the first container gives up.
    pub longest_wait: Duration,
}

impl Forecast {
    /// Computes the forecast of `plan`.
    pub fn of(plan: &Plan) -> Forecast {
        let starts = group_by_step(plan, &start_steps(plan));
        let stops = group_by_step(plan, &stop_steps(plan));
        Forecast { start_steps: starts, stop_steps: stops, longest_wait: longest_wait(plan) }
    }
}

fn group_by_step(plan: &Plan, steps: &BTreeMap<&str, u32>) -> Vec<Vec<String>> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for planned in &plan.containers {
        if let Some(step) = steps.get(planned.name.as_str()) {
            found.entry(*step).or_default().push(planned.name.clone());
        }
    }
    found.into_values().collect()
}

fn start_steps(plan: &Plan) -> BTreeMap<&str, u32> {
    // The kubelet starts the next container only after the hook, so a new step begins after each waiting hook.
    let mut first: BTreeMap<&str, u32> = BTreeMap::new();
    let mut step = 0;
    for planned in &plan.containers {
        first.insert(&planned.name, step);
        step += u32::from(planned.has_blocking_hook());
    }
    // A gate is in a later step than all containers that the gate waits for.
    let gates = plan.containers.iter().filter(|planned| matches!(planned.mode(), Mode::Entrypoint | Mode::Hold));
    let before = gates
        .map(|planned| (planned.name.as_str(), planned.after.iter().map(|until| until.container.as_str()).collect()));
    graph::levels(&first, &before.collect())
}

fn stop_steps(plan: &Plan) -> BTreeMap<&str, u32> {
    let waiting = || plan.containers.iter().filter(|planned| !planned.outlives.is_empty());
    let names = waiting().flat_map(|planned| planned.outlives.iter().chain([&planned.name]));
    let first = names.map(|name| (name.as_str(), 0)).collect();
    let before =
        waiting().map(|planned| (planned.name.as_str(), planned.outlives.iter().map(String::as_str).collect()));
    graph::levels(&first, &before.collect())
}

/// Returns the longest wait of a plan. Hooks wait one after another; gates wait in parallel after the last hook.
fn longest_wait(plan: &Plan) -> Duration {
    let hooks = plan.containers.iter().filter(|planned| planned.has_blocking_hook()).map(|planned| planned.timeout);
    let gates = plan.containers.iter().filter(|planned| planned.has_closed_gate()).map(|planned| planned.timeout);
    hooks.sum::<Duration>() + gates.max().unwrap_or_default()
}
