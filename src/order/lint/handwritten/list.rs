//! Compares the containers that a handwritten sidecar lists with the containers of the Pod.

use crate::core::container::{Container, Handler, HttpGet, Mode, PortRef, TcpSocket};
use crate::core::container_list::{merge_containers, parse_list};
use crate::core::pod;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::container_list::{difference, list_text, proofs};
use crate::order::inject::existing::is_held;
use crate::order::inject::parts;
use serde_json::Value;
use std::slice::from_ref;

/// Checks the list of `sidecar`. Returns the regular containers as the sidecar sees them; `declared` contains them as
/// the spec declares them.
pub(super) fn check(
    sidecar: Option<&(Place, &Value)>,
    spec: &Spec<'_>,
    declared: Vec<Container>,
    findings: &mut Vec<Finding>,
) -> Vec<Container> {
    let list = sidecar.and_then(|(place, own)| Some((place.to("env"), list_text(own)?)));
    let Some((at, text)) = list else { return declared };
    let listed: Vec<Container> = serde_json::from_str(&text).unwrap_or_default();
    let before = findings.len();
    for entry in &listed {
        let native = spec.init(&entry.name).filter(|own| own.is_native());
        let Some(own) = spec.get(&entry.name).or(native) else {
            findings.extend(spec.check_name(&entry.name, &at, None));
            continue;
        };
        findings.extend(entry_difference(entry, own).map(|what| {
            let fix = "correct PODGATE_CONTAINERS, or the container";
            Finding::error("list-differs", at.clone(), what).fix(fix)
        }));
    }
    if let (Err(why), true) = (parse_list(&text), findings.len() == before) {
        findings.push(Finding::error("order-broken", at, format!("the sidecar rejects its list: {why}")));
    }
    merge_containers(&listed, &declared)
}

/// Describes the first value of `entry` that differs from the container `own`. The sidecar reads each value that `entry`
/// lacks from the spec.
fn entry_difference(entry: &Container, own: &ContainerRef<'_>) -> Option<String> {
    let container: pod::Container = serde_json::from_value(own.value.clone()).unwrap_or_default();
    let mut wanted = container.declared();
    let mut listed = merge_containers(from_ref(entry), from_ref(&wanted)).pop()?;
    if is_held(own.value, own.name) {
        (wanted.mode, wanted.until) = (Mode::Hold, listed.until.clone());
    }
    // A check or a command of podgate replaces the container's own probe.
    let is_replaced = |field| entry.ready_check.is_some() || parts::agent_line(own.value, field).is_some();
    let [no_startup, no_readiness] = ["startupProbe", "readinessProbe"].map(is_replaced);
    for container in [&mut listed, &mut wanted] {
        let known = container.clone();
        container.startup_probe.take_if(|_| no_startup);
        container.readiness_probe.take_if(|_| no_readiness);
        for probe in container.startup_probe.iter_mut().chain(&mut container.readiness_probe) {
            let number = known.probe_port(probe).map(PortRef::Number);
            if let Handler::HttpGet(HttpGet { port, .. }) | Handler::TcpSocket(TcpSocket { port, .. }) =
                &mut probe.handler
            {
                *port = number.unwrap_or_else(|| port.clone());
            }
        }
    }
    difference(&[proofs(&listed)], &[proofs(&wanted)])
}
