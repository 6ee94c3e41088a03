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
use podgate::order::suggest::{Suggestion, config_maps, suggest};
use podgate::order::{declare, inject, pod_templates};
use std::process::ExitCode;

const HELP: &str = "\
A container needs another one if it names an address of that container: localhost:PORT,
127.0.0.1:PORT, [::1]:PORT, or a Unix socket on a shared volume. suggest reads the environment, the
arguments, and the ConfigMaps that are in the same input. It shows each address with its place, and
does not use doubtful ones. Check the result before you use it.

Examples:
  kubectl podgate suggest shop.yaml
  kubectl podgate suggest --write shop.yaml && kubectl podgate check shop.yaml

Exit codes:
  0    success, also without a proposal
  1    a file cannot be read or written";

/// Propose an order for Pods that declare none, from addresses in their containers
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct SuggestArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    /// Write the annotation podgate.io/order into the files
    #[arg(short, long)]
    pub(crate) write: bool,
}

pub(crate) fn run(args: &SuggestArgs) -> CommandResult {
    if args.write && args.manifests.has_standard_input() {
        return Err(CommandError::new(ErrorKind::Usage, "--write cannot change standard input (-); pass files"));
    }
    let sources = args.manifests.read();
    check_readable(&sources, false)?;
    ignored_message(&sources).iter().for_each(|line| print_stderr(Level::Note, line));
    let configs = config_maps(sources.iter().flat_map(|source| &source.documents).map(|document| &document.value));
    let (mut out, mut changed) = (String::new(), Vec::new());
    for source in &sources {
        let mut replaced = Vec::new();
        for (index, document) in source.documents.iter().enumerate() {
            let (mut document_editor, mut is_edited) = (DocumentEditor::new(document), false);
            for at in pod_templates::templates(&document.value) {
                let Some(template) = at.place.of(&document.value) else { continue };
                let is_closed = declare::is_declared(template)
                    || inject::is_injected(template)
                    || inject::inject_label(template) == Some("disabled");
                let found = if is_closed { Suggestion::default() } else { suggest(template, &configs) };
                for edge in &found.edges {
                    let located = locate(edge.finding.clone(), &at.place, document, &source.name);
                    out += &format!("{}\n\n", render_finding(&located));
                }
                let start = document.position(document.highlight(&at.object.to("kind")).start);
                let verdict = match (&found.order, &found.cycle) {
                    _ if is_closed => "declares an order already, or is excluded by its label".to_owned(),
                    (Some(order), _) => format!("{}: \"{order}\"", declare::keys::ORDER),
                    (_, Some(cycle)) => format!("no order, because the containers need each other: {cycle}"),
                    _ => "no order: no container clearly needs another one".to_owned(),
                };
                let verdict = format!("{}: {}: {verdict}", start.in_file(&source.name), at.name(&document.value));
                out += &(sanitize(&verdict) + "\n");
                if let Some(order) = found.order.filter(|_| args.write) {
                    let mut editor = Editor::new(template.clone());
                    let refused = |finding| locate(finding, &at.place, document, &source.name).report();
                    editor.annotate(declare::keys::ORDER, &order).map_err(refused)?;
                    let (value, edits) = editor.finish();
                    is_edited = true;
                    document_editor.add(&at.place, edits, &value);
                }
                out += "\n";
            }
            if is_edited {
                let refused = |finding| locate(finding, &Place::root(), document, &source.name).report();
                replaced.push((index, document_editor.finish().map_err(refused)?));
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
