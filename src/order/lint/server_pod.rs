//! Compares the Pod that the API server returns after all admission webhooks, in a dry run, with podgate's injection of
//! that Pod.

use crate::core::container::{Container, Handler, HttpGet, Mode, PortRef, Probe, TcpSocket};
use crate::core::text::one_line;
use crate::order::declare::spec::{SIDECAR_NAME, find_container};
use crate::order::edit::{PathSegment, Place};
use crate::order::finding::Finding;
use crate::order::inject::{self, Options};
use crate::order::kubernetes_version::rejects_env_files;
use crate::order::plan::KnownFacts;
use serde_json::Value;

/// Returns findings about changes that webhooks of the cluster have made to a Pod. The caller has sent `sent`, the Pod
/// of `template`. `returned` is the server's answer. `again` is the result of [`inject::inject_again`] for `returned`;
/// the caller reports errors in `again`. The findings' places are in `template`.
pub fn check_returned(
    template: &Value,
    sent: &Value,
    returned: &Value,
    again: &Result<Option<Value>, Vec<Finding>>,
    known: &KnownFacts,
) -> Vec<Finding> {
    let inject = |pod: &Value| inject::inject(pod, &Options::new("podgate"), known).map(|injected| injected.value);
    if !inject::is_injected(returned) && !inject::is_injected(sent) {
        let is_unneeded =
            inject::is_requested(returned) && !inject(returned).is_ok_and(|pod| inject::is_injected(&pod));
        let what = "the cluster's webhook of podgate does not inject this Pod, so its containers start in no order";
        let fix = "check the namespace's label podgate.io/inject and the webhook's namespaceSelector, or run inject";
        let finding = Finding::error("not-injected", place(template, ""), what).fix(fix);
        return if is_unneeded { Vec::new() } else { vec![finding] };
    }
    let first = if inject::is_injected(sent) { sent.clone() } else { inject(sent).unwrap_or_else(|_| sent.clone()) };
    // Other webhooks may have added containers of the order. The returned Pod then needs other parts than the sent Pod.
    let last = again.as_ref().map(|again| again.as_ref().unwrap_or(&first));
    let mut findings = lost_restart_policies(template, &[&first, last.unwrap_or(&first)], returned);
    let moved = super::check_sidecar_position(returned).filter(|_| super::check_sidecar_position(&first).is_none());
    findings.extend(moved.map(|finding| Finding { at: place(template, SIDECAR_NAME), ..finding }));
    let Ok(expected) = last else { return findings };
    let listed = inject::sidecar_list(expected).unwrap_or_default();
    findings.extend(check_list_order(returned));
    let version = |pod| inject::injected_version(pod).unwrap_or_default();
    let (own, other) = (version(expected), version(returned));
    if own != other && !other.is_empty() {
        let what = format!("podgate {other} has injected this Pod, so podgate {own} does not compare the parts");
        let finding = Finding::note("part-lost", place(template, ""), what);
        findings.push(finding.fix("use the plugin in the version of the cluster's webhook"));
        return findings;
    }
    for (name, parts) in inject::lost_parts(expected, returned) {
        let what = format!(
            "after all webhooks of the cluster have run, parts of podgate in {name} are missing or different, so the order is not kept: {}",
            parts.join(", ")
        );
        let fix = "let the other webhooks skip these parts, or let podgate's webhook run after them";
        findings.push(Finding::error("part-lost", place(template, &name), what).fix(fix));
    }
    findings.extend(check_probes(template, &first, &listed, returned));
    findings
}

/// Converts a finding about `returned`, the Pod from the API server, to a finding about `template`. If another webhook
/// has added the container, the new place is that of the annotations.
pub fn relocate_returned(finding: Finding, returned: &Value, template: &Value) -> Finding {
    let mut at = finding.at.clone();
    if let [_, PathSegment::Key(list), PathSegment::Index(_), ..] = at.0.as_slice()
        && matches!(&**list, "containers" | "initContainers")
    {
        let rest = at.0.split_off(3);
        let own = at.of(returned).and_then(|own| own["name"].as_str()).and_then(|name| find_container(template, name));
        at = own.map_or_else(|| place(template, ""), |(own, _)| Place([own.0, rest].concat()));
    }
    let message = format!("after all webhooks of the cluster have run: {}", finding.message);
    Finding { at, message, ..finding }
}

/// Reports native sidecars that are now init containers, which must exit before the next container starts.
fn lost_restart_policies(template: &Value, wanted: &[&Value; 2], returned: &Value) -> Vec<Finding> {
    let with = |pod, is_native: bool| -> Vec<&str> {
        let all = Place::spec("initContainers").items(pod).iter();
        all.filter(|own| (own["restartPolicy"] == "Always") == is_native)
            .filter_map(|own| own["name"].as_str())
            .collect()
    };
    let natives: Vec<&str> = wanted.iter().flat_map(|pod| with(pod, true)).collect();
    let finding = |name: &str| {
        let what = format!(
            "a webhook of the cluster removes restartPolicy: Always from {name}, so the Pod waits forever for {name} to exit"
        );
        let fix = "update that webhook to a version that supports native sidecars";
        Finding::error("native-lost", place(template, name), what).fix(fix)
    };
    with(returned, false).into_iter().filter(|name| natives.contains(name)).map(finding).collect()
}

