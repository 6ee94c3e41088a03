//! One template after the other, looked at.

use super::locate::{Located, locate};
use crate::registry::images::Found;
use crate::yaml::files::Input;
use crate::yaml::{Document, Position, Source};
use podgate::order::edit::{Place, Step};
use podgate::order::finding::{Finding, Level};
use podgate::order::inject::{self, Options};
use podgate::order::kinds;
use podgate::order::lint::forecast::Forecast;
use podgate::order::lint::{self, Context, Version, native};
use podgate::order::plan::{Known, Plan, plan};
use serde_json::Value;

/// All that has been seen.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// Templates that declare something, in their order.
    pub(crate) templates: Vec<Template>,
    /// All findings, in the order of their places.
    pub(crate) findings: Vec<Located>,
}

/// One template that declares something.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) file: String,
    pub(crate) at: Position,
    /// `Deployment/shop`.
    pub(crate) name: String,
    pub(crate) place: Place,
    /// Its namespace, if the manifest says one.
    pub(crate) namespace: Option<String>,
    pub(crate) service_account: String,
    pub(crate) is_injected: bool,
    /// It leaves it to the webhook to inject its Pods.
    pub(crate) needs_webhook: bool,
    /// `None` if it can't be worked out; then there is an error among the findings.
    pub(crate) outlook: Option<Outlook>,
}

/// What will come of a template.
#[derive(Debug)]
pub(crate) struct Outlook {
    pub(crate) plan: Plan,
    pub(crate) forecast: Forecast,
    pub(crate) native: Option<native::Advice>,
}

impl Looked {
    /// Puts the findings into the order of their places; several of one place stay in theirs.
    pub(crate) fn sort(&mut self) {
        self.findings.sort_by(|a, b| (&a.file, a.start).cmp(&(&b.file, b.start)));
        self.findings.dedup_by(|a, b| (&a.finding, a.start, &a.file) == (&b.finding, b.start, &b.file));
    }
}

/// Where the object at `object` in a document begins.
pub(crate) fn beginning(document: &Document, object: &Place) -> Position {
    document.position(document.mark(&object.to("kind")).start)
}

/// Looks at all templates.
pub(crate) fn all(sources: &[(Input, Source)], images: &Found, kubernetes: Option<Version>) -> Looked {
    let beside = Beside { images, kubernetes };
    let mut looked = Looked::default();
    for (_, source) in sources {
        for document in &source.documents {
            for place in kinds::templates(&document.value) {
                one(source, document, &place, &beside, &mut looked);
            }
        }
    }
    looked.sort();
    looked
}

/// What is known beside the manifests.
struct Beside<'a> {
    images: &'a Found,
    kubernetes: Option<Version>,
}

fn one(source: &Source, document: &Document, place: &Place, beside: &Beside<'_>, looked: &mut Looked) {
    let Some(template) = place.of(&document.value) else { return };
    let object = object(&document.value, place);
    let here = |finding: Finding| locate(finding, place, document, &source.name);
    let misplaced = lint::misplaced(&document.value, &object, place);
    looked
        .findings
        .extend(misplaced.into_iter().map(|finding| locate(finding, &Place::root(), document, &source.name)));
    let label = Place::root().to("metadata").to("labels").to("podgate.io/inject");
    let label = label.of(template).and_then(Value::as_str);
    if label == Some("disabled") {
        return;
    }
    if !inject::is_declared(template) && !inject::is_injected(template) {
        looked.findings.extend(lint::by_hand(template).into_iter().map(here));
        return;
    }
    let mut findings = Vec::new();
    let outlook = outlook(template, &document.value, &object, beside, &mut findings);
    let metadata = |field: &str| object.to("metadata").to(field).of(&document.value)?.as_str().map(str::to_owned);
    let account = Place::root().to("spec").to("serviceAccountName");
    looked.templates.push(Template {
        file: source.name.clone(),
        at: beginning(document, &object),
        name: kinds::name_at(&document.value, place),
        place: place.clone(),
        namespace: metadata("namespace"),
        service_account: account.of(template).and_then(Value::as_str).unwrap_or("default").to_owned(),
        is_injected: inject::is_injected(template),
        needs_webhook: label == Some("enabled") && !inject::is_injected(template),
        outlook,
    });
    let mut seen: Vec<Finding> = Vec::new();
    for finding in findings {
        // inject and plan say the same of the same.
        if !seen.contains(&finding) {
            seen.push(finding.clone());
            looked.findings.push(here(finding));
        }
    }
}

