//! Reads the Pod or Pod template, and plans it as `inject` does.

use super::args::Try;
use super::{Refusal, example};
use crate::inject::finding_report;
use crate::yaml::Document;
use crate::yaml::files::read_sources;
use podgate::order::finding::{Finding, Level};
use podgate::order::inject::{self, Injected, Options};
use podgate::order::plan::{KnownImages, Plan};
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

pub(super) fn read(args: &Try) -> Result<Planned, Refusal> {
    let Some(path) = &args.file else {
        let pod = example::pod().map_err(|error| Refusal::new(format!("can't open a local port: {error}")))?;
        return plan("the built-in example".to_owned(), &pod, |finding| (finding.level, finding.message.clone()));
    };
    let sources = read_sources(std::slice::from_ref(path), false);
    let mut found = Vec::new();
    for (_, source) in &sources {
        if let Some((_, error)) = source.errors().find(|(document, _)| document.may_declare_order()) {
            return Err(Refusal::new(error.located_message(&source.name)));
        }
        for document in &source.documents {
            for at in pod_templates::templates(&document.value) {
                let Some(template) = at.place.of(&document.value) else { continue };
                let title = at.name(&document.value);
                let is_chosen = args.workload.as_ref().is_none_or(|chosen| *chosen == title);
                if is_chosen && (declare::is_declared(template) || inject::is_injected(template)) {
                    found.push((title, source, document, at.place.clone(), template));
                }
            }
        }
    }
    let unreadable =
        sources.iter().flat_map(|(_, source)| source.errors().map(|(_, e)| e.located_message(&source.name)));
    let (path, wanted) = (path.display(), args.workload.as_deref().unwrap_or("a Pod or Pod template"));
    match found.as_slice() {
        [(title, source, document, place, template)] => {
            let document: &Document = document;
            plan(title.clone(), template, |finding| {
                let report = finding_report(&source.name, document, place, finding);
                (finding.level, report.line)
            })
        }
        [] => Err(Refusal::new(unreadable.take(1).next().unwrap_or_else(|| {
            format!("{path}: found no order for {wanted}; declare one with the annotation podgate.io/order")
        }))),
        several => {
            let titles: Vec<&str> = several.iter().map(|(title, ..)| title.as_str()).collect();
            Err(Refusal::new(format!("{path}: several orders ({}); choose one with --workload", titles.join(", "))))
        }
    }
}

fn plan(title: String, template: &Value, line: impl Fn(&Finding) -> (Level, String)) -> Result<Planned, Refusal> {
    let options = Options::new(release::sidecar_image());
    let Injected { plan, plain, findings, .. } =
        inject::inject(template, &options, &KnownImages::default()).map_err(|findings| Refusal {
            lines: findings.iter().map(|finding| line(finding).1).collect(),
            is_usage: false,
        })?;
    let Some(plan) = plan else {
        return Err(Refusal::new(format!(
            "{title}: podgate does not inject this Pod; see the label podgate.io/inject"
        )));
    };
    let warnings = findings.iter().map(line).filter(|(level, _)| *level == Level::Warning).map(|(_, line)| line);
    Ok(Planned { title, warnings: warnings.collect(), plan, template: plain.unwrap_or_else(|| template.clone()) })
}
