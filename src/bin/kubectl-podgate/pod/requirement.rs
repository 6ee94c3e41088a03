//! Short descriptions of the event that would meet a condition.

use super::shape::PodContainer;
use podgate::core::container::{Container, Handler, PortRef, Probe};
use podgate::core::until::{WaitCondition, WantedState};

/// Describes the event that would meet `until`, such as `db must exit with 0`.
pub(crate) fn requirement(until: &WaitCondition, containers: &[PodContainer<'_>], standing: &str) -> String {
    let name = &until.container;
    let Some(target) = containers.iter().find(|container| container.spec.name == *name) else {
        return format!("the Pod has no container {name}");
    };
    if standing == "never" {
        return format!("{name} has ended for good; create a new Pod, or override the state of {name}");
    }
    // Without the role, nothing is published.
    let needs_role = |own: &Container| standing == "unknown" && own.needs_status(until.want);
    let advice = "; podgate sees this only with its role: kubectl podgate install --namespaces NAMESPACE";
    let role = if target.declared.as_ref().is_some_and(needs_role) { advice } else { "" };
    match until.want {
        WantedState::Started => format!("{name} must start{role}"),
        WantedState::Completed => format!("{name} must exit with 0{role}"),
        WantedState::Exited => format!("{name} must exit{role}"),
        WantedState::Ready => {
            // Use the sidecar's list, because injection may have replaced the probes in the spec.
            if let Some(check) = target.declared.as_ref().and_then(|declared| declared.ready_check.as_ref()) {
                return format!("{name} must pass the check {check}");
            }
            let probes = match &target.declared {
                Some(declared) => describe_probes(&declared.startup_probe, &declared.readiness_probe),
                None => describe_probes(&target.spec.startup_probe, &target.spec.readiness_probe),
            };
            match probes.as_slice() {
                [] => format!("{name} must start (it has no probe){role}"),
                some => format!("{name} must pass its {}{role}", some.join(", then its ")),
            }
        }
    }
}

fn describe_probes(startup: &Option<Probe>, readiness: &Option<Probe>) -> Vec<String> {
    let text = |kind: &str, probe: &Option<Probe>| {
        let probe = probe.as_ref().filter(|probe| probe.opened_command().is_none())?;
        Some(format!("{kind} ({})", describe_handler(&probe.handler)))
    };
    [text("startupProbe", startup), text("readinessProbe", readiness)].into_iter().flatten().collect()
}

fn describe_handler(handler: &Handler) -> String {
    let port = |port: &PortRef| match port {
        PortRef::Number(number) => number.to_string(),
        PortRef::Name(name) => name.clone(),
    };
    match handler {
        Handler::Exec(exec) => format!("exec {}", exec.command.join(" ")),
        Handler::HttpGet(http) => format!("httpGet :{}{}", port(&http.port), http.path.as_deref().unwrap_or("/")),
        Handler::TcpSocket(tcp) => format!("tcpSocket :{}", port(&tcp.port)),
        Handler::Grpc(grpc) => format!("grpc :{}", grpc.port),
    }
}
