//! Reads the Pod or Pod template, and plans it as `inject` does.

use super::example;
use crate::inject::finding_report;
use crate::try_run::args::{SIDECAR, Try};
use crate::yaml::files::read_sources;
use podgate::order::finding::{Finding, Level};
use podgate::order::inject::{self, Injected, Options};
use podgate::order::plan::{KnownFacts, Plan};
use podgate::order::{declare, pod_templates, release};
use serde_json::Value;

/// The chosen template and its plan for a cluster.
#[derive(Debug)]
pub(super) struct Planned {
    /// `Kind/name` of the object with the template.
    pub(super) title: String,
    /// The template without injected parts.
    pub(super) template: Value,
    pub(super) plan: Plan,
    /// Warnings of the plan, one line each.
    pub(super) warnings: Vec<String>,
}

impl Planned {
    /// Returns a message about a container that a flag names, but the Pod does not have.
    pub(super) fn unknown_name(&self, args: &Try) -> Option<String> {
        let ready = args.ready.iter().map(|(name, _)| ("--ready", name));
        let faults = args.faults.iter().map(|fault| ("--break", &fault.container));
        let mut named = ready.chain(faults.filter(|(_, name)| *name != SIDECAR));
        let (flag, name) = named.find(|(_, name)| self.plan.get(name).is_none())?;
        let all: Vec<&str> = self.plan.containers.iter().map(|planned| planned.name.as_str()).collect();
        Some(format!("{flag} {name}: the Pod has no such container; it has {}", all.join(", ")))
    }
}

pub(super) fn read(args: &Try) -> Result<Planned, String> {
    let Some(path) = &args.file else {
        let pod = example::pod().map_err(|error| format!("can't open a local port: {error}"))?;
        return plan("the built-in example", &pod, |finding| finding.message.clone());
    };
    let sources = read_sources(std::slice::from_ref(path), false);
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for (_, source) in &sources {
        unreadable.extend(source.errors().map(|(_, error)| error.located_message(&source.name)));
        for document in &source.documents {
            for at in pod_templates::templates(&document.value) {
                let Some(template) = at.place.of(&document.value) else { continue };
                let title = at.name(&document.value);
                let is_chosen = args.workload.as_ref().is_none_or(|chosen| *chosen == title);
                if is_chosen && (declare::is_declared(template) || inject::is_injected(template)) {
                    found.push((title, source, document, at.place, template));
                }
            }
        }
    }
    match found.as_slice() {
        [(title, source, document, place, template)] => {
            plan(title, template, |finding| finding_report(&source.name, document, place, finding).line)
        }
        [] if unreadable.is_empty() => {
            let wanted = args.workload.as_deref().unwrap_or("a Pod or Pod template");
            Err(format!("{}: no order for {wanted}; declare one with podgate.io/order", path.display()))
        }
        [] => Err(unreadable.join("\n")),
        several => {
            let titles = several.iter().map(|(title, ..)| title.as_str()).collect::<Vec<_>>().join(", ");
            Err(format!("{}: several orders ({titles}); choose one with --workload", path.display()))
        }
    }
}

fn plan(title: &str, template: &Value, line: impl Fn(&Finding) -> String) -> Result<Planned, String> {
    let options = Options::new(release::sidecar_image());
    let injected = inject::inject(template, &options, &KnownFacts::default());
    let Injected { plan, plain, findings, .. } =
        injected.map_err(|findings| findings.iter().map(&line).collect::<Vec<_>>().join("\n"))?;
    let Some(plan) = plan else {
        return Err(format!("{title}: podgate does not inject this Pod; see the label podgate.io/inject"));
    };
    let warnings = findings.iter().filter(|finding| finding.level == Level::Warning).map(line).collect();
    Ok(Planned { title: title.to_owned(), warnings, plan, template: plain.unwrap_or_else(|| template.clone()) })
}
