//! Compares an injected Pod with the Pod that the API server returns after all admission webhooks, in a dry run.

use crate::core::command::agent_path;
use crate::core::container::{Container, Mode};
use crate::core::text::one_line;
use crate::order::declare::spec::SIDECAR_NAME;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject;
use serde_json::Value;

/// Returns findings about the parts of an injected Pod that webhooks of the cluster have changed. `sent` is the Pod that was sent, and
/// `returned` is the server's answer. `expected` is the Pod after podgate's own injection, either by the tool before it
/// was sent or by podgate's webhook. The findings' places are in `template`.
pub fn check_returned(template: &Value, sent: &Value, expected: &Value, returned: &Value) -> Vec<Finding> {
    if !inject::is_injected(returned) && !inject::is_injected(sent) {
        let what = "the cluster's webhook of podgate does not inject this Pod, so its containers start in no order";
        let fix = "check the namespace's label podgate.io/inject and the webhook's namespaceSelector, or use inject";
        return vec![Finding::error("not-injected", place(template, ""), what).fix(fix)];
    }
    let mut findings = lost_restart_policies(template, expected, returned);
    let moved = super::check_sidecar_position(returned).filter(|_| super::check_sidecar_position(expected).is_none());
    findings.extend(moved.map(|finding| Finding { at: place(template, SIDECAR_NAME), ..finding }));
    let listed = inject::sidecar_list(expected).unwrap_or_default();
    findings.extend(check_list_order(expected, returned, &listed));
    let version = |pod| inject::injected_version(pod).unwrap_or_default();
    let (own, other) = (version(expected), version(returned));
    if own != other && !other.is_empty() {
        let what = format!("podgate {other} has injected this Pod, so podgate {own} does not compare the parts");
        let finding = Finding::note("part-lost", place(template, ""), what);
        findings.push(finding.fix("use the version of the cluster's webhook"));
        return findings;
    }
    for (name, parts) in inject::lost_parts(expected, returned) {
        let what = format!(
            "a webhook of the cluster removes or changes parts of podgate in {name}, so the order does not hold: {}",
            parts.join(", ")
        );
        let fix = "let that webhook skip these parts, or let podgate's webhook run after it";
        findings.push(Finding::error("part-lost", place(template, &name), what).fix(fix));
    }
    findings.extend(listed.iter().flat_map(|own| check_probes(template, expected, returned, own)));
    findings
}

/// Reports native sidecars that are now init containers, which must exit before the next container starts.
fn lost_restart_policies(template: &Value, expected: &Value, returned: &Value) -> Vec<Finding> {
    let with = |pod, is_native: bool| -> Vec<&str> {
        let all = items(pod, "initContainers").iter();
        all.filter(|own| (own["restartPolicy"] == "Always") == is_native)
            .filter_map(|own| own["name"].as_str())
            .collect()
    };
    let others = with(returned, false);
    let finding = |name: &str| {
        let what = format!(
            "a webhook of the cluster removes restartPolicy: Always from {name}, so the Pod waits forever for {name} to exit"
        );
        let alternative = if name == SIDECAR_NAME { ", or set podgate.io/sidecar-position: first" } else { "" };
        let fix = format!("update that webhook to a version that knows native sidecars{alternative}");
        Finding::error("native-lost", place(template, name), what).fix(fix)
    };
    with(expected, true).into_iter().filter(|name| others.contains(name)).map(finding).collect()
}

