//! Selects a mode for each container: a gate in front of its command, a gate at the kubelet (hold mode), or hooks.
//! These hooks run in the preceding containers and hold the container back.
//!
//! Hooks are selected only if an annotation requests them, because hooks cannot keep the order in every case. The
//! kubelet starts a Pod's containers one after another, and a hook delays all later containers. If hooks delay a
//! container, all its direct and indirect dependencies must therefore have hooks.

use super::graph::Graph;
use super::types::{ImageCommand, KnownFacts};
use crate::core::argv::Check;
use crate::core::until::WantedState;
use crate::order::declare::ready::ReadyCheck;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::declare::{Declaration, RequestedMode, annotation_place, container_annotation_place, keys};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::helpers::known_quit_line;
use crate::order::kubernetes_version::Version;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Reason why hooks hold a container back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HookReason {
    /// The annotation with this key requests post-start mode.
    Requested(String),
    /// The named container waits for this container, and hooks must hold the named container back.
    NeededBy(String),
}

/// Containers that hooks hold back, with the reasons.
pub(super) type HookedContainers = BTreeMap<String, HookReason>;

/// Reason why a container requires a gate.
#[derive(Debug, Clone, Default)]
pub(super) struct GateReason {
    reason: String,
    /// True if the gate must be in front of the container's command.
    needs_command: bool,
    at: Place,
    span: Option<Range<usize>>,
    /// Alternative fix, appended to the message; may be empty.
    or: String,
}

pub(super) struct ModeResolver<'a> {
    pub(super) graph: &'a Graph,
    pub(super) declared: &'a Declaration,
    pub(super) commands: &'a BTreeMap<String, Vec<String>>,
    pub(super) gate_reasons: BTreeMap<String, GateReason>,
    pub(super) known: &'a KnownFacts,
}

