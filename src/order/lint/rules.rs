//! Rules of all findings. Rule names are stable between versions. `docs/rules.md` explains each rule.

use crate::order::finding::Level::{self, Error, Note, Warning};

/// Rule for one kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Name of the rule.
    pub name: &'static str,
    /// Levels of the rule's findings, highest first.
    pub levels: &'static [Level],
    /// Summary of the problem, in Markdown: one sentence without a final period.
    pub summary: &'static str,
}

/// All rules, sorted by name.
pub const RULES: &[Rule] = &[
    rule("absent-container", &[Note], "A container that a list marks as optional (`NAME?`) is not in the Pod"),
    rule("bad-container", &[Error], "A container has no name, or an invalid name"),
    rule("bad-order", &[Error], "A list of containers has a syntax error"),
    rule("bad-value", &[Error], "An annotation or label has an invalid value"),
    rule("by-hand", &[Error], "The template declares an order, but also has handwritten parts of podgate"),
    rule("command-not-split", &[Warning], "The first item of a command contains spaces, so it names no program"),
    rule("condition-never-met", &[Error], "A condition can never be met"),
    rule("copied-state", &[Warning], "An annotation describes the state of another, running Pod"),
    rule("cut-at-comma", &[Error], "YAML has cut a list at a comma"),
    rule("cycle", &[Error], "Containers wait for each other"),
    rule("deadline-too-short", &[Warning], "The workload's deadline is shorter than the longest possible start"),
    rule("declared-already", &[Note], "`inject --from` skips a template that already declares an order"),
    rule("doubled-container", &[Error], "Two containers have the same name, or a list names a container twice"),
    rule("exit-not-final", &[Warning], "Containers wait for the exit of a container that restarts"),
    rule("hold-device", &[Warning], "A held container requests a device: a restart of the kubelet can fail the Pod"),
    rule("hold-fails-workflow", &[Warning], "A workflow tool fails a Pod while a container is held"),
    rule("hold-impossible", &[Error], "A container must be held, but this Pod or cluster cannot hold containers"),
    rule("hold-may-be-late", &[Warning], "Without the API server, a held container may start up to 90 s late"),
    rule("hold-pulls", &[Warning], "Each attempt to create a held container queries the registry"),
    rule("hold-runtime-class", &[Warning], "With this Pod's runtime, the kubelet may not see the gate's file"),
    rule("hold-without-deadline", &[Error], "A held container may keep a Job from ever ending"),
    rule("hook-awaits-itself", &[Warning], "A postStart hook waits for the status of its own Pod"),
    rule("hook-holds-deletion", &[Warning], "A waiting hook delays the deletion of the Pod"),
    rule("hook-without-effect", &[Warning], "A waiting postStart hook in the last container holds back no container"),
    rule("host-is-container", &[Warning], "A probe or check uses a container's name as the host"),
    rule("host-network", &[Warning], "With `hostNetwork`, a probe may reach another Pod"),
    rule("image-by-tag", &[Warning], "A gate starts a command that the webhook knows only for the image's tag"),
    rule("image-pinned", &[Note], "Podgate pins the image from which it read the command"),
    rule("image-without-command", &[Warning], "An image has neither Entrypoint nor Cmd"),
    rule("init-container", &[Error], "An init container or native sidecar cannot do what an annotation declares"),
    rule("injected-changed", &[Error, Warning], "An injected part was changed, by hand or by another webhook"),
    rule("injected-unreadable", &[Error], "The record of the injection cannot be read"),
    rule("injection-outdated", &[Error, Note], "The injected parts no longer match the manifest"),
    rule("job-never-completes", &[Warning], "A container keeps running, so the Job never completes"),
    rule("kept-by-kubernetes", &[Note], "Kubernetes keeps a part of the order without podgate"),
    rule("known-by-kubelet", &[Warning, Note], "Only the kubelet's status proves a condition"),
    rule("list-differs", &[Error], "The list of a handwritten sidecar differs from the Pod's containers"),
    rule("liveness-kills", &[Warning], "A livenessProbe can kill a container again and again"),
    rule("migrated", &[Note], "The order of another tool was converted to annotations"),
    rule("misplaced", &[Error], "An annotation or label is not on a Pod or Pod template"),
    rule("mode-conflict", &[Error], "An annotation needs a feature that the container's mode does not have"),
    rule("mount-missing", &[Error, Warning], "A container lacks a mount that podgate needs"),
    rule("mount-not-visible", &[Error, Warning], "A check waits for a mount that the container may not see"),
    rule("name-taken", &[Error], "A container or volume has one of podgate's names"),
    rule("native-not-awaited", &[Warning], "Kubernetes does not wait for the readinessProbe of a native sidecar"),
    rule("native-startup", &[Warning], "A native sidecar's startupProbe can keep the containers from starting"),
    rule("native-would-do", &[Note], "Native sidecars can keep this order without podgate"),
    rule("needs-process-1", &[Warning], "The command may need to be process 1"),
    rule("needs-sidecar", &[Error], "The Pod has `podgate.io/sidecar: none`, but its order needs a sidecar"),
    rule("no-grace", &[Warning], "A grace period of 0 leaves no time for a stop order"),
    rule("no-readiness-probe", &[Warning], "Containers wait until a container without probes is Ready"),
    rule("not-a-label", &[Error], "An annotation is written as a label"),
    rule("not-an-annotation", &[Error], "A label is written as an annotation"),
    rule("not-editable", &[Error], "Podgate cannot edit the YAML without changing other lines"),
    rule("not-reversible", &[Error], "Internal error: the injection could not be undone"),
    rule("nothing-declared", &[Warning], "A Pod has podgate's label or settings, but declares no order"),
    rule("nothing-to-do", &[Note], "The declared order has no effect"),
    rule("nothing-to-migrate", &[Error], "The other tool's order cannot be read"),
    rule("operator-owns", &[Warning], "An operator owns the object, and can undo changes"),
    rule("order-assigned", &[Note], "The webhook's file of orders assigns an order to the Pod"),
    rule(
        "order-broken",
        &[Error],
        "The podgate commands in the template allow no valid start order, or the sidecar's list is invalid",
    ),
    rule("order-does-not-fit", &[Warning], "An order of the webhook's file of orders does not fit the Pod"),
    rule("order-reversed", &[Warning], "The order starts a client before its server"),
    rule("own-post-start", &[Error], "Podgate's hook cannot run the container's own postStart hook"),
    rule("own-pre-stop", &[Error], "Podgate's hook cannot run the container's own preStop hook"),
    rule("place-not-read", &[Warning], "An annotation is at a place that podgate does not read"),
    rule("post-start-before-gate", &[Warning], "A postStart hook runs before the container's command"),
    rule("pre-stop-too-long", &[Warning], "A preStop hook takes longer than its time limit"),
    rule("probe-on-loopback", &[Warning], "The kubelet probes a program that listens on the loopback address only"),
    rule("probe-rewritten", &[Error, Warning], "Istio has rewritten a probe, and the original is not known"),
    rule("probe-unreadable", &[Error], "A probe has a field that is invalid or unknown to podgate"),
    rule("readiness-needs-later", &[Error, Warning], "A probe or check needs a container that starts later"),
    rule("restart-fails", &[Warning], "With restartPolicy Never, a restart with a dependency fails the Pod"),
    rule("shared-processes", &[Warning], "With `shareProcessNamespace`, the sidecar cannot see when a container stops"),
    rule("shell-wait", &[Note], "A shell loop waits for another container of the Pod"),
    rule("short-grace", &[Warning, Note], "The grace period is short for the stop order"),
    rule("sidecar-not-first", &[Warning], "An init container comes before podgate's sidecar"),
    rule("stops-too-early", &[Warning], "A container stops before a container that uses it"),
    rule("suggested-order", &[Note], "A Pod declares no order, but its containers use each other's addresses"),
    rule("template-too-large", &[Error], "The Pod, its annotations or the order are too large"),
    rule("too-many-containers", &[Error], "The Pod has more than 200 regular containers or 200 init containers"),
    rule("unknown-command", &[Error], "A gate is needed, but the container's command is not known"),
    rule("unknown-container", &[Error], "An annotation names a container that the Pod does not have"),
    rule("unknown-key", &[Error], "Podgate does not know this annotation or label"),
    rule("unknown-port", &[Error], "A probe names a port that the container does not have"),
    rule("unreadable", &[Error], "A file, or a document in it, cannot be read"),
    rule("unused-annotation", &[Warning, Note], "A setting has no effect on this container"),
    rule("windows", &[Error], "The Pod runs on Windows"),
    rule("wrong-type", &[Error], "A field has the wrong type"),
];

/// Returns the rule `name`.
pub fn find(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == name)
}

const fn rule(name: &'static str, levels: &'static [Level], summary: &'static str) -> Rule {
    Rule { name, levels, summary }
}
