//! Checks of probes and preStop hooks: missing probes, probes that depend on a later container, slow hooks.

use crate::core::container::{Handler, Port, PortRef};
use crate::core::quit::is_local;
use crate::core::until::WantedState;
use crate::order::declare::spec::{ContainerRef, Spec, items_of};
use crate::order::declare::{annotation_place, container_annotation_place, keys};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::plan::{ContainerPlan, Plan, Waiters};
use crate::order::suggest::local_ports;
use humantime::format_duration;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(super) fn check(spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let (after, owners) = (Waiters::of(&plan.containers), PortOwners::of(spec, plan));
    for own in &spec.containers {
        let Some(planned) = plan.get(own.name) else { continue };
        let waiters = after.0.get(own.name).into_iter().flatten().filter(|(_, want)| *want == WantedState::Ready);
        let waiters: Vec<&str> = waiters.map(|(name, _)| *name).collect();
        if let Some(first) = waiters.first().filter(|_| planned.ready.is_none()) {
            report_missing_probe(own, spec, planned, &waiters, findings);
            report_unknown_port(own, first, findings);
        }
        report_late_ports(own, Some(planned), &after, &owners, findings);
        check_pre_stop(own, planned, plan, findings);
    }
    let regular: BTreeSet<&str> = spec.containers.iter().map(|own| own.name).collect();
    for own in spec.exiting_init_containers() {
        let words = ["command", "args"].iter().flat_map(|field| items_of(own.value, field));
        let mut ports = words.filter_map(Value::as_str).flat_map(local_ports).map(|(_, port)| port);
        if let Some((owner, port, _)) = ports.find_map(|port| owners.late_owner(port, &regular)) {
            let what = format!("the init container {} uses port {port} of {owner}, which starts only later", own.name);
            let fix = format!("make {owner} a native sidecar with a startupProbe, before {}", own.name);
            findings.push(deadlock(false, own.place(), what).fix(fix));
        }
    }
    for own in plan.init.iter().filter(|init| init.is_probed).filter_map(|init| spec.init_or_native(&init.name)) {
        report_late_ports(own, None, &after, &owners, findings);
    }
}

/// Reports a container that waits for Dapr's sidecar to be Ready, although the sidecar waits for that container's port.
pub(super) fn check_dapr(template: &Value, spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let at = annotation_place("dapr.io/app-port");
    let port = at.of(template).and_then(Value::as_str).and_then(|port| port.parse::<u16>().ok());
    let has_probe = plan.get("daprd").is_none_or(|daprd| daprd.ready.is_none());
    let Some(port) = port.filter(|port| *port > 0 && has_probe) else { return };
    let waiters = Waiters::of(&plan.containers).transitive_waiters("daprd", |want| want == WantedState::Ready);
    let owners = PortOwners::of(spec, plan);
    let late = match owners.by_port.get(&port) {
        Some(_) => owners.late_owner(port, &waiters),
        // A port that no container declares can belong to any of the waiting containers.
        None => waiters.first().map(|name| (*name, port, false)),
    };
    let Some((name, _, is_certain)) = late else { return };
    // The application can also be at another address than the Pod's.
    let is_local = annotation_place("dapr.io/app-channel-address").of(template).is_none();
    let daprd = spec.regular("daprd").or(spec.init_or_native("daprd"));
    let is_certain = is_certain && is_local && daprd.is_some_and(|own| own.probe("readinessProbe").is_some());
    let what = format!(
        "{name} starts only when daprd is Ready, but daprd is Ready only when the application listens on port {port}"
    );
    let fix = format!("let {name} wait for daprd=Started, or remove the annotation");
    findings.push(deadlock(is_certain, at, what).fix(fix));
}

/// Creates the finding for a wait that cannot end: an error if `is_certain`, otherwise a warning.
fn deadlock(is_certain: bool, at: Place, what: String) -> Finding {
    match is_certain {
        true => Finding::error("readiness-needs-later", at, format!("{what}: the wait never ends")),
        false => Finding::warning("readiness-needs-later", at, format!("{what}: the wait may never end")),
    }
}

/// TCP ports, each with the containers that declare it.
pub(super) struct PortOwners<'a> {
    pub(super) by_port: BTreeMap<u16, Vec<&'a str>>,
    /// False if a wait can end without an answer from the port's owner. Either another process of the node answers, or
    /// the waiting container continues after a time-out.
    is_certain: bool,
}

/// Container that starts too late to answer, its port, and true if no other container can answer.
type LatePort<'a> = (&'a str, u16, bool);

