//! Text output: findings in the style of a compiler, then the forecast for each template.

use super::analyze::{Analysis, CheckedTemplate};
use crate::yaml::{LocatedFinding, Position};
use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level as SnippetLevel, Origin, Renderer, Snippet};
use humantime::format_duration;
use podgate::core::container::Mode;
use podgate::core::text::sanitize;
use podgate::core::until::WaitCondition;
use podgate::order::finding::Level;
use podgate::order::lint::LintReport;
use podgate::order::plan::{ContainerPlan, InitPlan, Plan};
use podgate::order::release::page_url;
use std::fmt::Write as _;
use std::time::Duration;

/// Renders findings and forecasts with colors. The writer removes the colors if they are not wanted.
pub(super) fn render(analysis: &Analysis<'_>, is_quiet: bool) -> String {
    let mut out = String::new();
    for located in &analysis.findings {
        out.push_str(&render_finding(located));
        out.push_str("\n\n");
    }
    if !is_quiet {
        for template in &analysis.templates {
            write_outlook(template, &mut out);
            out.push('\n');
        }
    }
    if !analysis.templates.is_empty() || !analysis.findings.is_empty() {
        let _ = writeln!(out, "{}", summary(analysis));
    }
    if !analysis.findings.is_empty() {
        let _ = writeln!(out, "Rules: {}", page_url("rules"));
    }
    out
}

fn summary(analysis: &Analysis<'_>) -> String {
    let some = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let [errors, warnings, notes] = [Level::Error, Level::Warning, Level::Note]
        .map(|level| some(analysis.count_findings(|other| other == level), level.as_str()));
    format!("{} checked: {errors}, {warnings}, {notes}", some(analysis.templates_read, "template"))
}

/// Returns true for a note without a fix. The output shows such a note without its line of the file.
fn is_plain(located: &LocatedFinding<'_>) -> bool {
    located.finding.level == Level::Note && located.finding.fix.is_empty()
}

pub(crate) fn render_finding(located: &LocatedFinding<'_>) -> String {
    let level = match located.finding.level {
        Level::Error => SnippetLevel::ERROR,
        Level::Warning => SnippetLevel::WARNING,
        Level::Note => SnippetLevel::NOTE,
    };
    let path = sanitize(located.file);
    let mark = located.line.highlight.clone();
    // An empty mark would be invisible. Widen the mark to one byte.
    let mark = mark.start..mark.end.max(mark.start + 1).min(located.line.text.len().max(mark.start));
    let snippet = Snippet::source(&located.line.text)
        .line_start(located.start.line)
        .path(&path)
        .annotation(AnnotationKind::Primary.span(mark));
    let (rule, message) = (located.finding.rule, sanitize(&located.finding.message));
    // On a terminal, the rule's name is a link.
    let title = level.primary_title(message).id(rule).id_url(format!("{}#{rule}", page_url("rules")));
    if is_plain(located) {
        let Position { line, column } = located.start;
        let origin = Origin::path(&path).line(line).char_column(column);
        return Renderer::styled().decor_style(DecorStyle::Ascii).render(&[title.element(origin)]);
    }
    // If a line is cut at its start, the renderer shows a wrong column. Replace the shown position with the real one.
    let column = located.line.text[..located.line.highlight.start].chars().count() + 1;
    let shown = Position { column, ..located.start }.in_file(&path);
    let mut group = title.element(snippet);
    if !located.finding.fix.is_empty() {
        group = group.element(SnippetLevel::HELP.message(sanitize(&located.finding.fix)));
    }
    let text = Renderer::styled().decor_style(DecorStyle::Ascii).term_width(120).render(&[group]);
    text.replacen(&shown, &located.start.in_file(&path), 1)
}

fn write_outlook(template: &CheckedTemplate<'_>, out: &mut String) {
    let injected = if template.is_injected { ", injected" } else { "" };
    let (name, file) = (sanitize(&template.name), sanitize(template.file));
    let _ = writeln!(out, "{name} ({file}:{}{injected})", template.position.line);
    let Some((plan, LintReport { forecast, .. })) = &template.outlook else {
        let _ = writeln!(out, "  no forecast: fix the errors first");
        return;
    };
    let names = plan.containers.iter().map(|planned| &planned.name).chain(plan.init.iter().map(|init| &init.name));
    let widest = names.map(String::len).max().unwrap_or(0);
    for InitPlan { name, is_native, is_probed, .. } in &plan.init {
        let kind = if *is_native { "native sidecar" } else { "init container" };
        let how = if *is_probed { "podgate watches it" } else { "Kubernetes keeps the order" };
        let _ = writeln!(out, "  before   {name:<widest$}  {kind}; {how}");
    }
    for (number, step) in forecast.start_steps.iter().enumerate() {
        for (index, name) in step.iter().enumerate() {
            let head = match (number, index) {
                (0, 0) => "starts".to_owned(),
                (_, 0) => "then".to_owned(),
                _ => "with it".to_owned(),
            };
            let how = plan.get(name).map(start_description).unwrap_or_default();
            let _ = writeln!(out, "  {head:<8} {name:<widest$}  {how}");
        }
    }
    if !forecast.longest_wait.is_zero() {
        let longest = limit(forecast.longest_wait);
        let _ = writeln!(out, "  waits    {longest} {}", timeout_lines(plan).join("\n  "));
    }
    if !forecast.stop_steps.is_empty() {
        let steps: Vec<String> = forecast.stop_steps.iter().map(|step| step.join(" and ")).collect();
        let grace = format_duration(plan.grace);
        let _ = writeln!(out, "  stops    {}; within {grace}", steps.join(", then "));
    }
    for (word, cost) in &template.costs {
        let _ = writeln!(out, "  {word:<8} {cost}");
    }
}

