//! Every rule that a finding may name. Their names stay the same between versions; docs/check.md has this table.

/// One rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What it is about, in a sentence without a full stop.
    pub says: &'static str,
}

/// All rules, by their names.
pub const RULES: &[Rule] = &[
    rule("bad-container", "A container has no name, or one that Kubernetes refuses"),
    rule("bad-order", "A text is not of the grammar of an order"),
    rule("bad-value", "An annotation or label has a value that it can't have"),
    rule("can-never-hold", "A condition that can't come to hold: two states at once, an end that never comes"),
    rule("copied-state", "An annotation that only a running Pod can have; in a manifest it is never believed"),
    rule("cycle", "Containers wait for each other; the cycle is shown"),
    rule("deadline-too-short", "The workload gives up before the start may have timed out"),
    rule("declared-already", "Something is to be migrated into a template that declares an order of its own"),
    rule("doubled-container", "A name stands twice in one list"),
    rule("end-does-not-last", "An end is waited for that the kubelet answers with a new start (restartPolicy: Always)"),
    rule("ephemeral-container", "An ephemeral container is named, which somebody starts by hand"),
    rule("hook-holds-deletion", "A hook that learns of the Pod's deletion only at its time limit"),
    rule("host-network", "Probes in the node's network may be answered by another Pod"),
    rule("init-container", "An init container is named, which is over (or runs) before any regular one starts"),
    rule("kubernetes-too-old", "Something needs a newer Kubernetes than the one asked about"),
    rule("liveness-kills", "A livenessProbe that kills a container for what it can't help"),
    rule("migrated", "What has been understood of another tool's order"),
    rule("misplaced", "An annotation or label of podgate's on the workload instead of its template"),
    rule("missing-rbac", "The Pod's service account may not do what podgate's sidecar needs"),
    rule("mode-conflict", "A gate would have to wait under a hook: the modes asked for do not go together"),
    rule("moved", "The list of containers is put into another order"),
    rule("native-would-do", "Native sidecars of Kubernetes' own would do"),
    rule("needs-process-1", "A program that insists on being process 1, where podgate stays as its parent"),
    rule("no-containers", "There is nothing to order"),
    rule("no-grace", "A grace period of 0 leaves no time for a stop order"),
    rule("no-readiness-probe", "The order goes through a container that nothing says of when it is Ready"),
    rule("not-a-label", "An annotation of podgate's is written as a label"),
    rule("not-an-annotation", "A label of podgate's is written as an annotation"),
    rule("not-migrated", "Something of another tool's order that podgate has no annotation for"),
    rule("not-side-by-side", "Hooks hold back containers that do not wait for each other"),
    rule("nothing-declared", "A template is marked for podgate, and declares nothing"),
    rule("nothing-to-migrate", "There is no order of the other tool's, or it can't be read"),
    rule("order-broken", "The commands of podgate's that are written out can't keep the order"),
    rule("pre-stop-too-long", "A preStop hook takes longer than it may, or than others stay for it"),
    rule("readiness-needs-later", "A probe asks a container that starts later"),
    rule("shared-processes", "In a shared process namespace a hook's tether does not last"),
    rule("short-grace", "Many containers stop in turn in a short grace period"),
    rule("state-unused", "A state is written that nobody waits for"),
    rule("too-many-containers", "More containers than podgate puts into an order"),
    rule("unknown-annotation", "A key of podgate's that it does not know"),
    rule("unknown-command", "A gate is needed, and what the container runs is not known"),
    rule("unknown-container", "A name that no container of the Pod has"),
    rule("unused-annotation", "An annotation that says nothing about this Pod"),
];

const fn rule(name: &'static str, says: &'static str) -> Rule {
    Rule { name, says }
}

/// The rule of that name.
#[must_use]
pub fn get(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == name)
}