impl<'a> PortOwners<'a> {
    pub(super) fn of(spec: &Spec<'a>, plan: &Plan) -> PortOwners<'a> {
        let mut by_port = BTreeMap::<u16, Vec<_>>::new();
        for own in spec.regular_and_native() {
            let list = items_of(own.value, "ports");
            let is_tcp = |port: &&Value| matches!(port["protocol"].as_str(), None | Some("TCP"));
            for port in list.filter(is_tcp).filter_map(|port| serde_json::from_value::<Port>(port.clone()).ok()) {
                by_port.entry(port.container_port).or_default().push(own.name);
            }
        }
        let on_host = spec.value["hostNetwork"] == true;
        let is_certain = !on_host && plan.containers.iter().all(|planned| !planned.continue_on_timeout);
        PortOwners { by_port, is_certain }
    }

    /// Returns the first container in `later` that declares `port`.
    fn late_owner(&self, port: u16, later: &BTreeSet<&str>) -> Option<LatePort<'a>> {
        let owners = self.by_port.get(&port)?;
        let owner = owners.iter().find(|name| later.contains(*name))?;
        Some((owner, port, self.is_certain && owners.iter().all(|name| later.contains(name))))
    }

    /// Returns the container in `later` that a probe or check of `own` depends on, according to the declared ports. For
    /// an exec command, the ports are a guess.
    fn late_port<'b>(
        &self,
        own: &ContainerRef<'_>,
        handler: &Handler,
        later: impl Fn() -> BTreeSet<&'b str>,
    ) -> Option<LatePort<'a>> {
        let by_number = |port: &PortRef| match port {
            PortRef::Number(number) => Some(*number),
            PortRef::Name(name) => name.parse().ok(),
        };
        let named: Vec<u16> = match handler {
            Handler::HttpGet(http) if is_local(http.host.as_deref()) => by_number(&http.port).into_iter().collect(),
            Handler::TcpSocket(tcp) if is_local(tcp.host.as_deref()) => by_number(&tcp.port).into_iter().collect(),
            Handler::Grpc(grpc) => vec![grpc.port],
            Handler::Exec(exec) => {
                exec.command.iter().flat_map(|word| local_ports(word)).map(|(_, port)| port).collect()
            }
            _ => Vec::new(),
        };
        let named: Vec<u16> = named.into_iter().filter(|port| self.by_port.contains_key(port)).collect();
        let later = if named.is_empty() { return None } else { later() };
        let is_other = |port: &u16| later.contains(own.name) || !self.by_port[port].contains(&own.name);
        let (owner, port, is_certain) =
            named.into_iter().filter(is_other).find_map(|port| self.late_owner(port, &later))?;
        // A container that declares no port can still listen on the port itself.
        let has_ports = later.contains(own.name) || self.by_port.values().any(|names| names.contains(&own.name));
        Some((owner, port, is_certain && has_ports && !matches!(handler, Handler::Exec(_))))
    }
}

/// Reports a container without a probe. `waiters` are the containers that wait until this one is Ready.
fn report_missing_probe(
    own: &ContainerRef<'_>,
    spec: &Spec<'_>,
    planned: &ContainerPlan,
    waiters: &[&str],
    findings: &mut Vec<Finding>,
) {
    let is_there = |field: &str| !own.value[field].is_null();
    if is_there("readinessProbe") || is_there("startupProbe") {
        return;
    }
    let what = format!(
        "{} until {1} is Ready, but {1} has no readinessProbe or startupProbe, so it counts as Ready as soon as it runs",
        if let [only] = waiters { format!("{only} waits") } else { format!("{} wait", waiters.join(", ")) },
        own.name
    );
    let port = own.value["ports"][0]["containerPort"].as_u64().map_or("PORT".to_owned(), |port| port.to_string());
    let ends = matches!(own.restart_policy(spec.value), "Never" | "OnFailure") && !planned.is_ended_with_job();
    // A probe of the kubelet cannot reach a program that listens on 127.0.0.1.
    let mut fix = format!("add a readinessProbe, or {}{}: tcp://127.0.0.1:{port}", keys::READY_PREFIX, own.name);
    if ends {
        fix += &format!(", or write {}=Completed to wait until it has exited", own.name);
    }
    findings.push(Finding::warning("no-readiness-probe", own.place(), what).fix(fix));
}

/// Reports a probe with the name of a port that the container does not have. The kubelet then fails each attempt.
/// `first` is the first container that waits until this one is Ready.
fn report_unknown_port(own: &ContainerRef<'_>, first: &str, findings: &mut Vec<Finding>) {
    let names: Vec<&str> = items_of(own.value, "ports").filter_map(|port| port["name"].as_str()).collect();
    for field in ["startupProbe", "readinessProbe"] {
        let (port, at) = match own.probe(field).map(|probe| probe.handler) {
            Some(Handler::HttpGet(http)) => (http.port, "httpGet"),
            Some(Handler::TcpSocket(tcp)) => (tcp.port, "tcpSocket"),
            _ => continue,
        };
        let PortRef::Name(port) = port else { continue };
        if names.contains(&port.as_str()) || port.parse::<u16>().is_ok() {
            continue;
        }
        let name = own.name;
        let what = format!("{name} has no port named {port}, so its {field} never passes, and {first} never starts");
        let fix = match names[..] {
            [] => "write the port's number, or add the port to the container's ports".to_owned(),
            _ => format!("write the number, or the name of a port of the container: {}", names.join(", ")),
        };
        findings.push(Finding::error("unknown-port", own.place().to(field).to(at).to("port"), what).fix(fix));
    }
}