/// Reports moved containers in a Pod with hooks, and a regular sidecar of podgate that is no longer first.
fn check_list_order(expected: &Value, returned: &Value, listed: &[Container]) -> Option<Finding> {
    let has_hooks = listed.iter().any(|own| own.mode == Mode::PostStart);
    let names = |pod| -> Vec<&str> {
        let names = items(pod, "containers").iter().filter_map(|own| own["name"].as_str());
        names.filter(|name| *name == SIDECAR_NAME || listed.iter().any(|own| own.name == *name)).collect()
    };
    let (wanted, found) = (names(expected), names(returned));
    let is_first = wanted.first() == Some(&SIDECAR_NAME);
    if found == wanted || !has_hooks && (!is_first || found.first() == wanted.first()) {
        return None;
    }
    let what = format!(
        "a webhook of the cluster moves the containers, which must start in this order: {}; the Pod has: {}",
        wanted.join(", "),
        found.join(", ")
    );
    let fix = "let podgate's webhook run after that webhook, or use entrypoint mode, which needs no list order";
    Some(Finding::error("order-lost", Place::root().to("spec").to("containers"), what).fix(fix))
}

/// Reports probes that differ from those in the manifest.
fn check_probes(template: &Value, expected: &Value, returned: &Value, own: &Container) -> Vec<Finding> {
    let name = own.name.as_str();
    let (Some((_, before)), Some((_, after))) = (find(expected, name), find(returned, name)) else { return Vec::new() };
    let now = inject::sidecar_list(returned).unwrap_or_default().into_iter().find(|entry| entry.name == name);
    let is_followed = now.is_some_and(|now| now != *own);
    let mut findings = Vec::new();
    for field in ["startupProbe", "readinessProbe"] {
        let wanted = inject::without_zeros(&before[field]);
        // A lost startupProbe of podgate is a lost part.
        if wanted["exec"]["command"][0] == agent_path() || inject::covers(&after[field], &wanted) {
            continue;
        }
        let (what, at) = (format!("a webhook of the cluster changes the {field} of {name}"), place(template, name));
        findings.push(if is_followed {
            let what =
                format!("{what}; podgate uses the new probe, which must pass before the dependent containers start");
            Finding::note("probe-changed", at, what)
        } else {
            let what = format!("{what}, but podgate uses the manifest's, so both can disagree whether {name} is Ready");
            Finding::warning("probe-changed", at, what).fix("let podgate's webhook run after that webhook")
        });
    }
    findings
}

/// Returns the finding for a Pod that the API server does not accept, by the status code and the message of its answer.
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
            format!("can't create this Pod in a dry run, so podgate did not check the changes of the cluster: {text}");
        return Finding::note("dry-run-skipped", at, what);
    }
    let fix = if has("violates PodSecurity") && has(&format!("\"{SIDECAR_NAME}\"")) {
        "set the named fields; another webhook has changed those of podgate's sidecar: let it skip that container"
    } else if has("violates PodSecurity") {
        "set the named fields in the manifest; podgate's own parts meet the level restricted"
    } else if has("quota") || has(" per Container") || has(" per Pod") {
        "raise the limit or lower the Pod's resources; podgate.io/sidecar-resources sets those of podgate's sidecar"
    } else if has("failed calling webhook") {
        "check why that webhook does not answer; no such Pod can be created until then"
    } else if has("admission webhook") || has("ValidatingAdmissionPolicy") {
        "change the field that it names, or let the policy accept podgate's sidecar, volumes and commands"
    } else {
        "change the field that the message names"
    };
    Finding::error("pod-refused", at, format!("the API server refuses this Pod: {text}")).fix(fix)
}

fn items<'a>(pod: &'a Value, list: &str) -> &'a [Value] {
    pod["spec"][list].as_array().map_or(&[], Vec::as_slice)
}

fn find<'a>(pod: &'a Value, name: &str) -> Option<(Place, &'a Value)> {
    ["initContainers", "containers"].into_iter().find_map(|list| {
        let (index, own) = items(pod, list).iter().enumerate().find(|(_, own)| own["name"] == name)?;
        Some((Place::root().to("spec").to(list).to(index), own))
    })
}

/// Returns the place of the container `name`; the annotations if the template has no such container.
fn place(template: &Value, name: &str) -> Place {
    find(template, name).map_or_else(|| Place::root().to("metadata").to("annotations"), |(place, _)| place)
}
