//! `kubectl podgate suggest`: proposes an order for Pods that declare none.

use crate::check::text::render_finding;
use crate::error::{CommandError, CommandResult, ErrorKind};
use crate::inject::output::{FileChange, write_in_place};
use crate::output::{print, print_stderr};
use crate::yaml::files::{check_readable, ignored_message};
use crate::yaml::{DocumentEditor, ManifestArgs, locate};
use clap::Args;
use podgate::core::text::sanitize;
use podgate::order::edit::{Editor, Place};
use podgate::order::finding::Level;
use podgate::order::lint::{self, Target};
use podgate::order::plan::{KnownFacts, plan};
use podgate::order::suggest::{Rank, Suggestion, UNAWAITED_BY_KUBERNETES, config_maps, suggest};
use podgate::order::{declare, inject, pod_templates};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::ExitCode;

const HELP: &str = "\
A container needs another one if it names an address of that container: localhost:PORT,
127.0.0.1:PORT, [::1]:PORT, or a Unix socket on a shared volume. suggest reads the environment, the
arguments, and the ConfigMaps that are in the same input. If no container declares the port, suggest
guesses the owner from well-known images, and says so. It shows each address with its place and with
what happens without the order. It does not use doubtful ones, and leaves out clients that retry.
Check the result before you use it.

Examples:
  kubectl podgate suggest shop.yaml
  kubectl podgate suggest --write shop.yaml && kubectl podgate check shop.yaml

Exit codes:
  0    success, also if nothing needs an order
  1    a file cannot be read or written";

/// Propose an order for Pods that declare none, from addresses in their containers
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct SuggestArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    /// Write the proposed annotations into the files
    #[arg(short, long)]
    pub(crate) write: bool,
}

pub(crate) fn run(args: &SuggestArgs) -> CommandResult {
    if args.write && args.manifests.has_standard_input() {
        return Err(CommandError::new(ErrorKind::Usage, "--write cannot change standard input (-); pass files"));
    }
    let sources = args.manifests.read();
    check_readable(&sources, false).map_err(CommandError::of_lines)?;
    ignored_message(&sources).iter().for_each(|line| print_stderr(Level::Note, line));
    let configs = config_maps(sources.iter().flat_map(|source| &source.documents).map(|document| &document.value));
    let (mut out, mut changed) = (String::new(), Vec::new());
    for source in &sources {
        let mut replaced = BTreeMap::new();
        for (index, document) in source.documents.iter().enumerate() {
            let (mut document_editor, mut is_edited) = (DocumentEditor::new(document), false);
            for at in pod_templates::templates(&document.value) {
                let Some(template) = at.place.of(&document.value) else { continue };
                let is_closed = declare::is_declared(template)
                    || inject::is_injected(template)
                    || inject::inject_label(template) == Some("disabled");
                let found = if is_closed { Suggestion::default() } else { suggest(template, &configs) };
                let shown = found.edges.iter().filter(|one| one.rank != Rank::Retries).map(|one| &one.finding);
                for finding in shown.chain(&found.unowned) {
                    let located = locate(finding.clone(), &at.place, document, &source.name);
                    out += &format!("{}\n\n", render_finding(&located));
                }
                let start = document.position(document.highlight(&at.object.to("kind")).start);
                let mut editor = Editor::new(template.clone());
                let refused = |finding| locate(finding, &at.place, document, &source.name).report();
                let (mut annotations, retries) = (found.annotations(), found.already_retrying());
                annotations.retain(|key, _| template["metadata"]["annotations"][key].is_null());
                annotations.iter().try_for_each(|(key, value)| editor.annotate(key, value)).map_err(refused)?;
                let useless = found.order.as_ref().and_then(|_| useless_order(editor.value()));
                let verdict = match (&found.order, found.cycle) {
                    _ if is_closed => "declares an order already, or is excluded by its label".to_owned(),
                    (_, Some(cycle)) => format!("no order, because the containers need each other: {cycle}"),
                    (Some(order), _) if let Some(reason) = &useless => format!("no order, because {order} {reason}"),
                    (Some(_), _) => {
                        let lines = annotations.iter().map(|(key, value)| format!("{key}: \"{value}\""));
                        let note = (!retries.is_empty()).then(|| format!("these retry and need no order: {retries}"));
                        lines.chain(note).collect::<Vec<_>>().join("\n")
                    }
                    _ if found.edges.iter().any(|edge| edge.finding.message.ends_with(UNAWAITED_BY_KUBERNETES)) => {
                        format!("no order for a native sidecar: {UNAWAITED_BY_KUBERNETES}; run kubectl podgate check")
                    }
                    _ if !found.unowned.is_empty() => "no order, because an address has no known owner".to_owned(),
                    _ if !retries.is_empty() => format!("nothing needs an order, because these retry: {retries}"),
                    _ => "nothing needs an order: no container clearly needs another one".to_owned(),
                };
                let place = format!("{}: {}", start.in_file(&source.name), at.name(&document.value));
                let unread = format!("not read: {} (suggest reads only ConfigMaps in the input)", found.unread);
                let lines = verdict.lines().chain((!found.unread.is_empty()).then_some(&*unread));
                lines.for_each(|line| out += &(sanitize(&format!("{place}: {line}")) + "\n"));
                if args.write && found.order.is_some() && useless.is_none() {
                    let (value, edits) = editor.finish();
                    is_edited = true;
                    document_editor.add(&at.place, edits, &value);
                }
                out += "\n";
            }
            if is_edited {
                let refused = |finding| locate(finding, &Place::root(), document, &source.name).report();
                replaced.insert(index, document_editor.finish().map_err(refused)?);
            }
        }
        changed.push(FileChange { source, new_text: source.with_replaced(&replaced) });
    }
    if out.is_empty() {
        print_stderr(Level::Note, "no Pod or Pod template found");
        return Ok(ExitCode::SUCCESS);
    }
    write_in_place(&changed)?;
    print(&format!("{}\n", out.trim_end_matches('\n')))
}

/// Returns what `check` says about an order that has no effect or never ends.
fn useless_order(template: &Value) -> Option<String> {
    const RULES: [&str; 3] = ["no-readiness-probe", "nothing-to-do", "readiness-needs-later"];
    let plan = plan(template, &KnownFacts::default()).ok()?;
    let mut all = lint::check_planned(template, &plan, Target::default()).findings.into_iter().chain(plan.findings);
    all.find(|finding| RULES.contains(&finding.rule)).map(|finding| format!("does not help: {}", finding.message))
}
