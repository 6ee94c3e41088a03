//! Checks of `mount://` conditions: a container must see the mounts that others make in a shared volume.

use crate::core::argv::Check;
use crate::order::declare::spec::Spec;
use crate::order::finding::Finding;
use crate::order::plan::Plan;
use serde_json::Value;

pub(super) fn check(spec: &Spec<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    for (number, planned) in plan.containers.iter().enumerate() {
        let Some(own) = spec.get(&planned.name) else { continue };
        for check in planned.checks() {
            let Check::Mount(path) = check else { continue };
            let depth = |mount: &Value| {
                let directory = mount["mountPath"].as_str()?.trim_end_matches('/');
                path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/')).then_some(directory.len())
            };
            let mounts = list(own.value, "volumeMounts").enumerate();
            let innermost = mounts.filter_map(|(index, mount)| Some((depth(mount)?, index, mount)));
            let Some((_, index, mount)) = innermost.max_by_key(|(depth, ..)| *depth) else { continue };
            if matches!(mount["mountPropagation"].as_str(), Some("HostToContainer" | "Bidirectional")) {
                continue;
            }
            // The mount may have existed in the volume before the Pod, or a container that was created earlier may have
            // made the mount.
            let is_same = |one: &Value| one["name"] == mount["name"];
            let is_empty = list(spec.value, "volumes").any(|one| is_same(one) && one["emptyDir"].is_object());
            let makes_mounts = |own: &Value| {
                list(own, "volumeMounts").any(|one| is_same(one) && one["mountPropagation"] == "Bidirectional")
            };
            let earlier = plan.containers[..number].iter().filter_map(|planned| spec.get(&planned.name));
            let mut earlier = list(spec.value, "initContainers").chain(earlier.map(|earlier| earlier.value));
            let what = format!(
                "{} waits for {check}, but mounts the volume without mountPropagation, so it sees only mounts that exist \
                 when it starts",
                own.name
            );
            let at = own.place().to("volumeMounts").to(index);
            // After a time-out, the gate exits. The restarted container then sees the mount.
            let is_last = own.restart_policy(spec.value) == "Never" && !planned.continue_on_timeout;
            let finding = match is_empty && is_last && !earlier.any(makes_mounts) {
                true => Finding::error("mount-not-visible", at, format!("{what}, and the kubelet does not restart it")),
                false => Finding::warning("mount-not-visible", at, what),
            };
            findings.push(finding.fix("set mountPropagation: HostToContainer in this volumeMount"));
        }
    }
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}
