//! Checks of containers in hold mode, which the kubelet tries to create again and again while they are held.

use super::Target;
use crate::core::until::{WaitCondition, WantedState};
use crate::order::declare::spec::{ContainerRef, SIDECAR_NAME, Spec};
use crate::order::declare::{Publish, keys};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::plan::{ContainerPlan, Plan, PlannedMode};
use serde_json::Value;

/// Tools that delete a Pod with a held container, each with keys of labels or annotations that all Pods of the tool
/// have. A key that ends in `/` is a prefix.
const WORKFLOW_TOOLS: [(&str, &[&str]); 5] = [
    ("Tekton", &["tekton.dev/"]),
    ("Airflow", &["airflow_version"]),
    ("Airflow", &["dag_id", "task_id"]),
    ("Flyte", &["execution-id", "node-id", "task-name"]),
    ("GitLab Runner", &["job.runner.gitlab.com/"]),
];

pub(super) fn check(template: &Value, spec: &Spec<'_>, plan: &Plan, target: Target<'_>, findings: &mut Vec<Finding>) {
    let own = |planned: &ContainerPlan| spec.regular(&planned.name).copied();
    let held: Vec<_> = plan.containers.iter().filter(|one| one.mode == PlannedMode::Hold).filter_map(own).collect();
    for own in &held {
        check_pull(own, findings);
        check_devices(own, findings);
        check_release(own, plan, findings);
    }
    let Some(first) = held.first() else { return };
    check_workflow(template, first, findings);
    if let Some(class) = spec.value["runtimeClassName"].as_str() {
        let name = first.name;
        let what = format!(
            "{name} is held, but a runtime with a kernel of its own, such as Kata, keeps the gate file from the kubelet, so \
             {name} would never start: is {class} such a runtime?"
        );
        let fix = format!("set the command of {name}, so that the container waits in a gate");
        findings.push(Finding::warning("hold-runtime-class", Place::spec("runtimeClassName"), what).fix(fix));
    }
    let has_deadline = |value: &Value| !value["activeDeadlineSeconds"].is_null();
    // The deadline of a Job is not visible in its running Pods.
    let metadata = &template["metadata"];
    let is_of_job = metadata["uid"].is_string() && metadata["ownerReferences"][0]["kind"] == "Job";
    let deadline = has_deadline(spec.value) || target.workload.map_or(is_of_job, has_deadline);
    if spec.runs_to_completion()
        && !deadline
        && let Some(own) = held.iter().find(|own| plan.get(own.name).is_some_and(|one| !one.continue_on_timeout))
    {
        let what = format!("{} stays held after a time-out, so the Pod may never end", own.name);
        let fix = format!("set activeDeadlineSeconds of the Job or Pod, or {}: continue", keys::ON_TIMEOUT);
        findings.push(Finding::error("hold-without-deadline", own.place(), what).fix(fix));
    }
}

/// Reports a held container whose image the kubelet pulls on each attempt to create the container.
fn check_pull(own: &ContainerRef<'_>, findings: &mut Vec<Finding>) {
    let text = |field: &str| own.value[field].as_str();
    let tag = text("image").and_then(|image| image.rsplit('/').next()).filter(|last| !last.contains('@'));
    // The API server's default policy is Always for the tag `latest` and for an image without a tag.
    let is_latest = tag.is_some_and(|last| last.split_once(':').is_none_or(|(_, tag)| tag == "latest"));
    let (field, why) = match text("imagePullPolicy") {
        Some("Always") => ("imagePullPolicy", "imagePullPolicy: Always"),
        None if is_latest => ("image", "imagePullPolicy is Always by default for the tag latest"),
        _ => return,
    };
    let what = format!(
        "while {} is held, the kubelet queries the registry on each attempt to create it ({why}), which delays other pulls",
        own.name
    );
    let fix = "use an image with a fixed tag, and imagePullPolicy: IfNotPresent";
    findings.push(Finding::warning("hold-pulls", own.place().to(field), what).fix(fix));
}

/// Reports a held container with a resource of a device plugin, such as `nvidia.com/gpu`.
fn check_devices(own: &ContainerRef<'_>, findings: &mut Vec<Finding>) {
    let limits = own.place().to("resources").to("limits");
    let names = own.value.pointer("/resources/limits").and_then(Value::as_object).into_iter().flatten();
    if let Some((resource, _)) = names.into_iter().find(|(name, _)| name.contains('/')) {
        let what = format!(
            "{} requests the device {resource}: if the kubelet restarts while {0} is held, the Pod can fail",
            own.name
        );
        let fix = format!("set the command of {}, so that the container waits in a gate", own.name);
        findings.push(Finding::warning("hold-device", limits.to(resource.as_str()), what).fix(fix));
    }
}

/// Reports a held container that the kubelet may create late. Only a wrapped probe always passes after the gate has
/// opened, so that the kubelet then syncs the Pod.
fn check_release(own: &ContainerRef<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let is_wrapped = |name: &str| plan.get(name).is_some_and(|planned| planned.wrapped_probe.is_some());
    let may_be_late = |until: &&WaitCondition| until.want != WantedState::Ready || !is_wrapped(&until.container);
    let mut after = plan.get(own.name).into_iter().flat_map(|planned| &planned.after);
    let Some(until) = after.find(may_be_late).filter(|_| plan.publish == Publish::None) else { return };
    let (name, key) = (own.name, keys::PUBLISH_TARGET);
    let what = format!(
        "{name} may start up to 90 s late, because with {key}: none the sidecar cannot tell the kubelet that {until} is met"
    );
    let fix = format!("set {key}: api and bind podgate's role, or set the command of {name}");
    findings.push(Finding::warning("hold-may-be-late", own.place(), what).fix(fix));
}

/// Reports a Pod of a tool that treats the waiting reason of a held container as a failure.
fn check_workflow(template: &Value, held: &ContainerRef<'_>, findings: &mut Vec<Finding>) {
    let has = |field: &str, mark: &str| {
        let keys = template.pointer(&format!("/metadata/{field}")).and_then(Value::as_object).into_iter().flatten();
        keys.into_iter().any(|(key, _)| key == mark || mark.ends_with('/') && key.starts_with(mark))
    };
    let is_marked = |mark: &&str| has("labels", mark) || has("annotations", mark);
    if let Some((tool, _)) = WORKFLOW_TOOLS.iter().find(|(_, marks)| marks.iter().all(is_marked)) {
        let what = format!(
            "this is a Pod of {tool}, which fails the Pod while {} is held, because a held container has the reason \
             CreateContainerConfigError",
            held.name
        );
        let fix = format!("set the command of {}, so that the container waits in a gate", held.name);
        findings.push(Finding::warning("hold-fails-workflow", Place::root().to("metadata"), what).fix(fix));
    }
}

/// Reports init containers in front of podgate's sidecar.
pub fn check_sidecar_position(template: &Value) -> Option<Finding> {
    let list = Place::spec("initContainers");
    let items = list.of(template)?.as_array()?;
    let at = items.iter().position(|item| item["name"] == SIDECAR_NAME).filter(|at| *at > 0)?;
    let first = items[0]["name"].as_str().unwrap_or_default();
    let what = format!("{first} comes before podgate's sidecar, so podgate does not see its start");
    let fix = "put the sidecar first; if another webhook has moved it, let podgate's webhook run after that webhook";
    Some(Finding::warning("sidecar-not-first", list.to(at), what).fix(fix))
}
