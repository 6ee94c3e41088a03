//! Findings about a plan: conditions that are never met, settings without effect, unexpected effects, and costs.

use super::graph::Graph;
use super::modes;
use super::stop_order::describe_delayed_sigterm;
use super::types::{ContainerPlan, Plan, PlannedMode};
use crate::core::container::Mode;
use crate::core::text::command_line;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::declare::{Declaration, Publish, RequestedMode, annotation_place, container_annotation_place, keys};
use crate::order::finding::Finding;
use crate::order::kubernetes_version::Version;
use serde_json::Value;
use std::collections::BTreeSet;

/// Reports each wait for the exit of a container that the kubelet restarts, or that cannot exit before the waiter.
pub(super) fn check_exit_waits(spec: &Spec<'_>, declared: &Declaration, graph: &Graph, findings: &mut Vec<Finding>) {
    let quits = &declared.quits;
    let is_job_sidecar = |name: &str| declared.job_sidecars.iter().any(|item| item.until.container == name);
    let is_last = |name: &str| is_job_sidecar(name) || quits.contains_key(name);
    for own in &spec.containers {
        let exit = graph.waiters_with_needs(own.name).find(|(_, need)| need.until.want.is_exit());
        let Some((waiter, need)) = exit else { continue };
        let (name, at, word) = (own.name, need.at.clone(), need.span.clone());
        if is_last(name) && !is_last(waiter) || quits.contains_key(name) && !quits.contains_key(waiter) {
            let what = format!(
                "{waiter} waits for the exit of {name}, but podgate ends {name} only after {waiter} has exited"
            );
            let fix = format!(
                "do not let {waiter} wait for {name}, or remove quit.podgate.io/{name} or the item {name} of podgate.io/job-sidecars"
            );
            findings.push(Finding::error("condition-never-met", at, what).fix(fix).span(word));
        } else if own.restart_policy(spec.value) == "Always" {
            let what = format!(
                "the kubelet restarts {name} whenever it exits (restartPolicy: Always), so {} is met only between two runs",
                need.until
            );
            findings.push(Finding::warning("exit-not-final", at, what).span(word).fix(format!(
                "move {name} to spec.initContainers, or if the Pod is to end, set restartPolicy: OnFailure"
            )));
        }
    }
    let quit = quits.keys().next().map(|name| container_annotation_place(keys::QUIT_PREFIX, name));
    let listed = (!declared.job_sidecars.is_empty()).then(|| annotation_place(keys::JOB_SIDECARS));
    let Some(at) = listed.or(quit) else { return };
    let always = spec.containers.iter().find(|own| own.restart_policy(spec.value) == "Always");
    let (what, fix) = if spec.containers.iter().all(|own| is_last(own.name)) {
        ("every container ends only after the others".to_owned(), "do not list the containers that do the work")
    } else if let Some(ContainerRef { name, .. }) = always {
        let what = format!("the Pod never completes: the kubelet always restarts {name} (restartPolicy: Always)");
        (what, "set restartPolicy to Never or OnFailure; this annotation is for Pods that run to completion")
    } else if let Some(name) = quits.keys().find(|name| is_job_sidecar(name)) {
        (format!("{} stops {name} already", keys::JOB_SIDECARS), "remove the quit annotation, or the name in this list")
    } else {
        return;
    };
    findings.push(Finding::error("condition-never-met", at, what).fix(fix));
}

