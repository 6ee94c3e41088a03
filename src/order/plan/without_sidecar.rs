//! Orders without a sidecar: each gate runs the probes of its predecessors itself, because the containers of a Pod share
//! its network.

use super::graph::Graph;
use super::modes::{command_advice, ready_check};
use super::types::KnownFacts;
use crate::core::checks::agent_check;
use crate::core::container::{Container, Probe};
use crate::core::until::WantedState;
use crate::order::declare::spec::{ContainerRef, Spec, shares_processes};
use crate::order::declare::{
    Declaration, Publish, RequestedMode, StopOrder, annotation_place, container_annotation_place, keys,
};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::kubernetes_version::Version;
use std::collections::BTreeMap;

/// Returns true if a gate can run the network probe `probe` of `container`: `httpGet` without TLS, or `tcpSocket`.
fn can_ask(container: &Container, probe: &Probe) -> bool {
    !probe.is_exec() && agent_check(container, probe).is_some()
}

/// An order that may not need a sidecar.
pub(super) struct Candidate<'a> {
    pub(super) spec: &'a Spec<'a>,
    pub(super) declared: &'a Declaration,
    pub(super) graph: &'a Graph,
    /// Known commands, by container.
    pub(super) commands: &'a BTreeMap<String, Vec<String>>,
    pub(super) known: &'a KnownFacts,
}

