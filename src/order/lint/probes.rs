//! Checks of probes and preStop hooks: missing probes, probes that depend on a later container, hooks that take too
//! long.

use crate::core::container::{Handler, Port, PortRef};
use crate::core::until::WantedState;
use crate::order::declare::annotation_place;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::finding::Finding;
use crate::order::plan::{ContainerPlan, Plan};
use humantime::format_duration;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(super) fn check(spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let (after, owners, shortest) = (Waiters::of(plan), port_owners(spec), shortest_limits(plan));
    let planned: BTreeMap<&str, &ContainerPlan> = plan.containers.iter().map(|own| (own.name.as_str(), own)).collect();
    for own in &spec.containers {
        let Some(planned) = planned.get(own.name) else { continue };
        if planned.ready.is_none() {
            report_missing_probe(own, spec, planned, &after, findings);
        }
        for field in ["startupProbe", "readinessProbe"].into_iter().filter(|_| planned.ready.is_none()) {
            // A container that waits for Started does not wait for the probe.
            if let Some((other, port)) = later_port_owner(own, field, &owners, || {
                after.transitive_waiters(own.name, |want| want == WantedState::Ready)
            }) {
                report_late_port(own, field, other, port, findings);
            }
        }
        if let Some((other, port)) =
            later_port_owner(own, "livenessProbe", &owners, || after.transitive_waiters(own.name, |_| true))
        {
            report_liveness_kill(own, other, port, findings);
        }
        check_pre_stop(own, planned, shortest.get(own.name).copied(), plan, findings);
    }
}

/// Waiting containers and their wanted states, by the container that they wait for.
struct Waiters<'a>(BTreeMap<&'a str, Vec<(&'a str, WantedState)>>);

impl<'a> Waiters<'a> {
    fn of(plan: &'a Plan) -> Waiters<'a> {
        let mut after: BTreeMap<&str, Vec<(&str, WantedState)>> = BTreeMap::new();
        for planned in &plan.containers {
            for need in &planned.after {
                after.entry(&need.container).or_default().push((&planned.name, need.want));
            }
        }
        Waiters(after)
    }

    /// Returns the containers that wait for `name` with a state that `counts` accepts, and all direct and
    /// indirect waiters of those containers.
    fn transitive_waiters(&self, name: &str, counts: impl Fn(WantedState) -> bool) -> BTreeSet<&'a str> {
        let waiters = |name: &str| self.0.get(name).map_or(&[][..], Vec::as_slice);
        let mut left: Vec<&str> =
            waiters(name).iter().filter(|(_, want)| counts(*want)).map(|(waiter, _)| *waiter).collect();
        let mut found = BTreeSet::new();
        while let Some(next) = left.pop() {
            if found.insert(next) {
                left.extend(waiters(next).iter().map(|(waiter, _)| *waiter));
            }
        }
        found
    }
}

/// Reports a container that waits for Dapr's sidecar to be Ready, although the sidecar waits for that container's port.
pub(super) fn check_dapr(template: &Value, spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let at = annotation_place("dapr.io/app-port");
    let port = at.of(template).and_then(Value::as_str).and_then(|port| port.parse::<u16>().ok());
    let has_probe = plan.get("daprd").is_none_or(|daprd| daprd.ready.is_none());
    let Some(port) = port.filter(|port| *port > 0 && has_probe) else { return };
    let waiters = Waiters::of(plan).transitive_waiters("daprd", |want| want == WantedState::Ready);
    let owners = port_owners(spec);
    // A port that no container declares can belong to any of the waiting containers.
    let owns = |name: &&&str| owners.get(&port).is_none_or(|owners| owners.iter().any(|(.., owner)| owner == *name));
    let Some(name) = waiters.iter().find(owns) else { return };
    let what = format!(
        "{name} starts only when daprd is Ready, but daprd is Ready only when the application listens on port {port}: both may wait \
         forever"
    );
    let fix = format!("let {name} wait for daprd=Started, or remove the annotation");
    findings.push(Finding::warning("readiness-needs-later", at, what).fix(fix));
}

/// Containers that declare each port: index of the container, index of the port, name of the container.
type PortOwners<'a> = BTreeMap<u16, Vec<(usize, usize, &'a str)>>;

