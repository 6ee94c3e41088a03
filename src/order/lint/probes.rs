//! Probes that are missing, that need a container which starts later, or that kill a container while it waits.

use crate::core::container::{Handler, Port, PortRef, Probe};
use crate::core::until::Want;
use crate::order::declare::spec::{Own, Spec};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::plan::{Plan, Planned};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let after = After::of(plan);
    let ports: Vec<(&str, Vec<Port>)> = spec.containers.iter().map(|own| (own.name, ports(own))).collect();
    for own in &spec.containers {
        let Some(planned) = plan.get(own.name) else { continue };
        missing(own, spec, plan, findings);
        // Who waits for its start alone is no later than its readiness.
        let later = Later { names: after.names(own.name, |want| want == Want::Ready), ports: &ports };
        for field in ["startupProbe", "readinessProbe"] {
            needs(own, field, &later, findings);
        }
        liveness(own, &Later { names: after.names(own.name, |_| true), ports: &ports }, findings);
        pre_stop(own, planned, plan, findings);
    }
}

/// Who waits for each container, and for which state.
struct After<'a>(BTreeMap<&'a str, Vec<(&'a str, Want)>>);

impl<'a> After<'a> {
    fn of(plan: &'a Plan) -> After<'a> {
        let mut after: BTreeMap<&str, Vec<(&str, Want)>> = BTreeMap::new();
        for planned in &plan.containers {
            for need in &planned.after {
                after.entry(&need.container).or_default().push((&planned.name, need.want));
            }
        }
        After(after)
    }

    /// All that wait for `name` in a state that `counts`, and that wait for those, and so on.
    fn names(&self, name: &str, counts: impl Fn(Want) -> bool) -> BTreeSet<&'a str> {
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

/// Containers that start later than another, and the ports of all.
struct Later<'a> {
    names: BTreeSet<&'a str>,
    ports: &'a [(&'a str, Vec<Port>)],
}

/// Somebody waits for it to be Ready, and nothing says when it is.
fn missing(own: &Own<'_>, spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let is_needed =
        |other: &&Planned| other.after.iter().any(|need| need.container == own.name && need.want == Want::Ready);
    let waiters: Vec<&str> = plan.containers.iter().filter(is_needed).map(|other| other.name.as_str()).collect();
    let is_there = |field: &str| own.value.get(field).is_some_and(|value| !value.is_null());
    let Some(first) = waiters.first() else { return };
    if is_there("readinessProbe") || is_there("startupProbe") {
        return;
    }
    let what = format!(
        "{first} waits until {} is Ready, but that has neither readinessProbe nor startupProbe: it counts as Ready as soon as it runs",
        own.name
    );
    let ends = matches!(own.restart_policy(spec.value), "Never" | "OnFailure")
        && plan.get(own.name).is_some_and(|planned| planned.stop_after.is_empty());
    let mend = match ends {
        true => format!("give it a readinessProbe; if its end is meant, write {}=Completed", own.name),
        false => "give it a readinessProbe".to_owned(),
    };
    findings.push(Finding::warning("no-readiness-probe", own.place(), what).mend(mend));
}

/// The ports that a container declares.
fn ports(own: &Own<'_>) -> Vec<Port> {
    let list = own.value.get("ports").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|port| serde_json::from_value(port.clone()).ok()).collect()
}

/// A probe that asks a port of a container that waits for this one.
fn needs(own: &Own<'_>, field: &str, later: &Later<'_>, findings: &mut Vec<Finding>) {
    let Some((other, port)) = asked(own, field, later) else { return };
    let what = format!(
        "the {field} of {} asks port {port}, which is {other}'s, but {other} starts only when {} is Ready: neither may ever be",
        own.name, own.name
    );
    findings.push(
        Finding::warning("readiness-needs-later", own.place().to(field), what)
            .mend(format!("let the probe ask {} alone, or let {other} wait for {}=Started", own.name, own.name)),
    );
}

