//! Who stays for whom at the Pod's end, and for how long.

use super::graph::Graph;
use super::modes::is_exit_state;
use crate::order::declare::spec::Spec;
use crate::order::declare::{Declaration, StopOrder};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// A Pod's grace period, where its manifest says nothing.
const DEFAULT_GRACE_SECONDS: u64 = 30;
/// The most that is left between one container's time limit and the next one's.
const MAX_STEP: Duration = Duration::from_secs(30);
/// With less than this for its wait, a container's stop order is as good as none.
const SHORT_WAIT: Duration = Duration::from_secs(5);

/// The Pod's grace period.
pub(super) fn grace_period(spec: &Value) -> Duration {
    let seconds = spec.get("terminationGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(DEFAULT_GRACE_SECONDS);
    // What the API takes is an int64; nobody waits for longer than a year.
    Duration::from_secs(seconds.min(365 * 24 * 60 * 60))
}

/// Whether the Pod's containers run to their end, as in a Job.
pub(super) fn runs_to_completion(spec: &Value) -> bool {
    matches!(spec.get("restartPolicy").and_then(Value::as_str), Some("Never" | "OnFailure"))
}

/// For whom each container stays, in the order of the list; nobody who stays for nobody is in it.
pub(super) fn outlives(
    spec: &Spec<'_>,
    declared: &Declaration,
    graph: &Graph,
    findings: &mut Vec<Finding>,
) -> BTreeMap<String, Vec<String>> {
    let positions: BTreeMap<&str, usize> = spec.containers.iter().map(|own| (own.name, own.index)).collect();
    let mut stays: BTreeMap<String, Vec<String>> = BTreeMap::new();
    match &declared.stop_order {
        StopOrder::Auto if runs_to_completion(spec.value) => {}
        StopOrder::Auto | StopOrder::Reverse => {
            for own in &spec.containers {
                // Who waits for its end does not use it.
                let users = graph.waiters_with_needs(own.name).filter(|(_, need)| !is_exit_state(need.until.want));
                let users: Vec<String> = users.map(|(user, _)| user.to_owned()).collect();
                if !users.is_empty() {
                    stays.insert(own.name.to_owned(), users);
                }
            }
        }
        StopOrder::None => {}
        StopOrder::Steps(steps) => {
            for pair in steps.windows(2) {
                let first: Vec<String> = pair[0].iter().map(|item| item.until.container.clone()).collect();
                for item in &pair[1] {
                    stays.insert(item.until.container.clone(), first.clone());
                }
            }
        }
    }
    for users in stays.values_mut() {
        users.sort_by_key(|name| positions.get(name.as_str()));
    }
    if !stays.is_empty() && grace_period(spec.value).is_zero() {
        let at = Place::root().to("spec").to("terminationGracePeriodSeconds");
        let what = "with no grace period all containers are killed at once, in no order";
        findings.push(
            Finding::warning("no-grace", at, what)
                .fix("give the Pod some seconds, or write podgate.io/stop-order: none"),
        );
        stays.clear();
    }
    stays
}

/// The longest that each may stay: less than `grace_period`, and less than for whoever stays for it, so that there is time left to end in.
pub(super) fn pre_stop_limits(
    stays: &BTreeMap<String, Vec<String>>,
    grace: Duration,
    findings: &mut Vec<Finding>,
) -> BTreeMap<String, Duration> {
    let mut staying: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, users) in stays {
        for user in users.iter().filter(|user| stays.contains_key(*user)) {
            staying.entry(user).or_default().push(name);
        }
    }
    let mut levels: BTreeMap<&str, u32> = BTreeMap::new();
    for name in stays.keys() {
        chain_depth(name, &staying, &mut levels);
    }
    let stages = levels.values().max().map_or(1, |level| level + 1);
    let step = (grace / 6).min(MAX_STEP).min(grace / (stages + 2));
    let step = if step.as_secs() > 0 {
        Duration::from_secs(step.as_secs())
    } else {
        Duration::from_millis(step.as_millis() as u64)
    };
    let limit = |name: &str| grace.saturating_sub(step * (levels.get(name).copied().unwrap_or(0) + 1));
    let limits: BTreeMap<String, Duration> = stays.keys().map(|name| (name.clone(), limit(name))).collect();
    if let Some((name, least)) = limits.iter().min_by_key(|(_, limit)| **limit)
        && *least < SHORT_WAIT
    {
        let at = Place::root().to("spec").to("terminationGracePeriodSeconds");
        let what = format!(
            "{} containers stop in turn within {}: {name} can stay for others no longer than {}",
            limits.len() + 1,
            humantime::format_duration(grace),
            humantime::format_duration(*least),
        );
        findings.push(Finding::warning("short-grace", at, what).fix("give the Pod more seconds"));
    }
    limits
}

/// How many stay for `name`, one for the other: 0 if nobody does. Who stays for whom has no cycle.
fn chain_depth<'a>(name: &'a str, staying: &BTreeMap<&str, Vec<&'a str>>, levels: &mut BTreeMap<&'a str, u32>) -> u32 {
    if let Some(known) = levels.get(name) {
        return *known;
    }
    let above = staying.get(name).into_iter().flatten().map(|other| chain_depth(other, staying, levels) + 1).max();
    let found = above.unwrap_or(0);
    levels.insert(name, found);
    found
}