fn port_owners<'a>(spec: &Spec<'a>) -> PortOwners<'a> {
    let mut owners = PortOwners::new();
    for (number, own) in spec.containers.iter().enumerate() {
        let list = own.value.get("ports").and_then(Value::as_array).into_iter().flatten();
        let list = list.filter_map(|port| serde_json::from_value::<Port>(port.clone()).ok());
        for (index, port) in list.enumerate() {
            owners.entry(port.container_port).or_default().push((number, index, own.name));
        }
    }
    owners
}

/// Reports a container without a probe if another container waits for its Ready state.
fn report_missing_probe(
    own: &ContainerRef<'_>,
    spec: &Spec<'_>,
    planned: &ContainerPlan,
    after: &Waiters<'_>,
    findings: &mut Vec<Finding>,
) {
    let mut waiters = after.0.get(own.name).into_iter().flatten();
    let Some((first, _)) = waiters.find(|(_, want)| *want == WantedState::Ready) else { return };
    let is_there = |field: &str| own.value.get(field).is_some_and(|value| !value.is_null());
    if is_there("readinessProbe") || is_there("startupProbe") {
        return;
    }
    let what = format!(
        "{first} waits until {0} is Ready, but {0} has no readinessProbe or startupProbe, so it counts as Ready as soon as it runs",
        own.name
    );
    let ends = matches!(own.restart_policy(spec.value), "Never" | "OnFailure") && planned.stop_after.is_empty();
    let mut fix = "add a readinessProbe".to_owned();
    if ends {
        fix += &format!(", or write {}=Completed to wait until it has exited", own.name);
    }
    findings.push(Finding::warning("no-readiness-probe", own.place(), what).fix(fix));
}

/// Reports a probe of `own` that uses a port of `other`, although `other` waits for `own`.
fn report_late_port(own: &ContainerRef<'_>, field: &str, other: &str, port: u16, findings: &mut Vec<Finding>) {
    let name = own.name;
    let what = format!(
        "the {field} of {name} uses port {port} of {other}, but {other} starts only when {name} is Ready: both may wait forever"
    );
    let fix = format!("let the probe check {name} alone, or let {other} wait for {name}=Started");
    findings.push(Finding::warning("readiness-needs-later", own.place().to(field), what).fix(fix));
}

/// Guesses the container in `later` that a probe depends on, from declared ports and the words of an exec command.
fn later_port_owner<'a>(
    own: &ContainerRef<'_>,
    field: &str,
    owners: &PortOwners<'a>,
    later: impl Fn() -> BTreeSet<&'a str>,
) -> Option<(&'a str, u16)> {
    let inside = |host: &Option<String>| matches!(host.as_deref(), None | Some("" | "localhost" | "127.0.0.1" | "::1"));
    let by_number = |port: &PortRef| match port {
        PortRef::Number(number) => Some(*number),
        PortRef::Name(name) => name.parse().ok(),
    };
    let named: Vec<u16> = match &own.probe(field)?.handler {
        Handler::HttpGet(http) if inside(&http.host) => by_number(&http.port).into_iter().collect(),
        Handler::TcpSocket(tcp) if inside(&tcp.host) => by_number(&tcp.port).into_iter().collect(),
        Handler::Grpc(grpc) => vec![grpc.port],
        Handler::Exec(exec) => exec.command.iter().flat_map(|word| named_ports(word)).collect(),
        _ => Vec::new(),
    };
    let owners_of = |port: u16| owners.get(&port).into_iter().flatten().map(move |owner| (owner, port));
    let others = named.into_iter().filter(|port| !owners_of(*port).any(|((.., name), _)| *name == own.name));
    let mut owners = others.flat_map(owners_of).peekable();
    owners.peek()?;
    let later = later();
    owners.filter(|((.., name), _)| later.contains(name)).min().map(|((.., name), port)| (*name, port))
}