/// Reports each probe or check of `own` that uses the port of a container that starts only after it has passed.
fn report_late_ports(
    own: &ContainerRef<'_>,
    planned: Option<&ContainerPlan>,
    after: &Waiters<'_>,
    owners: &PortOwners<'_>,
    findings: &mut Vec<Finding>,
) {
    let name = own.name;
    let of_probe =
        |field| Some((format!("the {field} of {name}"), own.place().to(field), own.probe(field)?.handler, false));
    let of_check = |prefix, handler: Option<Handler>| {
        let at = container_annotation_place(prefix, name);
        Some((format!("{prefix}{name}"), at, handler?, prefix == keys::CHECK_PREFIX))
    };
    let ready = planned.and_then(|planned| planned.ready.as_ref());
    let probes = ["startupProbe", "readinessProbe"].into_iter().filter(|_| ready.is_none()).filter_map(of_probe);
    let ready = ready.into_iter().filter_map(|ready| of_check(keys::READY_PREFIX, ready.handler.clone()));
    let checks = planned.into_iter().flat_map(ContainerPlan::checks);
    let checks = checks.filter_map(|check| of_check(keys::CHECK_PREFIX, Handler::from_check(check.clone())));
    for (asker, at, handler, is_in_gate) in probes.chain(ready).chain(checks) {
        let later = || {
            // A container that waits for Started does not wait for a probe. A gate's check, however, delays the
            // gate's own container, and every container that waits for that container.
            let mut later = after.transitive_waiters(name, |want| is_in_gate || want == WantedState::Ready);
            later.extend(Some(name).filter(|_| is_in_gate));
            later
        };
        let Some((owner, port, is_certain)) = owners.late_port(own, &handler, later) else { continue };
        let (then, fix) = match is_in_gate {
            true => {
                let fix = format!(
                    "remove the check; to let other containers wait until {owner} answers, use {}{owner}",
                    keys::READY_PREFIX
                );
                ("this check has passed".to_owned(), fix)
            }
            false => {
                let fix = format!("let the probe or check use only {name}, or let {owner} wait for {name}=Started");
                (format!("{name} is Ready"), fix)
            }
        };
        let what = format!("{asker} uses port {port} of {owner}, but {owner} starts only when {then}");
        findings.push(deadlock(is_certain, at, what).fix(fix));
    }
    let later = || after.transitive_waiters(name, |want| want == WantedState::Ready);
    let liveness = own.probe("livenessProbe").filter(|_| planned.is_some());
    if let Some((owner, port, _)) = liveness.and_then(|probe| owners.late_port(own, &probe.handler, later)) {
        let what = format!(
            "the livenessProbe of {name} uses port {port} of {owner}, which starts only when {name} is Ready: if that takes too \
             long, the kubelet kills {name}, again and again"
        );
        let fix = format!("let the livenessProbe ask only {name}, or increase its failureThreshold");
        findings.push(Finding::warning("liveness-kills", own.place().to("livenessProbe"), what).fix(fix));
    }
}

/// Reports a user's preStop hook that exceeds its time limit, or the time limit of a container that outlives `own`.
fn check_pre_stop(own: &ContainerRef<'_>, planned: &ContainerPlan, plan: &Plan, findings: &mut Vec<Finding>) {
    let Some(seconds) = pre_stop_seconds(own) else { return };
    let outliving = plan.containers.iter().filter(|other| other.outlives.contains(&planned.name));
    let shortest = outliving.min_by_key(|other| other.pre_stop_limit);
    let at = own.place().to("lifecycle").to("preStop");
    let own_limit = if planned.outlives.is_empty() { plan.grace } else { planned.pre_stop_limit };
    let sleep = Duration::from_secs(seconds);
    let limit = if sleep >= own_limit {
        format!("it has at most {}", format_duration(own_limit))
    } else if let Some(other) = shortest.filter(|other| sleep >= other.pre_stop_limit) {
        format!("{} waits for this container for at most {}", other.name, format_duration(other.pre_stop_limit))
    } else {
        return;
    };
    let what = format!("the preStop hook of {} takes {seconds}s, but {limit}", own.name);
    let fix = "shorten the hook, or increase terminationGracePeriodSeconds";
    findings.push(Finding::warning("pre-stop-too-long", at, what).fix(fix));
}

/// Returns the seconds that a user's preStop hook takes, if the hook is a `sleep` action or a command `sleep N`.
fn pre_stop_seconds(own: &ContainerRef<'_>) -> Option<u64> {
    let hook = &own.value["lifecycle"]["preStop"];
    if let Some(seconds) = hook["sleep"]["seconds"].as_u64() {
        return Some(seconds);
    }
    let command = hook["exec"]["command"].as_array()?;
    let words: Vec<&str> = command.iter().filter_map(Value::as_str).flat_map(str::split_whitespace).collect();
    let at = words.iter().position(|word| *word == "sleep" || word.ends_with("/sleep"))?;
    words.get(at + 1)?.trim_end_matches([';', 's']).parse().ok()
}