/// Returns findings about settings of single containers that have no effect or contradict other settings.
pub(super) fn of_settings(
    spec: &Spec<'_>,
    declared: &Declaration,
    graph: &Graph,
    involved: &BTreeSet<&str>,
    planned: &[ContainerPlan],
) -> Vec<Finding> {
    let plan = |name: &str| planned.iter().find(|planned| planned.name == name);
    let waits = |name: &str| plan(name).is_some_and(|planned| planned.has_closed_gate() || planned.has_blocking_hook());
    let is_fast_hold = |planned: &ContainerPlan| planned.fail_fast && planned.mode == PlannedMode::Hold;
    let is_held = |name: &str| declared.mode.of(name) == RequestedMode::Hold;
    let check = |key: &String| {
        let (prefix, name) = key.split_at(key.find('/')? + 1);
        let at = annotation_place(key);
        let has_command = |own: &ContainerRef<'_>| own.string_list("command").is_some_and(|words| !words.is_empty());
        let (why, fix) = if !involved.contains(name) {
            (format!("{name} is not part of the order, so this annotation has no effect"), "remove it")
        } else if matches!(prefix, keys::ON_TIMEOUT_PREFIX | keys::FAIL_FAST_PREFIX) && !waits(name) {
            (format!("{name} has no gate or hook that waits, so this annotation has no effect"), "remove it")
        } else if prefix == keys::READY_PREFIX && modes::ready_check(declared, graph, name).is_none() {
            (format!("no container waits until {name} is Ready, so this check has no effect"), "remove it")
        } else if prefix == keys::ON_DEPENDENCY_RESTART_PREFIX && graph.needs(name).is_empty() {
            (format!("{name} waits for no container, so this annotation has no effect"), "remove it")
        } else if prefix == keys::MODE_PREFIX && is_held(name) && graph.needs(name).is_empty() {
            (format!("{name} waits for no container, so hold mode has no effect"), "remove it")
        } else if prefix == keys::COMMAND_PREFIX && is_held(name) {
            (format!("{name} is in hold mode, which needs no command"), "remove this annotation, or use another mode")
        } else if prefix == keys::COMMAND_PREFIX && spec.regular(name).is_some_and(has_command) {
            (format!("{name} has a command in its spec, so this annotation has no effect"), "remove the annotation")
        } else if prefix == keys::FAIL_FAST_PREFIX && plan(name).is_some_and(is_fast_hold) {
            let what = format!("{name} is in hold mode, and a held container cannot exit");
            let fix = format!("remove this annotation, or set the command of {name} without mode hold");
            return Some(Finding::error("mode-conflict", at, what).fix(fix));
        } else {
            return None;
        };
        Some(Finding::warning("unused-annotation", at, why).fix(fix))
    };
    declared.settings.iter().filter_map(check).collect()
}

/// Returns the command that gives podgate's role to the service account of a Pod.
pub fn bind_role_command(pod_spec: &Value) -> String {
    let account = pod_spec["serviceAccountName"].as_str().filter(|name| !matches!(*name, "" | "default"));
    let Some(account) = account else { return "kubectl podgate install --namespaces NAMESPACE".to_owned() };
    let [name, account] = ["podgate-more-", "NAMESPACE:"].map(|start| start.to_owned() + account);
    let bind = ["kubectl", "create", "rolebinding", &name, "-n", "NAMESPACE", "--clusterrole", "podgate-sidecar"];
    command_line(&[&bind[..], &["--serviceaccount", &account]].concat())
}

impl Plan {
    /// Returns the costs of the order, which `check` and `inject` name before a user pays them, each as a word and a
    /// sentence. `template` is the template of this plan, and `kubernetes` is the cluster's version, if known.
    pub fn costs(&self, template: &Value, kubernetes: Option<Version>) -> Vec<(&'static str, String)> {
        let mut costs = Vec::new();
        let mut add = |word, text: String| costs.push((word, text));
        let held = self.containers.iter().filter(|planned| planned.mode() == Mode::Hold);
        let held = held.map(|planned| planned.name.as_str()).collect::<Vec<_>>().join(", ");
        let is_modified = self.containers.iter().any(ContainerPlan::is_modified);
        for planned in self.containers.iter().filter(|planned| !planned.outlives.is_empty()) {
            add("late", describe_delayed_sigterm(&planned.name, planned.pre_stop_limit, self.grace));
        }
        if !held.is_empty() {
            let state = "kubectl get pods shows CreateContainerConfigError, and the phase is Pending";
            add("shows", format!("while the kubelet holds {held}, {state}; not so if podgate knows the command"));
            if kubernetes.is_none() {
                add("version", format!("needs Kubernetes {} or newer to hold {held}", Version::FIRST_WITH_HOLD));
            }
        }
        if self.has_sidecar && is_modified && self.publish == Publish::Api {
            let without = match Vec::from_iter(self.unprovable_conditions.iter().map(String::as_str)).join(", ") {
                needs if !needs.is_empty() => format!("{needs} is never met"),
                _ if held.is_empty() => "status shows no states".to_owned(),
                _ => "status shows no states, and held containers can start up to 90 s late".to_owned(),
            };
            add("role", format!("{without} without podgate's role: {}", bind_role_command(&template["spec"])));
            if template["spec"]["automountServiceAccountToken"] != false {
                let effect = "so it has this role too and can read all Pods of the namespace";
                let fix = "automountServiceAccountToken: false prevents that";
                add("token", format!("each container mounts the account's token, {effect}; {fix}"));
            }
        }
        let needs = Plan::NEEDS_WITHOUT_SIDECAR;
        if !self.has_sidecar && is_modified {
            add("sidecar", format!("none, and no permissions; {needs}"));
        } else if !self.needs_sidecar && is_modified {
            add("sidecar", format!("not needed: podgate.io/sidecar: none removes it ({needs})"));
        }
        costs
    }
}
