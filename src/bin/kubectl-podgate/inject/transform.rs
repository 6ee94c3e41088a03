//! Injection into one document, or removal of an injection from one document.

use crate::registry::images::{ResolvedImages, TemplateImages, images_to_resolve};
use crate::yaml::{Document, DocumentEditor, LocatedFinding, Source, locate};
use podgate::order::declare::{Publish, SidecarUse};
use podgate::order::edit::{Place, apply};
use podgate::order::finding::{Finding, Level};
use podgate::order::inject::{self, Injected, Options};
use podgate::order::lint::Target;
use podgate::order::plan::KnownFacts;
use podgate::order::{declare, lint, migrate, pod_templates};
use serde_json::Value;

pub(super) enum Action {
    Inject {
        options: Box<Options>,
        /// Target of Pods without `podgate.io/publish`; `None` for that of the last injection.
        publish: Option<Publish>,
        /// Use of the sidecar in Pods without `podgate.io/sidecar`; `None` for that of the last injection.
        sidecar: Option<SidecarUse>,
        /// True if `options` has an image that the user has passed.
        sets_image: bool,
        /// True if the user has passed `--from kruise`.
        is_migrating: bool,
        images: Option<ResolvedImages>,
    },
    Uninject,
}

impl Action {
    /// Returns the message for input without any Pod or template to change.
    pub(super) fn nothing_done_message(&self) -> &'static str {
        match self {
            Action::Inject { is_migrating: true, .. } => {
                "nothing to inject: no Pod or pod template has an order that --from can convert"
            }
            Action::Inject { .. } => {
                "nothing to inject: no Pod or pod template declares an order (annotation podgate.io/order)"
            }
            Action::Uninject => "nothing to remove: no Pod or pod template is injected",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct DocumentOutcome<'a> {
    pub(super) new_text: Option<String>,
    /// True if a template of the document declares an order or has been injected.
    pub(super) is_concerned: bool,
    pub(super) findings: Vec<LocatedFinding<'a>>,
    /// Lines about the changes, to print after the manifests are written.
    pub(super) changes: Vec<String>,
    /// Findings about injected parts that no longer match the manifest, for `--check`.
    pub(super) outdated: Vec<LocatedFinding<'a>>,
}

pub(super) fn transform_document<'a>(source: &'a Source, document: &Document, action: &Action) -> DocumentOutcome<'a> {
    let mut done = DocumentOutcome::default();
    let (mut document_editor, mut changed) = (DocumentEditor::new(document), Vec::new());
    let at_place = |place: &Place, findings: Vec<Finding>| {
        let locate = |finding| locate(finding, place, document, &source.name);
        findings.into_iter().map(locate).collect::<Vec<_>>()
    };
    let templates = pod_templates::templates(&document.value);
    if let Action::Inject { .. } = action {
        done.findings.extend(at_place(&Place::root(), lint::check_document(&document.value, &templates)));
    }
    for at in templates {
        let Some(template) = at.place.of(&document.value) else { continue };
        let mut image = None;
        let Some(result) = template_edits(template, at.workload_spec(&document.value), action, &mut image) else {
            if matches!(action, Action::Inject { .. }) && inject::inject_label(template) != Some("disabled") {
                done.findings.extend(at_place(&at.place, declare::check_undeclared(template)));
            }
            continue;
        };
        done.is_concerned = true;
        let injected = result.unwrap_or_else(|findings| Injected { findings, ..Injected::default() });
        done.findings.extend(at_place(&at.place, injected.findings));
        if !injected.edits.is_empty() {
            let outdated =
                inject::outdated(template, &injected.value).filter(|_| matches!(action, Action::Inject { .. }));
            done.outdated.extend(at_place(&at.place, Vec::from_iter(outdated)));
            document_editor.add(&at.place, injected.edits, &injected.value);
            let start = document.position(document.highlight(&at.place).start).in_file(&source.name);
            let sets_images = !matches!(action, Action::Inject { images: None, .. });
            let verb = if inject::is_injected(&injected.value) { "injected" } else { "uninjected" };
            let image = image.map(|image| format!(", {image}")).unwrap_or_default();
            changed.push(format!("{start}: {}: {verb}{image}", at.name(&document.value)));
            let Some(plan) = &injected.plan else { continue };
            let mut costs = plan.costs(template, None);
            let mut held = images_to_resolve(&injected.value);
            held.retain(|(name, _)| !sets_images && plan.is_held(name));
            let line = |(own, image)| format!("to read the command of {own} from {image}, pass --resolve-images");
            costs.extend(held.into_iter().map(|held| ("held", line(held))));
            changed.extend(costs.into_iter().map(|(word, cost)| format!("  {word:<8} {cost}")));
        }
    }
    if changed.is_empty() || done.findings.iter().any(|located| located.finding.level == Level::Error) {
        return done;
    }
    match document_editor.finish() {
        Ok(text) => {
            done.changes = changed;
            done.new_text = Some(text);
        }
        Err(refused) => done.findings.extend(at_place(&Place::root(), vec![refused])),
    }
    done
}

/// Returns the edits for a template, or `None` if the template neither declares an order nor is injected. Sets `image`
/// to a message about the image of the last injection.
fn template_edits(
    template: &Value,
    workload: Option<&Value>,
    action: &Action,
    image: &mut Option<String>,
) -> Option<Result<Injected, Vec<Finding>>> {
    let Action::Inject { options, publish, sidecar, sets_image, is_migrating, images } = action else {
        return inject::is_injected(template).then(|| inject::uninject(template));
    };
    let (is_declared, is_injected) = (declare::is_declared(template), inject::is_injected(template));
    let may_migrate = *is_migrating && (is_declared || !is_injected);
    let before = match may_migrate.then(|| migrate::migrate_kruise(template)) {
        Some(Err(findings)) => return Some(Err(findings)),
        Some(Ok(Some(migrated))) => migrated,
        _ if !inject::wants_injection(template) && !is_injected => return None,
        _ => Injected::unchanged(template),
    };
    let mut known = KnownFacts { publish: *publish, sidecar: *sidecar, ..KnownFacts::default() };
    let Injected { mut value, mut edits, mut findings, .. } = before;
    if let Some(images) = images {
        let resolved = match inject::strip(template) {
            Ok(stripped) => images.for_template(template, stripped.plain()),
            // `inject` below reports the errors.
            Err(_) => TemplateImages::default(),
        };
        for edit in resolved.edits {
            // `apply` does not fail, because the images exist.
            if apply(&mut value, &edit).is_ok() {
                edits.push(edit);
            }
        }
        findings.extend(resolved.findings);
        known.images = resolved.commands;
    }
    let mut options = options.clone();
    *image = inject::keep_earlier_settings(&value, &mut options, *sets_image);
    Some(match inject::inject(&value, &options, &known) {
        Ok(mut injected) => {
            edits.append(&mut injected.edits);
            findings.append(&mut injected.findings);
            let target = Target { workload, ..Target::default() };
            findings.extend(lint::strip_and_check(&value, &injected, target));
            Ok(Injected { edits, findings, ..injected })
        }
        Err(more) => Err([findings, more].concat()),
    })
}