impl ModeResolver<'_> {
    /// Returns the mode, and the key of the annotation that declares it.
    fn requested_mode(&self, name: &str) -> (RequestedMode, String) {
        (self.declared.mode.of(name), self.declared.mode.key(keys::MODE, name))
    }

    /// Returns true if the container gets a gate at the kubelet, unless hooks hold it back. A container that waits for
    /// nothing needs no gate.
    pub(super) fn prefers_hold(&self, name: &str) -> bool {
        let (mode, _) = self.requested_mode(name);
        mode == RequestedMode::Hold || mode == RequestedMode::Auto && !self.commands.contains_key(name)
    }

    /// Returns the hook waiters of `involved`. Of the other containers, those in `gated` have gates.
    pub(super) fn decide_hooked(
        &self,
        involved: &[&ContainerRef<'_>],
        gated: &BTreeSet<&str>,
        findings: &mut Vec<Finding>,
    ) -> HookedContainers {
        let mut waiters = HookedContainers::new();
        for own in involved {
            let (mode, key) = self.requested_mode(own.name);
            match mode {
                RequestedMode::PostStart => _ = waiters.insert(own.name.to_owned(), HookReason::Requested(key)),
                RequestedMode::Entrypoint if gated.contains(own.name) && !self.commands.contains_key(own.name) => {
                    let what = format!("{} is set to entrypoint mode, but its command is not known", own.name);
                    let finding = Finding::error("unknown-command", annotation_place(&key), what);
                    findings.push(finding.fix(command_advice(own.name)));
                }
                _ => {}
            }
        }
        let mut left: Vec<String> = waiters.keys().cloned().collect();
        while let Some(name) = left.pop() {
            for need in self.graph.needs(&name) {
                let before = &need.until.container;
                if !waiters.contains_key(before) {
                    waiters.insert(before.clone(), HookReason::NeededBy(name.clone()));
                    left.push(before.clone());
                }
            }
        }
        for own in involved {
            match waiters.get(own.name) {
                Some(_) => self.report_conflict(own.name, &waiters, findings),
                None if self.prefers_hold(own.name) => self.check_hold(own, &waiters, findings),
                None => {}
            }
        }
        waiters
    }

    /// Reports an error if hold mode is not possible for a container.
    fn check_hold(&self, own: &ContainerRef<'_>, hooked: &HookedContainers, findings: &mut Vec<Finding>) {
        let name = own.name;
        if let Some(gate) = self.gate_reasons.get(name).filter(|gate| gate.needs_command) {
            let (rule, why, fix) = match self.commands.contains_key(name) {
                true => ("hold-impossible", format!("{name} is in hold mode"), entrypoint_mode_advice(name)),
                false => ("unknown-command", format!("the command of {name} is not known"), command_advice(name)),
            };
            let what = format!("{}, so {name} needs a gate, but {why}", gate.reason);
            let finding = Finding::error(rule, gate.at.clone(), what).fix(fix + &gate.or);
            return findings.push(Finding { span: gate.span.clone(), ..finding });
        }
        let waits = !self.graph.needs(name).is_empty();
        let is_old = self.known.kubernetes.filter(|version| *version < Version::FIRST_WITH_HOLD);
        let obstacle = if !waits {
            return;
        } else if let Some(version) = is_old {
            format!("needs Kubernetes {}, but this is {version}", Version::FIRST_WITH_HOLD)
        } else if let Some(hook) = hooked.keys().next() {
            format!("cannot be combined with post-start mode, which {} has", root_cause(hook, hooked))
        } else {
            return;
        };
        let (mode, key) = self.requested_mode(name);
        let (what, at) = match mode {
            RequestedMode::Hold => (format!("{name} is set to hold mode, which {obstacle}"), annotation_place(&key)),
            _ => (format!("the command of {name} is not known, and hold mode {obstacle}"), own.place()),
        };
        let advice = match (mode, self.commands.contains_key(name)) {
            (_, true) => entrypoint_mode_advice(name),
            (RequestedMode::Hold, false) => format!("{}, and {}", entrypoint_mode_advice(name), command_advice(name)),
            (_, false) => command_advice(name),
        };
        let fix = format!("{advice}, or write {}{name}: post-start", keys::MODE_PREFIX);
        findings.push(Finding::error("hold-impossible", at, what).fix(fix));
    }

    /// Reports an error if hooks must hold back a container that requires a gate.
    fn report_conflict(&self, name: &str, hooked: &HookedContainers, findings: &mut Vec<Finding>) {
        let (mode, key) = self.requested_mode(name);
        let by_mode = || GateReason {
            reason: format!("{name} is in {} mode", mode.as_str()),
            at: annotation_place(&key),
            ..GateReason::default()
        };
        let is_requested = matches!(mode, RequestedMode::Entrypoint | RequestedMode::Hold);
        let Some(gate) = self.gate_reasons.get(name).cloned().or_else(|| is_requested.then(by_mode)) else {
            return;
        };
        let GateReason { reason: gate, at: gate_at, span: word, or, .. } = gate;
        match hooked.get(name) {
            Some(HookReason::Requested(key)) => {
                let what = format!("{name} is in post-start mode, but {gate}, so {name} needs a gate");
                let fix = format!("write {}{name}: auto{or}", keys::MODE_PREFIX);
                findings.push(Finding::error("mode-conflict", annotation_place(key), what).fix(fix));
            }
            // Report nothing here, because the finding for the root cause is enough.
            _ if self.gate_reasons.contains_key(root_cause(name, hooked)) => {}
            _ => {
                let last = root_cause(name, hooked);
                let fix = format!("write {}{last}: auto{or}", keys::MODE_PREFIX);
                let what = format!(
                    "{gate}, but {last} comes after {name} and is in post-start mode. Only hooks in earlier containers can \
                     hold {last} back, and no container can wait in a gate while a hook runs"
                );
                findings.push(Finding { span: word, ..Finding::error("mode-conflict", gate_at, what).fix(fix) });
            }
        }
    }

    /// Explains the mode of `name`.
    pub(super) fn mode_reason(&self, name: &str, hooked: &HookedContainers) -> String {
        match hooked.get(name) {
            Some(HookReason::Requested(key)) => format!("set by {key}"),
            Some(HookReason::NeededBy(_)) => {
                format!("{}, which comes later, is in post-start mode", root_cause(name, hooked))
            }
            None => match self.requested_mode(name) {
                (RequestedMode::Auto, _) if self.commands.contains_key(name) => "its command is known".to_owned(),
                (RequestedMode::Auto, _) => "its command is not known".to_owned(),
                (_, key) => format!("set by {key}"),
            },
        }
    }
}

/// Returns the container in post-start mode that causes `name` to have a hook.
fn root_cause<'a>(name: &'a str, hooked: &'a HookedContainers) -> &'a str {
    let mut at = name;
    while let Some(HookReason::NeededBy(next)) = hooked.get(at) {
        at = next;
    }
    at
}

