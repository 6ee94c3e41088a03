//! Tests of `PodModel`: sequences of evidence and the resulting states.

mod ends;
mod gates;
mod hold;
mod overrides;
mod probes;
mod proofs;
mod random;
mod start;

use super::*;
use crate::clock::now;
use crate::input::pod_facts::KubeletStatus as Kubelet;
use podgate::core::probe::ProbeVerdict;
use podgate::core::report::{GateState, Report};
use std::time::Duration;

const SANDBOX_ID: &str = "3f2a9c1e-4097-1a0c5f3b";

const CHAIN: &str = r#"[
    {"name":"db","mode":"post-start","readinessProbe":{"tcpSocket":{"port":1}}},
    {"name":"api","mode":"post-start","readinessProbe":{"tcpSocket":{"port":2}}},
    {"name":"web","readinessProbe":{"tcpSocket":{"port":3}}}]"#;

const GATES: &str = r#"[
    {"name":"db","mode":"entrypoint","readinessProbe":{"tcpSocket":{"port":1}}},
    {"name":"api","mode":"entrypoint","until":["db"],"readinessProbe":{"tcpSocket":{"port":2}}}]"#;

fn new_pod(resumed: bool, json: &str) -> PodModel {
    let mut pod = PodModel::new(SANDBOX_ID.parse().unwrap(), Epoch { id: "e1".to_owned(), is_resumed: resumed }, 4);
    pod.set_containers(podgate::core::container_list::parse_list(json).unwrap());
    pod.update_snapshot(now());
    pod
}

impl PodModel {
    /// Passes a directory with `report` to the model. If a gate wrote the report, the container is tethered.
    fn receive_report(&mut self, name: &str, report: Option<Report>) -> bool {
        let is_tethered = report.as_ref().is_some_and(|report| report.ticket.is_some());
        let directory = DirectoryState { report, is_rewritten: true, is_tethered, is_listening: false };
        self.on_report(name, directory, now())
    }

    fn receive_verdict(&mut self, name: &str, verdict: ProbeVerdict) {
        self.on_probe(name, verdict, verdict == ProbeVerdict::Passed, now());
    }

    fn receive_status(&mut self, name: &str, status: Kubelet) {
        self.on_pod_update(&pod_facts(name, status), true, now());
    }

    fn state_of(&mut self, name: &str) -> State {
        self.update_snapshot(now());
        self.track(name).unwrap().state
    }

    fn confirmed_ticket_of(&mut self, name: &str) -> Option<String> {
        self.update_snapshot(now());
        self.published.as_ref().unwrap().confirmed_tickets.get(name).cloned()
    }

    fn stage(&mut self) -> Stage {
        self.update_snapshot(now());
        self.published.as_ref().unwrap().stage
    }
}

fn report() -> Report {
    Report { sandbox: Some(SANDBOX_ID.parse().unwrap()), epoch: "e1".to_owned(), started: true, ..Report::default() }
}

fn pod_facts(name: &str, status: Kubelet) -> PodFacts {
    PodFacts { kubelet_statuses: [(name.to_owned(), status)].into(), ..PodFacts::default() }
}

fn running(id: &str, ready: bool) -> Kubelet {
    Kubelet { running_id: Some(id.to_owned()), is_ready: ready, has_started: true, ..Kubelet::default() }
}

fn ended(id: &str, code: i32) -> Kubelet {
    Kubelet { termination: Some((id.to_owned(), code)), ..Kubelet::default() }
}

fn waiting(ticket: &str, until: &[&str]) -> Report {
    let waiting_for = until.iter().map(|text| text.parse().unwrap()).collect();
    let (gate, ticket) = (Some(GateState::Waiting), Some(ticket.to_owned()));
    Report { gate, ticket, waiting_for, started: false, ..report() }
}

fn opened(ticket: &str) -> Report {
    Report { gate: Some(GateState::Opened), started: true, ..waiting(ticket, &[]) }
}

fn directory_state(report: Report, is_tethered: bool) -> DirectoryState {
    DirectoryState { report: Some(report), is_rewritten: true, is_tethered, is_listening: false }
}

/// Returns a time long after all other evidence.
fn later() -> Instant {
    now() + Duration::from_secs(60)
}
