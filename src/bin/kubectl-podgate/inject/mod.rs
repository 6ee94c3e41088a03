//! `kubectl podgate inject` and `uninject`: read, change and write manifests.

mod args;
pub(crate) mod output;
mod transform;

pub(crate) use args::{Inject, Uninject};

use crate::common_args::FindingArgs;
use crate::output::{fail, print_line, print_stderr};
use crate::registry::images::resolve_images;
use crate::yaml::Source;
use crate::yaml::files::{check_readable, ignored_message};
use args::FileArgs;
use output::FileChange;
use podgate::core::exit::Exit;
use podgate::order::finding::Level;
use podgate::order::inject::Options;
use podgate::order::release;
use std::process::ExitCode;
use transform::Action;

/// Exit code of `--check` if a file would change.
const EXIT_WOULD_CHANGE: u8 = 3;

pub(crate) fn inject(args: &Inject) -> Result<ExitCode, Vec<String>> {
    let options = Box::new(Options {
        image_pull_policy: args.image_pull_policy.clone(),
        has_fixed_user: !args.no_fixed_user,
        sidecar_resources: args.sidecar_resources.clone(),
        sidecar_settings: args.sidecar_settings.clone().unwrap_or_default(),
        ..Options::new(args.image.clone().unwrap_or_else(release::sidecar_image))
    });
    let action = |sources: &[Source]| {
        let images = resolve_images(sources, &args.images)?;
        let (sets_image, is_migrating) = (args.image.is_some(), args.from.is_some());
        Ok(Action::Inject { options, publish: args.publish, sidecar: args.sidecar, sets_image, is_migrating, images })
    };
    run(&args.files, &args.findings, args.from.is_some(), action)
}

pub(crate) fn uninject(args: &Uninject) -> Result<ExitCode, Vec<String>> {
    run(&args.files, &FindingArgs::default(), false, |_| Ok(Action::Uninject))
}

/// Runs `inject` or `uninject`. If `reads_all` is true (`--from`), every unreadable document is an error, because a
/// document can declare an order with the keys of another tool.
fn run(
    args: &FileArgs,
    findings: &FindingArgs,
    reads_all: bool,
    action: impl FnOnce(&[Source]) -> Result<Action, Vec<String>>,
) -> Result<ExitCode, Vec<String>> {
    if args.in_place && args.manifests.has_standard_input() {
        fail("--in-place cannot rewrite standard input (-); pass files or omit --in-place");
        return Ok(Exit::Usage.into());
    }
    let sources = args.manifests.read();
    check_readable(&sources, reads_all)?;
    if let Some(line) = ignored_message(&sources).filter(|_| !args.quiet) {
        print_stderr(Level::Note, &line);
    }
    let action = action(&sources)?;
    let (mut located, mut outdated, mut any) = (Vec::new(), Vec::new(), false);
    let (mut changes, mut changed) = (Vec::new(), Vec::new());
    for source in &sources {
        let mut replaced = Vec::new();
        for (index, document) in source.documents.iter().enumerate() {
            let mut done = transform::transform_document(source, document, &action);
            // Sort the findings as `check` does.
            done.findings.sort_by_key(|one| one.start);
            located.extend(done.findings);
            outdated.extend(done.outdated);
            changes.extend(done.changes);
            any |= done.is_concerned;
            replaced.extend(done.new_text.map(|text| (index, text)));
        }
        let text = source.with_replaced(&replaced);
        changed.push(FileChange { source, new_text: text });
    }
    // An injection fixes an outdated one. With --check, these findings are the reasons for the exit code 3.
    outdated.retain(|_| args.check);
    for list in [&mut located, &mut outdated] {
        list.retain(|one| findings.includes(one.finding.rule, one.finding.level));
    }
    let least = if args.quiet { Level::Warning } else { Level::Note };
    let shown = located.iter().chain(&outdated).filter(|one| one.finding.level >= least);
    shown.for_each(|one| print_line(&one.report()));
    let worst = if findings.strict { Level::Warning } else { Level::Error };
    if located.iter().any(|one| one.finding.level >= worst) {
        return Ok(ExitCode::FAILURE);
    }
    if !any && findings.strict {
        return Ok(fail(action.nothing_done_message()));
    }
    if !any && !args.quiet {
        print_stderr(Level::Note, action.nothing_done_message());
    }
    let mut code = ExitCode::SUCCESS;
    for changed in changed.iter().filter(|changed| args.check && changed.new_text != changed.source.text()) {
        print_line(&format!("{}: would change", changed.source.name));
        code = EXIT_WOULD_CHANGE.into();
    }
    match (args.in_place, args.diff, args.check) {
        (true, ..) => output::write_in_place(&changed),
        (_, true, _) => output::print(&changed.iter().map(FileChange::diff).collect::<String>()),
        (_, _, true) => Ok(()),
        _ => output::print(&output::joined_stream(&changed)),
    }?;
    if args.diff && any && !args.quiet {
        print_stderr(Level::Note, &format!("{} explains each line that inject adds", release::page("injected")));
    }
    if args.quiet || args.check || args.diff {
        return Ok(code);
    }
    if let Action::Inject { sets_image: false, options, .. } = &action {
        let has_default = |text: &String| text.contains(&options.image);
        if changed.iter().any(|file| has_default(&file.new_text) && !has_default(&file.source.text())) {
            let image = &options.image;
            let message = format!("the Pods use podgate's default image {image}; set another one with --image");
            print_stderr(Level::Note, &message);
        }
    }
    changes.iter().for_each(|line| print_line(line));
    Ok(code)
}