pub(super) fn entrypoint_mode_advice(name: &str) -> String {
    format!("write {}{name}: entrypoint", keys::MODE_PREFIX)
}

pub(super) fn command_advice(name: &str) -> String {
    format!(
        "set command in spec.containers, or {}{name}: '[\"/usr/bin/program\"]', or look it up with --resolve-images",
        keys::COMMAND_PREFIX
    )
}

/// Returns a container's command from its spec, annotation or image. The words have the syntax of a spec: the kubelet
/// expands `$(NAME)` but not `$$(NAME)`.
pub(super) fn effective_command(
    own: &ContainerRef<'_>,
    declared: &Declaration,
    image: Option<&ImageCommand>,
) -> Option<Vec<String>> {
    let args = own.string_list("args").filter(|args| !args.is_empty());
    let given = own.string_list("command").filter(|command| !command.is_empty());
    let given = given.or_else(|| declared.commands.get(own.name).cloned());
    let mut words = given.or_else(|| Some(image?.escaped_words(args.is_some())))?;
    words.extend(args.into_iter().flatten());
    (!words.is_empty()).then_some(words)
}

pub(super) fn gate_reasons(
    spec: &Spec<'_>,
    graph: &Graph,
    declared: &Declaration,
    names: &BTreeSet<&str>,
) -> BTreeMap<String, GateReason> {
    let mut gates = BTreeMap::new();
    for name in names {
        for need in graph.needs_without_earlier_steps(name) {
            let is_native = spec.init_or_native(&need.until.container).is_some();
            if !is_native && !need.until.want.is_exit() {
                continue;
            }
            let (at, span) = (need.at.clone(), Some(need.span.clone()));
            let gate = |reason| GateReason {
                reason,
                needs_command: false,
                at: at.clone(),
                span: span.clone(),
                or: if is_native { format!(", or write {}=Started", need.until.container) } else { String::new() },
            };
            let of = if is_native { "the native sidecar " } else { "" };
            let waits = gate(format!("{name} waits for {of}{}", need.until));
            gates.entry((*name).to_owned()).or_insert(waits);
            if !is_native {
                let ends = gate(format!("{name} waits for the exit of {}", need.until.container));
                gates.entry(need.until.container.clone()).or_insert(ends);
            }
        }
    }
    let of_command = |reason, at| GateReason { reason, needs_command: true, at, ..GateReason::default() };
    for name in names {
        // Skip network checks, which the sidecar runs itself.
        let Some(check) = ready_check(declared, graph, name).filter(|check| !check.is_network()) else { continue };
        let (reason, at) =
            (format!("{name} is Ready by {}", check.text), container_annotation_place(keys::READY_PREFIX, name));
        let or = ", or use a tcp:// or http:// check".to_owned();
        gates.insert((*name).to_owned(), GateReason { or, ..of_command(reason, at) });
    }
    for (name, checks) in &declared.checks {
        let reason = format!("{name} waits for {}", checks.iter().map(Check::to_string).collect::<Vec<_>>().join(", "));
        gates.insert(name.clone(), of_command(reason, container_annotation_place(keys::CHECK_PREFIX, name)));
    }
    for name in names.iter().filter(|name| !graph.needs(name).is_empty()) {
        let restarts = &declared.restart_with_dependency;
        if restarts.of(name) {
            let reason = format!("{name} restarts with the containers that it waits for");
            let at = annotation_place(&restarts.key(keys::ON_DEPENDENCY_RESTART, name));
            gates.insert((*name).to_owned(), of_command(reason, at));
        }
    }
    for item in &declared.job_sidecars {
        let name = &item.until.container;
        let reason = format!("{name} must stop when the other containers have exited");
        let (at, span) = (annotation_place(keys::JOB_SIDECARS), Some(item.span.clone()));
        let quit = spec.regular(name).and_then(known_quit_line).map(|line| format!(", or replace it by {line}"));
        gates.insert(name.clone(), GateReason { span, or: quit.unwrap_or_default(), ..of_command(reason, at) });
    }
    gates
}

/// Returns the check that replaces the probes of a container, if another container waits until this one is Ready.
pub(super) fn ready_check<'a>(declared: &'a Declaration, graph: &Graph, name: &str) -> Option<&'a ReadyCheck> {
    let mut waiters = graph.waiters_with_needs(name);
    declared.ready.get(name).filter(|_| waiters.any(|(_, need)| need.until.want == WantedState::Ready))
}
