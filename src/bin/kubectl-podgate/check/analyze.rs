//! Analysis of each template: plan, forecast and findings.

use crate::registry::images::ResolvedImages;
use crate::yaml::{Document, DocumentEditor, LocatedFinding, Position, Source, locate, locate_error};
use podgate::order::assigned::AssignedOrders;
use podgate::order::edit::{Edit, Place};
use podgate::order::finding::{Finding, Level, has_errors};
use podgate::order::inject::{self, Options};
use podgate::order::lint::forecast::Forecast;
use podgate::order::lint::{self, LintReport, Target, Version};
use podgate::order::plan::{KnownFacts, Plan, plan};
use podgate::order::{declare, pod_templates, release};
use serde_json::Value;
use std::collections::BTreeSet;

#[derive(Default)]
pub(crate) struct Analysis<'a> {
    pub(crate) templates_read: usize,
    /// Templates that declare an order, in input order.
    pub(crate) templates: Vec<CheckedTemplate<'a>>,
    /// Findings, sorted by file and position.
    pub(crate) findings: Vec<LocatedFinding<'a>>,
    /// True if a template declares an order, or contains podgate commands that a user wrote by hand.
    pub(crate) has_order: bool,
    /// Names of the orders of `--orders` that a template gets.
    pub(crate) assigned: BTreeSet<String>,
}

/// Data from the flags.
pub(crate) struct AnalysisInputs<'a> {
    pub(crate) images: &'a ResolvedImages,
    pub(crate) kubernetes: Option<Version>,
    /// Orders of the templates that declare none.
    pub(crate) orders: &'a AssignedOrders,
}

pub(crate) struct CheckedTemplate<'a> {
    pub(crate) file: &'a str,
    pub(crate) position: Position,
    /// Kind and name of the object, such as `Deployment/shop`.
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) is_injected: bool,
    pub(crate) costs: Vec<(&'static str, String)>,
    /// Plan and forecast. `None` if no plan can be made; the findings then contain an error.
    pub(crate) outlook: Option<(Plan, LintReport)>,
}

impl Analysis<'_> {
    pub(crate) fn count_findings(&self, is: impl Fn(Level) -> bool) -> usize {
        self.findings.iter().filter(|located| is(located.finding.level)).count()
    }
}

pub(crate) fn analyze<'a>(sources: &'a [Source], inputs: &AnalysisInputs<'_>) -> Analysis<'a> {
    let mut analysis = Analysis::default();
    for source in sources {
        let errors = source.errors().filter(|(document, _)| document.may_declare_order());
        analysis.findings.extend(errors.map(|(document, error)| locate_error(document, error, &source.name)));
        for document in &source.documents {
            let templates = pod_templates::templates(&document.value);
            let from_root = |finding| locate(finding, &Place::root(), document, &source.name);
            analysis.findings.extend(lint::check_document(&document.value, &templates).into_iter().map(from_root));
            let mut document_editor = DocumentEditor::new(document);
            for template in templates {
                analyze_template(source, document, template, inputs, &mut analysis, &mut document_editor);
            }
            analysis.findings.extend(document_editor.finish().err().map(from_root));
        }
    }
    analysis.findings.sort_by_key(|located| (located.file, located.start));
    analysis
}