impl Candidate<'_> {
    /// Returns the reasons why the order needs a sidecar, each as an error with the way out.
    pub(super) fn reasons(&self) -> Vec<Finding> {
        let (spec, declared) = (self.spec, self.declared);
        let mut found = self.pod_reasons();
        let waits =
            |own: &&ContainerRef<'_>| !self.graph.needs(own.name).is_empty() || declared.checks.contains_key(own.name);
        for own in spec.containers.iter().filter(waits) {
            found.extend(self.waiter_reason(own));
        }
        for own in spec.containers.iter().chain(spec.natives()) {
            found.extend(self.predecessor_reason(own));
        }
        found
    }

    fn reason(at: Place, what: impl Into<String>, way_out: &str) -> Finding {
        let or = format!("{}: always", keys::SIDECAR);
        let fix = if way_out.is_empty() { format!("write {or}") } else { format!("{way_out}, or write {or}") };
        Finding::error("needs-sidecar", at, what).fix(fix)
    }

    fn pod_reasons(&self) -> Vec<Finding> {
        let (spec, declared) = (self.spec, self.declared);
        let mut found = Vec::new();
        let mut add = |key: &str, what: &str, way_out: &str| {
            found.push(Self::reason(annotation_place(key), what, way_out));
        };
        if declared.stop_order != StopOrder::None {
            let what = "a stop order needs a sidecar: only it knows if one container stops or the whole Pod";
            add(keys::STOP_ORDER, what, "remove the stop order");
        }
        if !declared.sidecars.is_empty() {
            add(keys::JOB_SIDECARS, "only a sidecar sees that the containers of a Job have exited", "");
        }
        if let Some(name) = declared.quits.keys().next() {
            add(&format!("{}{name}", keys::QUIT_PREFIX), "only a sidecar can ask a container to exit", "");
        }
        if declared.publish == Some(Publish::Api) {
            add(keys::PUBLISH, "only a sidecar publishes states", &format!("remove {}", keys::PUBLISH));
        }
        let is_shared = shares_processes(spec.value) || spec.value["hostPID"] == true;
        if is_shared {
            let at = Place::spec(if spec.value["hostPID"] == true { "hostPID" } else { "shareProcessNamespace" });
            found.push(Self::reason(at, "process 1 is not the gate, so its startupProbe sees nothing", ""));
        }
        if let Some(version) = self.known.kubernetes.filter(|version| *version < Version::WITH_IMAGE_VOLUMES) {
            let what = format!("image volumes need Kubernetes {}, but this is {version}", Version::WITH_IMAGE_VOLUMES);
            found.push(Self::reason(annotation_place(keys::SIDECAR), what, ""));
        }
        found
    }

    /// Returns the reason why the container `own`, which waits, cannot have a gate without a sidecar.
    fn waiter_reason(&self, own: &ContainerRef<'_>) -> Option<Finding> {
        let (name, declared) = (own.name, self.declared);
        let mode = declared.mode.of(name);
        if matches!(mode, RequestedMode::Hold | RequestedMode::PostStart) {
            let (what, at) = (format!("{} mode needs a sidecar", mode.as_str()), declared.mode.key(keys::MODE, name));
            return Some(Self::reason(annotation_place(&at), what, &format!("remove {at}")));
        }
        if !self.commands.contains_key(name) {
            let what = format!("the command of {name} is not known, and only a sidecar can hold a container");
            return Some(Self::reason(own.place(), what, &command_advice(name)));
        }
        for (setting, key) in
            [(&declared.fail_fast, keys::FAIL_FAST), (&declared.restart_with_dependency, keys::ON_DEPENDENCY_RESTART)]
        {
            if setting.of(name) {
                let key = setting.key(key, name);
                let what = format!("only a sidecar sees that a container which {name} waits for has ended");
                return Some(Self::reason(annotation_place(&key), what, &format!("remove {key}")));
            }
        }
        let entry = own.with_probes();
        let probe = entry.startup_probe.as_ref().filter(|probe| !probe.is_exec() && !can_ask(&entry, probe))?;
        let what = format!("the gate of {name} must run its startupProbe, but cannot run {}", kind(probe));
        Some(Self::reason(own.place().to("startupProbe"), what, "use httpGet without TLS, tcpSocket or exec"))
    }

    /// Returns the reason why a gate cannot know that the container `own` is in the state that others wait for.
    fn predecessor_reason(&self, own: &ContainerRef<'_>) -> Option<Finding> {
        let name = own.name;
        for (waiter, need) in self.graph.waiters_with_needs(name) {
            if need.until.want != WantedState::Ready {
                let what = format!("{waiter} waits for {}, which only a sidecar sees", need.until);
                let finding = Self::reason(need.edge.at.clone(), what, &format!("wait for {name}=Ready"));
                return Some(finding.span(need.edge.span.clone()));
            }
        }
        let (waiter, _) = self.graph.waiters_with_needs(name).next()?;
        let mut entry = own.with_probes();
        let ready = ready_check(self.declared, self.graph, name);
        ready.iter().for_each(|ready| ready.replace_probes(&mut entry));
        let advice = match own.is_native() {
            true => format!("give {name} an httpGet or tcpSocket probe"),
            false => format!("write {}{name}: tcp://127.0.0.1:PORT", keys::READY_PREFIX),
        };
        let at = match ready {
            Some(_) => container_annotation_place(keys::READY_PREFIX, name),
            None => own.place(),
        };
        let has_host = |probe: &&Probe| ready.is_none() && probe.handler.host().is_some();
        let refused = entry.probes().find(|probe| !can_ask(&entry, probe) || has_host(probe));
        if let Some(probe) = refused {
            let probe = if has_host(&probe) { "a probe of another host" } else { kind(probe) };
            let what = format!("the gate of {waiter} must run the probes of {name}, but cannot run {probe}");
            return Some(Self::reason(at, what, &advice));
        }
        if entry.probes().next().is_none() {
            let what = format!("{name} has no probe that the gate of {waiter} can run");
            return Some(Self::reason(at, what, &advice));
        }
        let (port, other) = self.shared_port(&entry)?;
        let what =
            format!("{other} may answer on port {port} too, so the gate of {waiter} cannot tell that {name} does");
        Some(Self::reason(at, what, &format!("probe {name} on a port of its own")))
    }

    /// Returns a port of the probes in `entry` that another container declares or probes, and that container.
    fn shared_port(&self, entry: &Container) -> Option<(u16, &str)> {
        let ports: Vec<u16> = entry.probes().filter_map(|probe| entry.probe_port(probe)).collect();
        let others = self.spec.containers.iter().chain(self.spec.natives()).filter(|own| own.name != entry.name);
        others
            .flat_map(|own| own.used_ports().into_iter().map(|port| (port, own.name)))
            .find(|(port, _)| ports.contains(port))
    }
}

fn kind(probe: &Probe) -> &'static str {
    match &probe.handler {
        crate::core::container::Handler::Exec(_) => "exec",
        crate::core::container::Handler::HttpGet(_) => "this httpGet",
        crate::core::container::Handler::TcpSocket(_) => "this tcpSocket",
        crate::core::container::Handler::Grpc(_) => "grpc",
    }
}
