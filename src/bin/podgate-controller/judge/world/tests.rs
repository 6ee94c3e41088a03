//! What the evidence of one Pod comes to, told as short stories.

mod ends;
mod gates;
mod overrides;
mod start;

use super::*;
use crate::clock::now;
use crate::input::observe::Word as Kubelet;
use podgate::core::probe::Word;
use podgate::core::report::{Gate, Report};
use std::time::Duration;

const HERE: &str = "3f2a9c1e-4097-1a0c5f3b";

const CHAIN: &str = r#"[
    {"name":"db","mode":"post-start","readinessProbe":{"tcpSocket":{"port":1}}},
    {"name":"api","mode":"post-start","readinessProbe":{"tcpSocket":{"port":2}}},
    {"name":"web","readinessProbe":{"tcpSocket":{"port":3}}}]"#;

const GATES: &str = r#"[
    {"name":"db","mode":"entrypoint","readinessProbe":{"tcpSocket":{"port":1}}},
    {"name":"api","mode":"entrypoint","until":["db"],"readinessProbe":{"tcpSocket":{"port":2}}}]"#;

fn world(resumed: bool, json: &str) -> World {
    let mut world = World::new(HERE.parse().unwrap(), "e1".to_owned(), 4, resumed);
    world.declare(podgate::core::containers::parse_list(json).unwrap());
    world.judge();
    world
}

impl World {
    /// What lies in its folder: this report, and a tether if the report is a gate's.
    fn hear(&mut self, name: &str, report: Option<Report>) -> bool {
        let held = report.as_ref().is_some_and(|report| report.ticket.is_some());
        self.hear_folder(name, Folder { report, rewritten: true, held, listens: false }, now())
    }

    fn probe(&mut self, name: &str, word: Word) {
        self.hear_probe(name, word, word == Word::Passed, now());
    }

    fn shows(&mut self, name: &str, word: Kubelet) {
        self.hear_kubelet(&kubelet(name, word), true, now());
    }

    fn state_of(&mut self, name: &str) -> State {
        self.judge();
        self.track(name).unwrap().state
    }

    fn heard_of(&mut self, name: &str) -> Option<String> {
        self.judge();
        self.published.as_ref().unwrap().heard.get(name).cloned()
    }

    fn phase(&mut self) -> Phase {
        self.judge();
        self.published.as_ref().unwrap().phase
    }
}

fn report() -> Report {
    Report { sandbox: Some(HERE.parse().unwrap()), epoch: "e1".to_owned(), started: true, ..Report::default() }
}

fn kubelet(name: &str, word: Kubelet) -> Facts {
    Facts { words: [(name.to_owned(), word)].into(), ..Facts::default() }
}

fn running(id: &str, ready: bool) -> Kubelet {
    Kubelet { running: Some(id.to_owned()), ready, started: true, ..Kubelet::default() }
}

fn ended(id: &str, code: i32) -> Kubelet {
    Kubelet { ended: Some((id.to_owned(), code)), ..Kubelet::default() }
}

fn waiting(ticket: &str, until: &[&str]) -> Report {
    let waiting_for = until.iter().map(|text| text.parse().unwrap()).collect();
    let (gate, ticket) = (Some(Gate::Waiting), Some(ticket.to_owned()));
    Report { gate, ticket, waiting_for, started: false, ..report() }
}

fn opened(ticket: &str) -> Report {
    Report { gate: Some(Gate::Opened), started: true, ..waiting(ticket, &[]) }
}

fn folder(report: Report, held: bool) -> Folder {
    Folder { report: Some(report), rewritten: true, held, listens: false }
}

/// Long after whatever was said before.
fn later() -> Instant {
    now() + Duration::from_secs(60)
}
