//! Plan of a handwritten manifest, for the forecast: derived from podgate's commands in it.

use super::AgentLines;
use crate::core::command::AgentCommand;
use crate::core::container::{Container, Mode};
use crate::core::defaults::{PRE_STOP_GRACE, TIMEOUT};
use crate::core::until::WaitCondition;
use crate::order::declare::spec::Spec;
use crate::order::plan::{ContainerPlan, GatePlan, Plan, PlannedMode};
use std::time::Duration;

/// Returns the plan. `lines` and `containers` belong to the regular containers of `spec`, in the same order.
pub(super) fn plan(spec: &Spec<'_>, lines: &[AgentLines], containers: &[Container]) -> Plan {
    let mut hooks: Vec<WaitCondition> = Vec::new();
    let planned = spec.containers.iter().zip(lines).zip(containers).map(|((own, lines), entry)| {
        let (gate, stop) = (lines.gate.as_ref().map(|(_, line)| line), lines.pre_stop.as_ref());
        let (until, before, mut timeout) = (entry.until.clone(), hooks.clone(), duration(gate, "--timeout", TIMEOUT));
        let (mode, after) = match entry.mode {
            Mode::None => (PlannedMode::None, before),
            Mode::PostStart => {
                hooks.extend(until.clone());
                (PlannedMode::PostStart(until), before)
            }
            Mode::Entrypoint => {
                let checks = values(gate, "--check").iter().filter_map(|text| text.parse().ok()).collect();
                (PlannedMode::Entrypoint(GatePlan { checks, ..GatePlan::default() }), until)
            }
            Mode::Hold => {
                timeout = entry.timeout_seconds.map_or(Duration::MAX, |limit| Duration::from_secs(limit.into()));
                (PlannedMode::Hold, until)
            }
        };
        ContainerPlan {
            name: own.name.to_owned(),
            index: own.index,
            mode,
            mode_reason: "written by hand".to_owned(),
            after,
            timeout,
            continue_on_timeout: entry.continue_on_timeout || values(gate, "--on-timeout") == ["continue"],
            outlives: names(stop, "--until").into_iter().map(str::to_owned).collect(),
            pre_stop_limit: duration(stop, "--grace", PRE_STOP_GRACE),
            stop_after: names(gate, "--stop-after").into_iter().map(str::to_owned).collect(),
            ..ContainerPlan::default()
        }
    });
    let containers = planned.collect();
    let has_sidecar = !lines.iter().any(|lines| lines.gate.as_ref().is_some_and(|(gate, _)| gate.asks));
    Plan { containers, has_sidecar, needs_sidecar: true, grace: spec.grace_period(), ..Plan::default() }
}

fn values<'a>(line: Option<&'a AgentCommand>, flag: &str) -> Vec<&'a str> {
    line.map(|line| line.values(flag)).unwrap_or_default()
}

/// Returns the containers in the values of `flag`, without states such as `=Exited`.
pub(super) fn names<'a>(line: Option<&'a AgentCommand>, flag: &str) -> Vec<&'a str> {
    let conditions = values(line, flag).into_iter().flat_map(|list| list.split(','));
    conditions.map(|text| text.split('=').next().unwrap_or_default()).collect()
}

fn duration(line: Option<&AgentCommand>, flag: &str, default: Duration) -> Duration {
    values(line, flag).pop().and_then(|text| humantime::parse_duration(text).ok()).unwrap_or(default)
}