/// Whose port among those that start later a probe asks; a guess, by declared ports and the words of a command.
fn asked<'a>(own: &Own<'_>, field: &str, later: &Later<'a>) -> Option<(&'a str, u16)> {
    if later.names.is_empty() {
        return None;
    }
    let probe = own.probe(field)?;
    let mine = later.ports.iter().find(|(name, _)| *name == own.name).map_or(&[][..], |(_, ports)| ports);
    let is_mine = |port: u16| mine.iter().any(|own| own.container_port == port);
    let others = || later.ports.iter().filter(|(name, _)| later.names.contains(name));
    let owner = |port: u16| {
        let mut others = others();
        let found = others.find(|(_, ports)| ports.iter().any(|declared| declared.container_port == port));
        found.map(|(name, _)| (*name, port))
    };
    let inside = |host: Option<&str>| matches!(host, None | Some("" | "localhost" | "127.0.0.1" | "::1"));
    let by_number = |port: &PortRef| match port {
        PortRef::Number(number) => Some(*number),
        PortRef::Name(name) => name.parse().ok(),
    };
    match &probe.handler {
        Handler::HttpGet(http) if inside(http.host.as_deref()) => {
            by_number(&http.port).filter(|port| !is_mine(*port)).and_then(owner)
        }
        Handler::TcpSocket(tcp) if inside(tcp.host.as_deref()) => {
            by_number(&tcp.port).filter(|port| !is_mine(*port)).and_then(owner)
        }
        Handler::Grpc(grpc) if !is_mine(grpc.port) => owner(grpc.port),
        Handler::Exec(exec) => {
            let named = |port: u16| exec.command.iter().any(|word| names_port(word, port));
            others().find_map(|(name, ports)| {
                let ports = ports.iter().map(|port| port.container_port);
                ports.into_iter().find(|port| !is_mine(*port) && named(*port)).map(|port| (*name, port))
            })
        }
        _ => None,
    }
}

/// Whether a word of a command names a port of this Pod: `localhost:8080`.
fn names_port(word: &str, port: u16) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|host| {
        let whole = format!("{host}:{port}");
        word.match_indices(&whole).any(|(at, _)| !word[at + whole.len()..].starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// A liveness probe that kills a container before what it needs has started.
fn liveness(own: &Own<'_>, later: &Later<'_>, findings: &mut Vec<Finding>) {
    let Some(probe) = own.probe("livenessProbe") else { return };
    let at = || own.place().to("livenessProbe");
    if let Some((other, port)) = asked(own, "livenessProbe", later) {
        let what = format!(
            "the livenessProbe of {} asks port {port}, which is {other}'s, and {other} starts only after {}: the kubelet kills {} \
             after {}s",
            own.name,
            own.name,
            own.name,
            patience(&probe)
        );
        let mend = format!("let the probe ask {} alone", own.name);
        findings.push(Finding::warning("liveness-kills", at(), what).mend(mend));
    }
}

/// Seconds from a container's start until its liveness probe has failed.
fn patience(probe: &Probe) -> u64 {
    let failures = u64::from(probe.failure_threshold.max(1));
    u64::from(probe.initial_delay_seconds) + u64::from(probe.period_seconds.max(1)) * failures
}

/// A preStop hook of the container's own that takes longer than others stay for it, or than it may.
fn pre_stop(own: &Own<'_>, planned: &Planned, plan: &Plan, findings: &mut Vec<Finding>) {
    let Some(seconds) = own_pre_stop(own) else { return };
    let at: Place = own.place().to("lifecycle").to("preStop");
    let own_limit = if planned.stays_for.is_empty() { plan.grace } else { planned.stop_grace };
    let sleep = std::time::Duration::from_secs(seconds);
    if sleep >= own_limit {
        let what = format!(
            "the preStop hook of {} takes {seconds}s, and has at most {}",
            own.name,
            humantime::format_duration(own_limit)
        );
        findings.push(
            Finding::warning("pre-stop-too-long", at, what)
                .mend("shorten it, or give the Pod more terminationGracePeriodSeconds"),
        );
        return;
    }
    let staying = plan.containers.iter().filter(|other| other.stays_for.iter().any(|name| name == own.name));
    if let Some(other) = staying.min_by_key(|other| other.stop_grace)
        && sleep >= other.stop_grace
    {
        let what = format!(
            "the preStop hook of {} takes {seconds}s, and {} stays for it no longer than {}",
            own.name,
            other.name,
            humantime::format_duration(other.stop_grace)
        );
        findings.push(
            Finding::warning("pre-stop-too-long", at, what)
                .mend("shorten it, or give the Pod more terminationGracePeriodSeconds"),
        );
    }
}

/// How long a container's own preStop hook sleeps, as far as it can be seen: `sleep`, or a command `sleep N`.
pub(super) fn own_pre_stop(own: &Own<'_>) -> Option<u64> {
    let hook = own.value.get("lifecycle")?.get("preStop")?;
    if let Some(seconds) = hook.get("sleep").and_then(|sleep| sleep.get("seconds")).and_then(Value::as_u64) {
        return Some(seconds);
    }
    let command = hook.get("exec")?.get("command")?.as_array()?;
    let words: Vec<&str> = command.iter().filter_map(Value::as_str).flat_map(str::split_whitespace).collect();
    let at = words.iter().position(|word| *word == "sleep" || word.ends_with("/sleep"))?;
    words.get(at + 1)?.trim_end_matches([';', 's']).parse().ok()
}
