//! Rules of all findings. Rule names are stable between versions. `docs/rules.md` explains each rule.

use crate::order::release;

/// Rule of one kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Name of the rule.
    pub name: &'static str,
    /// Summary of the problem: one sentence without a final period.
    pub summary: &'static str,
}

/// All rules, sorted by name.
pub const RULES: &[Rule] = &[
    rule("absent-container", "A list names a container with ?, and the Pod does not have it"),
    rule("bad-container", "A container has no name, or an invalid one"),
    rule("bad-order", "A list of containers has a syntax error"),
    rule("bad-value", "An annotation or label has an invalid value"),
    rule("by-hand", "The template declares an order and has parts of podgate written by hand"),
    rule("can-never-hold", "A condition can never hold"),
    rule("copied-state", "An annotation describes the state of another, running Pod"),
    rule("cut-at-comma", "YAML has cut a list at a comma"),
    rule("cycle", "Containers wait for each other"),
    rule("deadline-too-short", "The workload times out before the start does"),
    rule("declared-already", "A template that already declares an order is not migrated"),
    rule("doubled-container", "Two containers have the same name, or a list names one container twice"),
    rule("dry-run-skipped", "The Pod could not be created in a dry run"),
    rule("end-does-not-last", "A container that is waited for restarts after it exits"),
    rule("ephemeral-container", "An annotation names an ephemeral container"),
    rule("ephemeral-containers", "The manifest has ephemeral containers"),
    rule("gate-without-command", "Internal error: a gate without a command"),
    rule("hold-device", "A held container has a device, so the Pod can fail when the kubelet restarts"),
    rule("hold-fails-workflow", "A workflow tool fails a Pod while a container is held"),
    rule("hold-impossible", "A container must be held, but this Pod or cluster cannot hold containers"),
    rule("hold-mismatch", "The parts of hold mode do not match in a handwritten manifest"),
    rule("hold-pulls", "The registry is queried on each attempt to create a held container"),
    rule("hold-without-deadline", "A Pod that runs to completion may stay held forever"),
    rule("hook-holds-deletion", "A waiting hook delays the deletion of the Pod"),
    rule("host-network", "With hostNetwork a probe may reach another Pod"),
    rule("image-changed", "A command was read from another image than the container's"),
    rule("image-pinned", "An image is pinned to the digest whose command was read"),
    rule("image-without-command", "An image has neither Entrypoint nor Cmd"),
    rule("init-container", "An annotation declares a wait that an init container cannot keep"),
    rule("injected-changed", "An injected part was changed by hand"),
    rule("injected-unreadable", "The record of the injection cannot be read"),
    rule("kept-by-kubernetes", "Kubernetes keeps a part of the order without podgate"),
    rule("known-by-kubelet", "A state is known only from the kubelet's status"),
    rule("kubernetes-too-old", "A field needs a newer Kubernetes"),
    rule("liveness-kills", "A livenessProbe fails while the container waits"),
    rule("migrated", "The order of another tool was converted to annotations"),
    rule("misplaced", "An annotation or label is not on a Pod or Pod template"),
    rule("missing-policy", "A policy of podgate is missing or has no effect"),
    rule("missing-rbac", "The Pod's service account lacks rights that the sidecar needs"),
    rule("missing-webhook", "A Pod is not injected, and the cluster has no webhook"),
    rule("mode-conflict", "A container needs a gate but must use a hook"),
    rule("mount-not-visible", "A check waits for a mount that the container may not see"),
    rule("moved", "The containers are put into another order"),
    rule("name-taken", "A container or volume has one of podgate's names"),
    rule("native-lost", "A webhook removes the restartPolicy of a native sidecar"),
    rule("native-would-do", "Native sidecars can keep this order without podgate"),
    rule("needs-process-1", "The command may refuse to run with a parent process"),
    rule("no-containers", "The Pod has no containers"),
    rule("no-grace", "A grace period of 0 leaves no time for a stop order"),
    rule("no-readiness-probe", "A container without probes is waited for until it is Ready"),
    rule("not-a-label", "An annotation is written as a label"),
    rule("not-an-annotation", "A label is written as an annotation"),
    rule("not-guaranteed", "The sidecar's resources change the Pod's QoS class"),
    rule("not-injected", "The cluster's webhook does not inject the Pod"),
    rule("not-migrated", "A part of another tool's order was not migrated"),
    rule("not-reversible", "Internal error: the injection could not be undone"),
    rule("not-side-by-side", "A hook also delays containers that do not wait for it"),
    rule("nothing-declared", "A Pod has podgate's label or settings, but declares no order"),
    rule("nothing-to-do", "The declared order has no effect"),
    rule("nothing-to-migrate", "The other tool's order cannot be read"),
    rule("order-broken", "The podgate commands in the template allow no valid start order"),
    rule("order-lost", "A webhook moves containers whose list order matters"),
    rule("own-post-start", "Podgate's hook cannot run the container's own postStart hook"),
    rule("own-pre-stop", "Podgate's hook has to run the container's own preStop hook"),
    rule("part-lost", "A part of podgate is missing or different in the final Pod"),
    rule("path-taken", "A volume is mounted at one of podgate's paths"),
    rule("place-not-read", "An annotation is at a place that podgate does not read"),
    rule("pod-refused", "The API server refuses the Pod"),
    rule("post-start-before-gate", "A postStart hook runs before the container's command"),
    rule("pre-stop-too-long", "A preStop hook takes longer than its time limit"),
    rule("probe-changed", "A webhook changes a probe of a container in the order"),
    rule("probe-expands", "A probe's command uses a variable that a hook cannot expand"),
    rule("probe-rewritten", "Istio has rewritten a probe, and the original is not known"),
    rule("probe-unreadable", "A probe has an invalid field"),
    rule("readiness-needs-later", "A probe or check asks a container that starts later"),
    rule("restart-fails", "A container that must restart fails instead, because its restartPolicy is Never"),
    rule("shared-processes", "With shared processes the sidecar cannot see when a container stops"),
    rule("short-grace", "The grace period is too short for the stop order"),
    rule("sidecar-not-first", "An init container comes before podgate's sidecar"),
    rule("startup-probe-weaker", "A startupProbe is replaced by a weaker check"),
    rule("state-unused", "A state has no effect on the last step"),
    rule("strange-type", "A field has the wrong type"),
    rule("template-too-large", "The Pod, its annotations or the order are too large"),
    rule("too-many-containers", "The Pod has more than 200 containers"),
    rule("unknown-command", "A gate is needed, but the container's command is not known"),
    rule("unknown-container", "An annotation names a container that the Pod does not have"),
    rule("unknown-key", "Podgate does not know this annotation or label"),
    rule("unreadable", "A file, or a document in it, cannot be read"),
    rule("unused-annotation", "A setting has no effect on this container"),
    rule("windows", "The Pod runs on Windows"),
];

/// Returns the URL of the page that explains all rules.
pub fn page_url() -> String {
    format!("{}/blob/main/docs/rules.md", release::REPOSITORY)
}

/// Returns the URL of the section that explains the rule `name`.
pub fn section_url(name: &str) -> String {
    format!("{}#{name}", page_url())
}

const fn rule(name: &'static str, summary: &'static str) -> Rule {
    Rule { name, summary }
}