fn outlook(
    template: &Value,
    document: &Value,
    object: &Place,
    beside: &Beside<'_>,
    findings: &mut Vec<Finding>,
) -> Option<Outlook> {
    let resolved = beside.images.of(template);
    // Nothing is pinned here.
    findings.extend(resolved.findings.into_iter().filter(|finding| finding.level > Level::Note));
    let known = inject::kept(template, &Known { images: resolved.commands });
    // What was changed since can't be undone, and is then among what inject finds.
    let plain = inject::uninject(template).map(|injected| injected.value);
    let in_place = |finding: Finding| plain.as_ref().map_or(finding.clone(), |plain| moved(finding, plain, template));
    let plan = plain.as_ref().ok().map(|plain| plan(plain, &known));
    let planned = match &plan {
        Some(Ok(plan)) => plan.findings.clone(),
        Some(Err(found)) => found.clone(),
        None => Vec::new(),
    };
    findings.extend(planned.into_iter().map(in_place));
    // The image has no part in what is found.
    let injected = inject::inject(template, &Options::new("podgate"), &known);
    let works = injected.is_ok();
    let found = injected.map_or_else(|found| found, |injected| injected.findings);
    // Of what both stumble over, one is enough.
    let is_said = |found: &Finding, findings: &[Finding]| {
        findings.iter().any(|said| said.at == found.at && (said.level, found.level) == (Level::Error, Level::Error))
    };
    let new: Vec<Finding> = found.into_iter().filter(|found| !is_said(found, findings)).collect();
    findings.extend(new);
    let (Some(Ok(plan)), Ok(plain), true) = (plan, &plain, works) else { return None };
    let workload = if *object == Place::root() && kinds::kind_at(document, object) == "Pod" {
        Value::Null
    } else {
        object.to("spec").of(document).cloned().unwrap_or_default()
    };
    let context = Context { kubernetes: beside.kubernetes, workload };
    findings.extend(lint::template(plain, &plan, &context).into_iter().map(in_place));
    let native = native::of(plain, &plan);
    Some(Outlook { forecast: Forecast::of(&plan), plan, native })
}

/// A finding whose place counts the containers of `plain`, as they stand in `template`, whose list may be in another order.
fn moved(mut finding: Finding, plain: &Value, template: &Value) -> Finding {
    let list = |value: &Value| -> Vec<Option<String>> {
        let items = value["spec"]["containers"].as_array().into_iter().flatten();
        items.map(|item| item["name"].as_str().map(str::to_owned)).collect()
    };
    if let [Step::Key(spec), Step::Key(field), Step::Index(at), ..] = finding.at.0.as_mut_slice()
        && spec == "spec"
        && field == "containers"
        && let Some(name) = list(plain).get(*at).cloned().flatten()
        && let Some(found) = list(template).iter().position(|other| other.as_deref() == Some(name.as_str()))
    {
        *at = found;
    }
    finding
}

/// The place of the object that holds the template at `place`: outwards, the first with a kind.
pub(crate) fn object(document: &Value, place: &Place) -> Place {
    let outwards = (0..=place.0.len()).rev().map(|length| Place(place.0[..length].to_vec()));
    let has_kind =
        |place: &Place| place.of(document).is_some_and(|value| value.get("kind").is_some_and(Value::is_string));
    outwards.into_iter().find(has_kind).unwrap_or_default()
}