/// Describes the time limit of a wait. A held container of a handwritten manifest can wait without a limit.
fn limit(limit: Duration) -> String {
    if limit == Duration::MAX { "without a limit".to_owned() } else { format!("at most {}", format_duration(limit)) }
}

/// Returns the end of the forecast's line `waits`, then the lines that describe the effect of a timeout.
/// docs/guarantees.md explains these effects.
fn timeout_lines(plan: &Plan) -> Vec<String> {
    let names = |mode, continues| {
        let waiting = plan.containers.iter().filter(|planned| planned.has_closed_gate() || planned.has_blocking_hook());
        let found = waiting.filter(|planned| planned.mode() == mode && planned.continue_on_timeout == continues);
        found.map(|planned| planned.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let can_fail = [Mode::Entrypoint, Mode::Hold].into_iter().any(|mode| !names(mode, false).is_empty());
    let or = if can_fail { " or a gate times out" } else { "" };
    let mut lines = vec![format!("until the last container starts{or}")];
    for (mode, kind, failing, continuing) in [
        (
            Mode::Hold,
            "held",
            "the container stays held with the state TimedOut, and starts when its conditions are met",
            "the kubelet creates the container although its conditions are not met",
        ),
        (
            Mode::Entrypoint,
            "gate",
            "exits with 75; the kubelet restarts the container by its restartPolicy, and the gate waits again",
            "starts the container's command although its conditions are not met",
        ),
        (
            Mode::PostStart,
            "hook",
            "fails; the kubelet kills its container and starts the next one at once: the order is not kept",
            "returns, and the kubelet starts the next container: the order is not kept",
        ),
    ] {
        let both = [(names(mode, false), failing), (names(mode, true), continuing)];
        let is_mixed = both.iter().all(|(names, _)| !names.is_empty());
        for (names, effect) in both.into_iter().filter(|(names, _)| !names.is_empty()) {
            let of = if is_mixed { format!(" ({names})") } else { String::new() };
            lines.push(format!("timeout  {kind}{of}: {effect}"));
        }
    }
    if plan.containers.iter().any(ContainerPlan::has_blocking_hook) {
        let events = "if a container crashes, or if the kubelet or the container runtime restarts";
        lines.push(format!("caution  hook: the order is also not kept {events}"));
    }
    lines
}

fn start_description(planned: &ContainerPlan) -> String {
    let list = |conditions: &[WaitCondition]| conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (limit, because) = (limit(planned.timeout), &planned.mode_reason);
    let until = list(&planned.gate_or_hook_conditions());
    let mut how = match planned.mode() {
        Mode::None if planned.after.is_empty() => format!("at once (no gate; {because})"),
        Mode::None => format!("when {} (no gate; {because})", list(&planned.after)),
        Mode::Entrypoint if !planned.has_closed_gate() => format!("at once (gate; {because})"),
        Mode::Entrypoint if until.is_empty() => format!("when its checks pass, waits {limit} (gate; {because})"),
        Mode::Entrypoint => format!("when {until}, waits {limit} (gate; {because})"),
        Mode::Hold => format!("when {until}, waits {limit} (held; {because})"),
        Mode::PostStart => {
            let first =
                if planned.after.is_empty() { "at once".to_owned() } else { format!("when {}", list(&planned.after)) };
            format!("{first}; holds the next container back until {until}, {limit} (hook; {because})")
        }
    };
    if !planned.checks().is_empty() {
        let checks: Vec<String> = planned.checks().iter().map(ToString::to_string).collect();
        let _ = write!(how, "; checks in the container before its command: {}", checks.join(", "));
    }
    if let Some(check) = &planned.ready {
        let place = if check.is_network() { "over the network" } else { "in the container" };
        let _ = write!(how, "; Ready by {}, checked {place}", check.text);
    }
    if !planned.restarts_with().is_empty() {
        let _ = write!(how, "; restarts with {}", planned.restarts_with().join(", "));
    }
    if !planned.stop_after.is_empty() {
        let _ = write!(how, "; stops after the exit of {}", planned.stop_after.join(", "));
    }
    if let Some(quit) = &planned.quit {
        let _ = write!(how, "; is asked to exit by {quit} when all other containers have ended");
    }
    how
}
