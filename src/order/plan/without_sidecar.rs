//! Orders without a sidecar: each gate runs the probes of its predecessors itself, over the Pod's shared network.

use super::graph::Graph;
use super::modes::{command_advice, ready_check};
use super::types::KnownFacts;
use crate::core::ask::AskedProbe;
use crate::core::checks::equivalent_check;
use crate::core::until::WantedState;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::declare::{
    Declaration, Publish, RequestedMode, StopOrder, annotation_place, container_annotation_place, keys,
};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::kubernetes_version::Version;
use std::collections::BTreeMap;

/// An order that may not need a sidecar.
pub(super) struct NoSidecarCandidate<'a> {
    pub(super) spec: &'a Spec<'a>,
    pub(super) declared: &'a Declaration,
    pub(super) graph: &'a Graph,
    /// Known commands, by container.
    pub(super) commands: &'a BTreeMap<String, Vec<String>>,
    pub(super) known: &'a KnownFacts,
}

impl NoSidecarCandidate<'_> {
    /// Returns the reasons why the order needs a sidecar, each as an error with the way out.
    pub(super) fn reasons_for_sidecar(&self) -> Vec<Finding> {
        let (spec, declared) = (self.spec, self.declared);
        let mut found = self.pod_reasons();
        let waits =
            |own: &&ContainerRef<'_>| !self.graph.needs(own.name).is_empty() || declared.checks.contains_key(own.name);
        for own in spec.containers.iter().filter(waits) {
            found.extend(self.waiter_reason(own));
        }
        for own in spec.regular_and_native() {
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
        let (spec, declared) = (self.spec.value, self.declared);
        let key = |key: &str| annotation_place(key);
        let quit = declared.quits.keys().next().map(|name| container_annotation_place(keys::QUIT_PREFIX, name));
        let shared = ["shareProcessNamespace", "hostPID"].into_iter().find(|field| spec[*field] == true);
        let old = self.known.kubernetes.filter(|version| *version < Version::FIRST_WITH_HOLD);
        let old = old.map(|version| {
            format!("image volumes need Kubernetes {}, but this is {version}", Version::FIRST_WITH_HOLD)
        });
        let (publish, is_job) = (declared.publish == Some(Publish::Api), !declared.job_sidecars.is_empty());
        let has_stop_order = declared.stop_order != StopOrder::None;
        let stop = "a stop order needs a sidecar: without it, a preStop hook cannot tell if one container stops or the whole Pod";
        let process_1 = "process 1 is not the gate, so the gate's startupProbe cannot tell when the gate opens";
        let found = [
            has_stop_order.then(|| (key(keys::STOP_ORDER), stop, "remove the stop order")),
            is_job
                .then(|| (key(keys::JOB_SIDECARS), "only a sidecar sees that the containers of a Job have exited", "")),
            quit.map(|at| (at, "only a sidecar can ask a container to exit", "")),
            publish.then(|| (key(keys::PUBLISH_TARGET), "only a sidecar publishes states", "remove this annotation")),
            shared.map(|field| (Place::spec(field), process_1, "")),
            old.as_deref().map(|old| (key(keys::SIDECAR), old, "")),
        ];
        found.into_iter().flatten().map(|(at, what, way_out)| Self::reason(at, what, way_out)).collect()
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
        let entry = own.ports_and_probes();
        entry.startup_probe.as_ref().filter(|probe| equivalent_check(&entry, probe).is_none())?;
        let what = format!(
            "the gate of {name} must run its startupProbe: it runs only exec, httpGet without TLS and tcpSocket"
        );
        Some(Self::reason(own.place().to("startupProbe"), what, "use one of these"))
    }

    /// Returns the reason why a gate cannot know that the container `own` is in the state that others wait for.
    fn predecessor_reason(&self, own: &ContainerRef<'_>) -> Option<Finding> {
        let name = own.name;
        for (waiter, need) in self.graph.waiters_with_needs(name) {
            if need.until.want != WantedState::Ready {
                let what = format!("{waiter} waits for {}, which only a sidecar sees", need.until);
                let finding = Self::reason(need.at.clone(), what, &format!("wait for {name}=Ready"));
                return Some(finding.span(need.span.clone()));
            }
        }
        let (waiter, _) = self.graph.waiters_with_needs(name).next()?;
        let mut entry = own.ports_and_probes();
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
        let has_host = ready.is_none() && entry.probes().any(|probe| probe.handler.host().is_some());
        let what = match AskedProbe::of(&entry) {
            None => format!(
                "the gate of {waiter} must run the probes of {name}: it runs only httpGet without TLS and tcpSocket"
            ),
            Some(_) if has_host => {
                format!("the gate of {waiter} must run the probes of {name}, but one asks another host")
            }
            Some(asks) if asks.is_empty() => format!("{name} has no probe that the gate of {waiter} can run"),
            Some(_) => {
                let (port, other) = self.spec.shared_port(&entry)?;
                let what =
                    format!("{other} may answer on port {port} too, so an answer does not prove that {name} is Ready");
                return Some(Self::reason(at, what, &format!("probe {name} on a port of its own")));
            }
        };
        Some(Self::reason(at, what, &advice))
    }
}