fn analyze_template<'a>(
    source: &'a Source,
    document: &'a Document,
    at: pod_templates::Template,
    inputs: &AnalysisInputs<'_>,
    analysis: &mut Analysis<'a>,
    document_editor: &mut DocumentEditor<'_>,
) {
    let Some(template) = at.place.of(&document.value) else { return };
    // Without a namespace, kubectl creates objects in `default` unless the user selects another namespace.
    let namespace = at.object.to("metadata").to("namespace");
    let namespace = namespace.of(&document.value).and_then(Value::as_str).unwrap_or("default");
    let order = inputs.orders.order_to_assign(namespace, template);
    let assigned = order.and_then(|order| Some((order, order.assign(template).ok()?.value)));
    let template = assigned.as_ref().map_or(template, |(_, assigned)| assigned);
    analysis.assigned.extend(inputs.orders.find_assigned(namespace, template).map(|order| order.name.clone()));
    let label = inject::inject_label(template);
    let is_declared = declare::is_declared(template);
    analysis.has_order |= is_declared;
    if label == Some("disabled") {
        return;
    }
    analysis.templates_read += 1;
    let here = |finding| locate(finding, &at.place, document, &source.name);
    let is_injected = inject::is_injected(template);
    let is_requested = is_declared || is_injected || label == Some("enabled");
    let by_hand = if is_declared || is_injected { None } else { lint::check_handwritten(template) };
    analysis.has_order |= by_hand.is_some();
    let target = Target { kubernetes: inputs.kubernetes, workload: at.workload_spec(&document.value) };
    if !is_requested {
        analysis.findings.extend(declare::check_undeclared(template).into_iter().map(here));
        if by_hand.is_none() {
            analysis.findings.extend(lint::check_plain(template, None, target).into_iter().map(here));
            return;
        }
    }
    let mut findings = Vec::from_iter(lint::check_sidecar_position(template).filter(|_| is_injected));
    let mut edited = (Value::Null, Vec::new());
    // With the label `enabled`, check podgate's other annotations too, as `inject` does.
    let mut outlook =
        is_requested.then(|| plan_and_outlook(template, inputs.images, target, &mut findings, &mut edited)).flatten();
    if let Some((found, plan)) = by_hand {
        findings.extend(found);
        outlook = plan.map(|plan| {
            let forecast = Forecast::of(&plan);
            (plan, LintReport { findings: Vec::new(), forecast, native_advice: None })
        });
    }
    if let Some((order, _)) = &assigned {
        if has_errors(&findings) {
            return analysis.findings.push(here(order.misfit(&findings)));
        }
        let what = format!("in the namespace {namespace}, this Pod gets the order {}", order.name);
        findings.push(Finding::note("order-assigned", Place::metadata("annotations"), what));
    }
    if !document.is_json && assigned.is_none() && !edited.1.is_empty() {
        // Check that the manifest's text can be edited. For JSON, this is always possible.
        document_editor.add(&at.place, edited.1, &edited.0);
    }
    analysis.findings.extend(findings.into_iter().map(here));
    analysis.templates.push(CheckedTemplate {
        file: &source.name,
        position: document.position(document.highlight(&at.object.to("kind")).start),
        name: at.name(&document.value),
        place: at.place,
        is_injected,
        costs: outlook.as_ref().map_or(Vec::new(), |(plan, _)| plan.costs(template, inputs.kubernetes)),
        outlook,
    });
}

/// Returns the plan and the forecast of a template, and sets `edited` to the injected template and its edits. Returns
/// `None` and adds an error if no plan can be made.
fn plan_and_outlook(
    template: &Value,
    images: &ResolvedImages,
    target: Target<'_>,
    findings: &mut Vec<Finding>,
    edited: &mut (Value, Vec<Edit>),
) -> Option<(Plan, LintReport)> {
    let stripped = inject::strip(template).map_err(|found| findings.extend(found)).ok()?;
    let plain = stripped.plain();
    let resolved = images.for_template(template, plain);
    // Omit the notes, which are about pinned images: `check` pins no image.
    findings.extend(resolved.findings.into_iter().filter(|finding| finding.level > Level::Note));
    let known = KnownFacts { images: resolved.commands, kubernetes: target.kubernetes, ..KnownFacts::default() };
    let mut options = Options::new(release::sidecar_image());
    inject::keep_earlier_settings(template, &mut options, false);
    let injected = stripped.inject(&options, &known).map_err(|found| findings.extend(found)).ok()?;
    findings.extend(injected.findings);
    findings.extend(inject::outdated(template, &injected.value));
    *edited = (injected.value, injected.edits);
    let plan = match injected.plan {
        Some(plan) => plan,
        // `inject` makes no plan for an injected template that no longer declares an order.
        None => {
            let plan = plan(plain, &known).map_err(|found| findings.extend(stripped.relocate(found))).ok()?;
            findings.extend(stripped.relocate(plan.findings.clone()));
            plan
        }
    };
    let mut outlook = lint::check_planned(plain, &plan, target);
    findings.extend(stripped.relocate(std::mem::take(&mut outlook.findings)));
    findings.extend(stripped.relocate(lint::check_plain(plain, Some(&plan), target)));
    findings.extend(stripped.relocate(lint::check_reversed(plain, &plan)));
    Some((plan, outlook))
}
