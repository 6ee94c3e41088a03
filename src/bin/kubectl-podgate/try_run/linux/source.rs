//! Reads the Pod or Pod template, and plans it as `inject` does.

use crate::common_args::stdin_name_if_piped;
use crate::error::{CommandError, CommandResult, ErrorKind};
use crate::output::print_stderr;
use crate::try_run::{Fault, FaultKind, SIDECAR_FAULT_NAMES, TryArgs};
use crate::yaml::files::{check_readable, display_name, ignored_message, read_sources};
use crate::yaml::locate;
use podgate::core::until::WantedState;
use podgate::order::edit::Place;
use podgate::order::finding::{Finding, Level};
use podgate::order::inject::{self, Injected, Options};
use podgate::order::plan::{ContainerPlan, KnownFacts, Plan};
use podgate::order::{declare, lint, pod_templates, release};
use serde_json::{Value, json};
use std::time::Duration;

/// Title of the built-in example.
pub(super) const EXAMPLE_TITLE: &str = "the built-in example";
/// Delays until Ready in the example, unless `--ready` sets others. Without a delay here, it is half a second.
pub(super) const EXAMPLE_READY_DELAYS: [(&str, Duration); 2] =
    [("db", Duration::from_secs(4)), ("api", Duration::from_secs(2))];
const NO_ORDER: &str = "no Pod or Pod template declares an order; add the annotation podgate.io/order";

/// The chosen template and its plan for a cluster.
pub(super) struct PlannedPod {
    /// `Kind/name` of the object with the template.
    pub(super) title: String,
    /// The template without injected parts.
    pub(super) template: Value,
    pub(super) plan: Plan,
    /// Native sidecars that podgate probes and that no init container follows. They run as stand-ins.
    pub(super) natives: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl PlannedPod {
    /// Fails if a flag names an unknown container, or a fault of the sidecar other than a kill.
    pub(super) fn check_flags(&self, args: &TryArgs) -> CommandResult<()> {
        let planned = self.plan.containers.iter().map(|planned| &planned.name);
        let all: Vec<&str> = self.natives.iter().chain(planned).map(String::as_str).collect();
        let ready = args.ready.iter().map(|(name, _)| ("--ready", name));
        let is_sidecar = |name: &String| SIDECAR_FAULT_NAMES.contains(&name.as_str());
        let is_sidecar_kill = |fault: &Fault| is_sidecar(&fault.container) && matches!(fault.kind, FaultKind::Kill(_));
        let faults =
            args.faults.iter().filter(|fault| !is_sidecar_kill(fault)).map(|fault| ("--break", &fault.container));
        let unknown = ready.chain(faults).find(|(_, name)| !all.contains(&name.as_str()));
        let Some((flag, name)) = unknown else { return Ok(()) };
        let hint = if is_sidecar(name) { "; podgate's sidecar can only be killed" } else { "" };
        let line = format!("{flag} {name}: the Pod has no such container; choose one of {}{hint}", all.join(", "));
        Err(CommandError::new(ErrorKind::Usage, line))
    }
}

pub(super) fn read(args: &TryArgs) -> CommandResult<PlannedPod> {
    let given = args.file.as_ref().or(args.named.as_ref());
    let Some(path) = given.cloned().or_else(|| stdin_name_if_piped().map(Into::into)) else {
        if args.workload.is_some() {
            return Err("--workload needs a manifest; pass FILE, or - for standard input".into());
        }
        return plan(EXAMPLE_TITLE, &example(), |finding| finding.message.clone());
    };
    let sources = read_sources(std::slice::from_ref(&path), false);
    check_readable(&sources, false).map_err(CommandError::of_lines)?;
    ignored_message(&sources).iter().for_each(|line| print_stderr(Level::Note, line));
    let (mut found, mut misspelled) = (Vec::new(), Vec::new());
    for source in &sources {
        for document in &source.documents {
            let mut report = |findings: Vec<Finding>, place: &Place| {
                let located = findings.into_iter().map(|one| locate(one, place, document, &source.name));
                misspelled.extend(located.map(|one| one.report()));
            };
            let templates = pod_templates::templates(&document.value);
            report(lint::check_document(&document.value, &templates), &Place::root());
            for at in templates {
                let Some(template) = at.place.of(&document.value) else { continue };
                if declare::is_declared(template) || inject::is_injected(template) {
                    found.push((at.name(&document.value), source, document, at.place, template));
                } else {
                    report(declare::check_undeclared(template), &at.place);
                }
            }
        }
    }
    let all = found.iter().map(|(title, ..)| title.as_str()).collect::<Vec<_>>().join(", ");
    // The flag has the object's title, such as `Deployment/shop`, or only its name.
    let is_name = |title: &str, chosen: &str| title.split_once('/').is_some_and(|(_, name)| name == chosen);
    let is_chosen = |title: &str, chosen: &str| title.eq_ignore_ascii_case(chosen) || is_name(title, chosen);
    found.retain(|(title, ..)| args.workload.as_ref().is_none_or(|chosen| is_chosen(title, chosen)));
    let file = display_name(&path);
    match (found.as_slice(), &args.workload) {
        ([(title, source, document, place, template)], _) => {
            plan(title, template, |finding| locate(finding.clone(), place, document, &source.name).report())
        }
        ([], Some(chosen)) if !all.is_empty() => {
            Err(format!("{file}: no {chosen} with an order; the file has {all}").into())
        }
        ([], _) if !misspelled.is_empty() => Err(CommandError::of_lines(misspelled)),
        ([], _) => Err(format!("{file}: {NO_ORDER}").into()),
        _ => Err(format!("{file}: several orders ({all}); choose one with --workload").into()),
    }
}

/// Returns the built-in example.
fn example() -> Value {
    let probe = json!({"httpGet": {"path": "/ready", "port": 8080}});
    let containers = ["db", "api", "web"].map(|name| {
        json!({"name": name, "image": format!("example.com/{name}"), "command": [name], "readinessProbe": probe})
    });
    let metadata = json!({"name": "example", "annotations": {"podgate.io/order": "db, api, web", "podgate.io/stop-order": "reverse"}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}})
}