/// Reports moved containers in a Pod with hooks. The sidecar's list has the containers in the order for which podgate
/// has written the hooks.
fn check_list_order(returned: &Value) -> Option<Finding> {
    let listed = inject::sidecar_list(returned).filter(|list| list.iter().any(|own| own.mode == Mode::PostStart))?;
    let names = Place::spec("containers").items(returned).iter().filter_map(|own| own["name"].as_str());
    let found: Vec<&str> = names.filter(|name| listed.iter().any(|own| own.name == *name)).collect();
    let wanted: Vec<&str> = listed.iter().map(|own| own.name.as_str()).filter(|name| found.contains(name)).collect();
    if found == wanted {
        return None;
    }
    let what = format!(
        "a webhook of the cluster moves the containers, which must start in this order: {}; the Pod has: {}",
        wanted.join(", "),
        found.join(", ")
    );
    let fix = "let podgate's webhook run after that webhook, or use entrypoint mode, which needs no list order";
    Some(Finding::error("order-lost", Place::spec("containers"), what).fix(fix))
}

/// Reports changed probes of containers that other containers wait for. `first` is the Pod before the changes by other
/// webhooks. `listed` has the final probes as podgate reads them, with the originals of probes that Istio rewrote.
fn check_probes(template: &Value, first: &Value, listed: &[Container], returned: &Value) -> Vec<Finding> {
    let list = |pod| inject::sidecar_list(pod).unwrap_or_default();
    let (first, used) = (list(first), list(returned));
    let mut findings = Vec::new();
    for own in listed {
        let name = own.name.as_str();
        let is_awaited = listed.iter().flat_map(|other| &other.until).any(|until| until.container == name);
        let probes = |list: &[Container]| Some(resolved_probes(list.iter().find(|entry| entry.name == name)?));
        let Some(used) = probes(&used).filter(|_| is_awaited) else { continue };
        let (last, at) = (resolved_probes(own), place(template, name));
        let first = probes(&first).unwrap_or_else(|| last.clone());
        for (number, field) in ["startupProbe", "readinessProbe"].into_iter().enumerate() {
            let what = format!("a webhook of the cluster changes the {field} of {name}");
            if used[number] != last[number] {
                let what = format!(
                    "{what}, but podgate uses another probe, so podgate and the kubelet can disagree whether {name} is Ready"
                );
                let fix = "let podgate's webhook run after that webhook";
                findings.push(Finding::warning("probe-changed", at.clone(), what).fix(fix));
            } else if first[number] != last[number] {
                let what = format!("{what}; podgate uses the new probe, which must pass before other containers start");
                findings.push(Finding::note("probe-changed", at.clone(), what));
            }
        }
    }
    findings
}

/// Returns the startupProbe and the readinessProbe with the numbers of named ports.
fn resolved_probes(own: &Container) -> [Option<Probe>; 2] {
    [&own.startup_probe, &own.readiness_probe].map(|probe| {
        let mut probe = probe.clone()?;
        let number = own.probe_port(&probe);
        if let Handler::HttpGet(HttpGet { port, .. }) | Handler::TcpSocket(TcpSocket { port, .. }) = &mut probe.handler
            && let Some(number) = number
        {
            *port = PortRef::Number(number);
        }
        Some(probe)
    })
}

/// Returns the finding for a Pod that the API server has rejected with this status code and message.
pub fn check_refusal(code: u16, message: &str) -> Finding {
    let at = Place::root().to("spec");
    let text = one_line(message, 1000);
    let has = |part: &str| message.contains(part);
    let is_unknown = matches!(code, 404 | 409 | 429)
        || code >= 500 && !has("webhook")
        || has("cannot create resource")
        || has("does not support dry run")
        || has("error looking up service account");
    if is_unknown {
        let what =
            format!("cannot create this Pod in a dry run, so podgate did not check the changes by webhooks: {text}");
        return Finding::note("dry-run-skipped", at, what);
    }
    let fix = if rejects_env_files(message) {
        "this API server does not support hold mode: it is older than Kubernetes 1.35, or its feature gate EnvFiles is off; turn \
         EnvFiles on, or give the held containers a command"
    } else if has("violates PodSecurity") && has(&format!("\"{SIDECAR_NAME}\"")) {
        "set the fields that the message names; another webhook has changed podgate's sidecar: let that webhook skip the sidecar"
    } else if has("violates PodSecurity") {
        "set the named fields in the manifest; podgate's own parts meet the level restricted"
    } else if has("quota") || has(" per Container") || has(" per Pod") {
        "raise the limit or lower the Pod's resources; podgate.io/sidecar-resources sets those of podgate's sidecar"
    } else if has("failed calling webhook") {
        "check why that webhook does not answer; until it answers, the API server rejects such Pods"
    } else if has("admission webhook") || has("ValidatingAdmissionPolicy") {
        "change the field that the message names, or let the policy accept podgate's sidecar, volumes and commands"
    } else {
        "change the field that the message names"
    };
    Finding::error("pod-rejected", at, format!("the API server refuses this Pod: {text}")).fix(fix)
}

/// Returns the place of the container `name`; the annotations if the template has no such container.
fn place(template: &Value, name: &str) -> Place {
    find_container(template, name).map_or_else(|| Place::metadata("annotations"), |(place, _)| place)
}
