//! `kubectl podgate suggest`: proposes an order for Pods that declare none.

mod args;

pub(crate) use args::Suggest;

use crate::check::text::render_finding;
use crate::inject::output::{FileChange, write_in_place};
use crate::output::{fail, print_stderr, write_stdout};
use crate::yaml::files::{check_readable, ignored_message};
use crate::yaml::{Pieces, locate};
use podgate::core::exit::Exit;
use podgate::core::text::sanitize;
use podgate::order::edit::{Editor, Place};
use podgate::order::finding::Level;
use podgate::order::lint::{self, Context};
use podgate::order::plan::{KnownFacts, plan};
use podgate::order::suggest::{Suggestion, config_maps, suggest};
use podgate::order::{declare, inject, pod_templates};
use serde_json::Value;
use std::process::ExitCode;

pub(crate) fn run(args: &Suggest) -> Result<ExitCode, Vec<String>> {
    if args.write && args.manifests.has_standard_input() {
        fail("--write cannot change standard input (-); pass files");
        return Ok(Exit::Usage.into());
    }
    let sources = args.manifests.read();
    check_readable(&sources, false)?;
    ignored_message(&sources).iter().for_each(|line| print_stderr(Level::Note, line));
    let configs = config_maps(sources.iter().flat_map(|source| &source.documents).map(|document| &document.value));
    let (mut out, mut changed) = (String::new(), Vec::new());
    for source in &sources {
        let mut replaced = Vec::new();
        for (index, document) in source.documents.iter().enumerate() {
            let (mut pieces, mut is_edited) = (Pieces::new(document), false);
            for at in pod_templates::templates(&document.value) {
                let Some(template) = at.place.of(&document.value) else { continue };
                let found = suggest(template, &configs);
                let is_declared = declare::is_declared(template) || inject::is_injected(template);
                for edge in found.edges.iter().filter(|_| !is_declared) {
                    let located = locate(edge.finding.clone(), &at.place, document, &source.name);
                    out += &format!("{}\n\n", render_finding(&located, 1));
                }
                let start = document.position(document.highlight(&at.object.to("kind")).start);
                let mut editor = Editor::new(template.clone());
                let verdict = if is_declared {
                    "declares an order already".to_owned()
                } else {
                    verdict(&found, template, at.workload(&document.value), &mut editor)?
                };
                let verdict = format!("{}: {}: {verdict}", start.in_file(&source.name), at.name(&document.value));
                out.extend(verdict.lines().map(|line| sanitize(line) + "\n").chain(["\n".to_owned()]));
                let (value, edits) = editor.finish();
                if args.write && !edits.is_empty() {
                    is_edited = true;
                    pieces.add(&at.place, edits, &value);
                }
            }
            if is_edited {
                let refused = |finding| vec![locate(finding, &Place::root(), document, &source.name).report()];
                replaced.push((index, pieces.finish().map_err(refused)?));
            }
        }
        changed.push(FileChange { source, new_text: source.with_replaced(&replaced) });
    }
    write_in_place(&changed)?;
    write_stdout(out.trim_end_matches('\n')).and_then(|_| write_stdout("\n")).map_err(|line| vec![line])?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the proposal for a template in words, and writes the order with `editor`.
fn verdict(
    found: &Suggestion,
    template: &Value,
    workload: Option<&Value>,
    editor: &mut Editor,
) -> Result<String, Vec<String>> {
    if template["spec"]["containers"].as_array().map_or(0, Vec::len) < 2 {
        return Ok("needs no order: it has a single container".to_owned());
    }
    if let Some(cycle) = &found.cycle {
        return Ok(format!("no order, because the addresses have a cycle: {cycle}"));
    }
    let Some(order) = &found.order else {
        return Ok("no order: no container clearly needs another one".to_owned());
    };
    editor.annotate(declare::keys::ORDER, order).map_err(|error| vec![error.to_string()])?;
    let value = editor.value();
    let context = Context { workload, ..Context::default() };
    let planned = plan(value, &KnownFacts::default()).ok();
    let findings = planned.map(|plan| lint::check_template(value, &plan, context).findings).unwrap_or_default();
    let native = findings.iter().find(|finding| finding.rule == "native-would-do");
    let native = native.map(|finding| format!("\n{}", finding.message)).unwrap_or_default();
    Ok(format!("{}: \"{order}\"{native}", declare::keys::ORDER))
}