fn plan(title: &str, template: &Value, line: impl Fn(&Finding) -> String) -> CommandResult<PlannedPod> {
    let fail = |findings: Vec<Finding>| findings_error(&findings, &line);
    let stripped = inject::strip(template).map_err(fail)?;
    let options = Options::new(release::sidecar_image());
    let Injected { plan, findings, value, .. } = stripped.inject(&options, &KnownFacts::default()).map_err(fail)?;
    if let Some(outdated) = inject::outdated(template, &value).filter(|finding| finding.level == Level::Error) {
        return Err(line(&outdated).into());
    }
    let Some(plan) = plan else {
        return Err(format!("{title}: podgate does not inject this Pod; see the label podgate.io/inject").into());
    };
    let warnings = findings.iter().filter(|finding| finding.level == Level::Warning).map(line).collect();
    let template = stripped.plain().clone();
    let init = template.pointer("/spec/initContainers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let first = init.iter().rposition(|one| one["restartPolicy"] != "Always").map_or(0, |last| last + 1);
    let is_probed = |name: &&str| plan.init.iter().any(|init| init.is_probed && init.name == *name);
    let natives = init[first..].iter().filter_map(|one| one["name"].as_str()).filter(is_probed);
    Ok(PlannedPod { title: title.to_owned(), natives: natives.map(str::to_owned).collect(), warnings, plan, template })
}

pub(super) fn findings_error(findings: &[Finding], line: impl Fn(&Finding) -> String) -> CommandError {
    let errors = findings.iter().filter(|finding| finding.level == Level::Error);
    CommandError::of_lines(errors.map(line).collect())
}

/// Returns the exit that the order requires of the container: `Completed` (exit code 0), `Exited` (any code) or none.
pub(super) fn required_exit(plan: &Plan, name: &str) -> Option<WantedState> {
    let conditions = plan.containers.iter().flat_map(|planned| &planned.after);
    let mut wanted: Vec<WantedState> = conditions.filter(|one| one.container == name).map(|one| one.want).collect();
    let is_job = plan.containers.iter().any(ContainerPlan::is_ended_with_job);
    let ends_first = is_job && plan.get(name).is_some_and(|planned| !planned.is_ended_with_job());
    wanted.extend(ends_first.then_some(WantedState::Completed));
    [WantedState::Completed, WantedState::Exited].into_iter().find(|exit| wanted.contains(exit))
}
