//! Stop order: containers that must outlive others when the Pod stops, and the time limits of these waits.

use super::graph::Graph;
use crate::core::graph;
use crate::order::declare::grammar::ContainerItem;
use crate::order::declare::spec::Spec;
use crate::order::declare::{Declaration, Edge, StopOrder, annotation_place, keys};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use humantime::format_duration;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum difference between the time limits of consecutive containers in the stop order.
const MAX_STEP: Duration = Duration::from_secs(30);
/// Shortest wait for which podgate does not warn. With a shorter wait, the stop order has little effect.
const SHORT_WAIT: Duration = Duration::from_secs(5);

/// Maps each container to the containers that it must outlive, in list order. Omits containers without a constraint.
pub(super) fn outlives(
    spec: &Spec<'_>,
    declared: &Declaration,
    graph: &Graph,
    findings: &mut Vec<Finding>,
) -> BTreeMap<String, Vec<String>> {
    let positions: BTreeMap<&str, usize> = spec.containers.iter().map(|own| (own.name, own.index)).collect();
    let mut outlives: BTreeMap<String, Vec<String>> = BTreeMap::new();
    match &declared.stop_order {
        StopOrder::None => {}
        StopOrder::Reverse => {
            for own in &spec.containers {
                // A container that waits for another container's exit does not depend on that container afterwards.
                let users = graph.waiters_with_needs(own.name).filter(|(_, need)| !need.until.want.is_exit());
                let users: Vec<String> = users.map(|(user, _)| user.to_owned()).collect();
                if !users.is_empty() {
                    outlives.insert(own.name.to_owned(), users);
                }
            }
        }
        StopOrder::Steps(steps) => {
            let mut earlier: Vec<String> = Vec::new();
            for step in steps {
                findings.extend(step.iter().filter_map(|item| contradiction(item, &earlier, graph)));
                let names = step.iter().map(|item| item.until.container.clone());
                outlives.extend(names.clone().filter(|_| !earlier.is_empty()).map(|name| (name, earlier.clone())));
                earlier.extend(names);
            }
        }
    }
    for users in outlives.values_mut() {
        users.sort_by_key(|name| positions.get(name.as_str()));
    }
    if !outlives.is_empty() && spec.grace_period().is_zero() {
        let at = Place::spec("terminationGracePeriodSeconds");
        let what = "with a grace period of 0, Kubernetes kills all containers at once, without an order";
        let fix = "increase terminationGracePeriodSeconds, or remove podgate.io/stop-order";
        findings.push(Finding::warning("no-grace", at, what).fix(fix));
        outlives.clear();
    }
    outlives
}

/// Returns a warning if the container of `item` waits at its start for a container of `earlier`, which stops first.
fn contradiction(item: &ContainerItem, earlier: &[String], graph: &Graph) -> Option<Finding> {
    let user = &item.until.container;
    let is_early = |need: &&Edge| !need.until.want.is_exit() && earlier.contains(&need.until.container);
    let name = &graph.needs(user).iter().find(is_early)?.until.container;
    let what = format!("{name} stops before {user}, but {user} waits for {name} at the start, and probably uses it");
    let fix = format!("write {name} after {user}, or set {}: reverse", keys::STOP_ORDER);
    Some(Finding::warning("stops-too-early", annotation_place(keys::STOP_ORDER), what).fix(fix).span(item.span.clone()))
}

/// Describes the end of the container `name`, which waits for others for at most `limit`.
pub(super) fn describe_delayed_sigterm(name: &str, limit: Duration, grace: Duration) -> String {
    let left = format_duration(grace.saturating_sub(limit));
    format!("{name} gets SIGTERM after at most {}, and then has {left}", format_duration(limit))
}

/// Returns the time limit for each container's preStop wait. Each limit is below `grace` and below the limits of the
/// containers that outlive this container. Every container thus has time left to exit.
pub(super) fn pre_stop_limits(
    outlives: &BTreeMap<String, Vec<String>>,
    grace: Duration,
    findings: &mut Vec<Finding>,
) -> BTreeMap<String, Duration> {
    let mut waiters: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, users) in outlives {
        for user in users.iter().filter(|user| outlives.contains_key(*user)) {
            waiters.entry(user).or_default().push(name);
        }
    }
    // Maps each container to the length of the longest chain of containers that must stop after this container.
    let levels = graph::levels(&outlives.keys().map(|name| (name.as_str(), 0)).collect(), &waiters);
    let stages = levels.values().max().map_or(1, |level| level + 1);
    let step = (grace / 6).min(MAX_STEP).min(grace / (stages + 2));
    let step = if step.as_secs() > 0 {
        Duration::from_secs(step.as_secs())
    } else {
        Duration::from_millis(step.as_millis() as u64)
    };
    let limit = |name: &str| grace.saturating_sub(step * (levels.get(name).copied().unwrap_or(0) + 1));
    let limits: BTreeMap<String, Duration> = outlives.keys().map(|name| (name.clone(), limit(name))).collect();
    if let Some((name, least)) = limits.iter().min_by_key(|(_, limit)| **limit)
        && *least < SHORT_WAIT
    {
        let at = Place::spec("terminationGracePeriodSeconds");
        let what = format!(
            "{} containers stop one after another within {}, so {name} can wait for other containers for at most {}",
            limits.len() + 1,
            format_duration(grace),
            format_duration(*least),
        );
        findings.push(Finding::warning("short-grace", at, what).fix("increase terminationGracePeriodSeconds"));
    }
    let late = limits.iter().filter(|(_, limit)| (grace - **limit) * 3 < grace);
    let late: Vec<String> = late.map(|(name, limit)| describe_delayed_sigterm(name, *limit, grace)).collect();
    if !late.is_empty() {
        let what = format!("{}; without a stop order, it has {}", late.join("; "), format_duration(grace));
        let fix = "increase terminationGracePeriodSeconds if this is too short";
        findings.push(Finding::note("short-grace", annotation_place(keys::STOP_ORDER), what).fix(fix));
    }
    limits
}