/// Finds local ports in a word of a command, such as 8080 in `localhost:8080`.
fn named_ports(word: &str) -> impl Iterator<Item = u16> {
    let hosts = ["localhost:", "127.0.0.1:", "[::1]:"].into_iter();
    hosts.flat_map(|host| word.match_indices(host).map(|(at, host)| &word[at + host.len()..])).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok().filter(|_| !rest.starts_with('0'))
    })
}

/// Reports a livenessProbe of `own` that uses a port of `other`, although `other` starts only after `own`.
fn report_liveness_kill(own: &ContainerRef<'_>, other: &str, port: u16, findings: &mut Vec<Finding>) {
    let Some(probe) = own.probe("livenessProbe") else { return };
    let name = own.name;
    let failures = u64::from(probe.failure_threshold.max(1));
    let seconds = u64::from(probe.initial_delay_seconds) + u64::from(probe.period_seconds.max(1)) * failures;
    let what = format!(
        "the livenessProbe of {name} uses port {port} of {other}, but {other} starts only after {name}: the kubelet kills {name} \
         after {seconds}s"
    );
    let fix = format!("let the probe check {name} alone");
    findings.push(Finding::warning("liveness-kills", own.place().to("livenessProbe"), what).fix(fix));
}

/// Maps each container to the container that waits the shortest time for its exit.
fn shortest_limits(plan: &Plan) -> BTreeMap<&str, &ContainerPlan> {
    let mut shortest: BTreeMap<&str, &ContainerPlan> = BTreeMap::new();
    for other in &plan.containers {
        for name in &other.outlives {
            let found = shortest.entry(name).or_insert(other);
            if other.pre_stop_limit < found.pre_stop_limit {
                *found = other;
            }
        }
    }
    shortest
}

/// Reports a user's preStop hook that exceeds its time limit, or the time limit of a container that outlives `own`.
fn check_pre_stop(
    own: &ContainerRef<'_>,
    planned: &ContainerPlan,
    shortest: Option<&ContainerPlan>,
    plan: &Plan,
    findings: &mut Vec<Finding>,
) {
    let Some(seconds) = pre_stop_seconds(own) else { return };
    let at = own.place().to("lifecycle").to("preStop");
    let own_limit = if planned.outlives.is_empty() { plan.grace } else { planned.pre_stop_limit };
    let sleep = Duration::from_secs(seconds);
    let limit = if sleep >= own_limit {
        format!("it has at most {}", format_duration(own_limit))
    } else if let Some(other) = shortest.filter(|other| sleep >= other.pre_stop_limit) {
        format!("{} waits for it for at most {}", other.name, format_duration(other.pre_stop_limit))
    } else {
        return;
    };
    let what = format!("the preStop hook of {} takes {seconds}s, but {limit}", own.name);
    let fix = "shorten it, or increase terminationGracePeriodSeconds";
    findings.push(Finding::warning("pre-stop-too-long", at, what).fix(fix));
}

/// Returns the seconds that a user's preStop hook takes, if the hook is a `sleep` action or a command `sleep N`.
fn pre_stop_seconds(own: &ContainerRef<'_>) -> Option<u64> {
    let hook = own.value.get("lifecycle")?.get("preStop")?;
    if let Some(seconds) = hook.get("sleep").and_then(|sleep| sleep.get("seconds")).and_then(Value::as_u64) {
        return Some(seconds);
    }
    let command = hook.get("exec")?.get("command")?.as_array()?;
    let words: Vec<&str> = command.iter().filter_map(Value::as_str).flat_map(str::split_whitespace).collect();
    let at = words.iter().position(|word| *word == "sleep" || word.ends_with("/sleep"))?;
    words.get(at + 1)?.trim_end_matches([';', 's']).parse().ok()
}
