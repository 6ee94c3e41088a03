//! Text output of `override`.

use super::OverrideOutcome;
use super::change::{AnnotationChange, GateEffect};
use podgate::core::container::Mode;
use podgate::core::state::Phase;
use podgate::core::text::sanitize;
use std::fmt::Write as _;

/// Renders the time, Pod, user and sandbox of the change, then each annotation with the hooks and gates that open.
pub(crate) fn render(done: &OverrideOutcome) -> String {
    let mut out = String::new();
    let verb = if done.dry_run { "would change" } else { "changed" };
    let by = done.by.as_ref().map(|by| format!(" as {by}")).unwrap_or_default();
    let _ = writeln!(out, "{} {verb} Pod {}/{} (uid {}){by}", done.at, done.namespace, done.pod, done.uid);
    if let Some(sandbox) = &done.plan.sandbox {
        let _ = writeln!(out, "sandbox {sandbox} at {}", done.server);
    }
    for change in &done.plan.changes {
        let was = change.was.as_ref().map(|was| format!(" (was {was})")).unwrap_or_default();
        let _ = match &change.value {
            Some(value) => writeln!(out, "\n{} = {value}{was}", change.annotation),
            None => writeln!(out, "\n{} removed{was}", change.annotation),
        };
        for line in effects(change, done.plan.phase) {
            let _ = writeln!(out, "  {line}");
        }
    }
    out.lines().map(|line| sanitize(line) + "\n").collect()
}

fn effects(change: &AnnotationChange, phase: Option<Phase>) -> Vec<String> {
    let (name, state) = (&change.container, change.state.unwrap_or("unknown"));
    if change.value.is_none() {
        let then = match phase {
            Some(Phase::Started) => " at its next probe. Started containers keep running.",
            _ => ". Started containers keep running.",
        };
        return vec![format!("{name} was {state}; the sidecar determines its state again{then}")];
    }
    let mut lines = vec![format!("{name} was {state} until now (published state)")];
    lines.extend(change.opens.iter().map(describe_effect));
    if change.opens.is_empty() {
        lines.push("opens nothing: no hook or gate waits for this state".to_owned());
        if phase == Some(Phase::Started) {
            lines.push("all containers have started: the idle sidecar reads this when a gate waits next".to_owned());
        }
    }
    lines
}

fn describe_effect(opens: &GateEffect) -> String {
    let what = if opens.mode == Mode::PostStart { "hook" } else { "gate" };
    let (of, conditions) = (&opens.gate_of, opens.conditions.join(", "));
    if !opens.still_waits_for.is_empty() {
        return format!(
            "the {what} of {of}: {conditions} holds; it still waits for {}",
            opens.still_waits_for.join(", ")
        );
    }
    let then = opens.then_starts.as_ref().map(|next| format!("; the kubelet starts {next} next")).unwrap_or_default();
    format!("opens the {what} of {of} ({conditions}){then}")
}
