//! Every rule that a finding may name. Their names stay the same between versions; docs/rules.md explains each.

use crate::order::release;

/// One rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What it is about, in a sentence without a full stop.
    pub summary: &'static str,
}

/// All rules, by their names.
pub const RULES: &[Rule] = &[
    rule("bad-container", "A container has no name, or one that Kubernetes refuses"),
    rule("bad-order", "A text is not of the grammar of an order"),
    rule("bad-value", "An annotation or label has a value that it can't have"),
    rule("by-hand", "Parts of podgate's are there already, put in by hand, in a template that declares an order"),
    rule("can-never-hold", "A condition that can't come to hold: two states at once, an end that never comes"),
    rule("command-unknown", "A gate is planned for a container whose command is not known; a fault of podgate's"),
    rule("copied-state", "An annotation that only a running Pod can have; in a manifest it is never believed"),
    rule("cycle", "Containers wait for each other; the cycle is shown"),
    rule("deadline-too-short", "The workload gives up before the start may have timed out"),
    rule("declared-already", "Something is to be migrated into a template that declares an order of its own"),
    rule("doubled-container", "A name stands twice in one list"),
    rule("end-does-not-last", "An end is waited for that the kubelet answers with a new start (restartPolicy: Always)"),
    rule("ephemeral-container", "An ephemeral container is named, which somebody starts by hand"),
    rule("ephemeral-containers", "Ephemeral containers stand in a manifest, where Kubernetes takes none"),
    rule("hook-holds-deletion", "A hook that learns of the Pod's deletion only at its time limit"),
    rule("host-network", "Probes in the node's network may be answered by another Pod"),
    rule("image-pinned", "An image is pinned to the digest that was looked at"),
    rule("image-without-command", "An image was looked up, and has neither Entrypoint nor Cmd"),
    rule("init-container", "An init container is named, which is over (or runs) before any regular one starts"),
    rule("injected-changed", "What podgate has put in has been changed by hand since, and can't be taken out"),
    rule("injected-unreadable", "The annotation by which podgate takes its parts out again can't be read"),
    rule("kubernetes-too-old", "Something needs a newer Kubernetes than the one asked about"),
    rule("liveness-kills", "A livenessProbe that kills a container for what it can't help"),
    rule("migrated", "What has been understood of another tool's order"),
    rule("misplaced", "An annotation or label of podgate's on the workload instead of its template"),
    rule("missing-rbac", "The Pod's service account may not do what podgate's sidecar needs"),
    rule("missing-webhook", "A template is labelled for podgate's webhook, and the cluster has none"),
    rule("mode-conflict", "A gate would have to wait under a hook: the modes asked for do not go together"),
    rule("moved", "The list of containers is put into another order"),
    rule("name-taken", "A container or volume has a name of podgate's own"),
    rule("native-would-do", "Native sidecars of Kubernetes' own would do"),
    rule("needs-process-1", "A program that insists on being process 1, where podgate stays as its parent"),
    rule("no-containers", "There is nothing to order"),
    rule("no-grace", "A grace period of 0 leaves no time for a stop order"),
    rule("no-readiness-probe", "The order goes through a container that nothing says of when it is Ready"),
    rule("not-a-label", "An annotation of podgate's is written as a label"),
    rule("not-an-annotation", "A label of podgate's is written as an annotation"),
    rule("not-migrated", "Something of another tool's order that podgate has no annotation for"),
    rule("not-reversible", "What would be put in could not be taken out again; a fault of podgate's"),
    rule("not-side-by-side", "Hooks hold back containers that do not wait for each other"),
    rule("nothing-declared", "A template is marked for podgate, and declares nothing"),
    rule("nothing-to-do", "What is declared asks nothing of podgate"),
    rule("nothing-to-migrate", "There is no order of the other tool's, or it can't be read"),
    rule("order-broken", "The commands of podgate's that are written out can't keep the order"),
    rule("own-post-start", "The container has a postStart hook of its own that can't be chained with podgate's"),
    rule("own-pre-stop", "The container has a preStop hook of its own: chained with podgate's, or not to be"),
    rule("path-taken", "Something else is mounted where podgate mounts its own"),
    rule("post-start-before-gate", "The container's own postStart hook runs while its gate still waits"),
    rule("pre-stop-too-long", "A preStop hook takes longer than it may, or than others stay for it"),
    rule("probe-expands", "A probe's command has variables that nobody expands in a hook"),
    rule("probe-unreadable", "A probe is not as the Pod API has it"),
    rule("readiness-needs-later", "A probe asks a container that starts later"),
    rule("shared-processes", "In a shared process namespace a hook's tether does not last"),
    rule("short-grace", "Many containers stop in turn in a short grace period"),
    rule("startup-probe-weaker", "Behind a gate the kubelet can't ask all that the container's own startupProbe asks"),
    rule("state-unused", "A state is written that nobody waits for"),
    rule("strange-type", "Something in the manifest is of another kind than the Pod API has it"),
    rule("too-many-containers", "More containers than podgate puts into an order"),
    rule("unknown-annotation", "A key of podgate's that it does not know"),
    rule("unknown-command", "A gate is needed, and what the container runs is not known"),
    rule("unknown-container", "A name that no container of the Pod has"),
    rule("unused-annotation", "An annotation that says nothing about this Pod"),
    rule("windows", "The Pod runs on Windows, and podgate on Linux alone"),
];

/// URL of the page that explains all rules.
pub fn page_url() -> String {
    release::docs_url("rules.md")
}

/// URL of the section that explains the rule `name`.
pub fn section_url(name: &str) -> String {
    format!("{}#{name}", page_url())
}

const fn rule(name: &'static str, says: &'static str) -> Rule {
    Rule { name, summary: says }
}
