//! `kubectl podgate inject` and `uninject`: read, change and write manifests.

mod args;
mod output;
mod transform;

pub(crate) use args::{Inject, Uninject};
#[cfg(target_os = "linux")]
pub(crate) use transform::finding_report;

use crate::output::{fail, fail_all, print_stderr};
use crate::registry::images::look_up_images;
use crate::yaml::Source;
use crate::yaml::files::{check_readable, ignored_message, read_single_document};
use args::FileArgs;
use output::FileChange;
use podgate::core::exit::Exit;
use podgate::core::text::sanitize;
use podgate::order::finding::Level;
use podgate::order::inject::Options;
use podgate::order::migrate;
use std::io::Write;
use std::process::ExitCode;
use transform::{Action, Report};

/// Exit code of `--check` if a file would change.
const EXIT_WOULD_CHANGE: u8 = 3;

pub(crate) fn inject(args: &Inject) -> ExitCode {
    let from = match args.from.as_ref().map(load_migration).transpose() {
        Ok(from) => from,
        Err(line) => return fail(&line),
    };
    let options = Box::new(Options {
        image_pull_policy: args.image_pull_policy.clone(),
        has_fixed_user: !args.no_fixed_user,
        sidecar_resources: args.sidecar_resources.clone(),
        ..Options::new(&args.image)
    });
    let action = |sources: &[Source]| {
        let look_up = || look_up_images(sources, &args.images, args.annotate_only);
        let images = args.images.resolve_images.then(look_up).transpose()?;
        Ok(Action::Inject { options, from, images, annotate_only: args.annotate_only })
    };
    run(&args.files, args.from.is_some(), action).unwrap_or_else(|lines| fail_all(&lines))
}

pub(crate) fn uninject(args: &Uninject) -> ExitCode {
    run(&args.files, false, |_| Ok(Action::Uninject)).unwrap_or_else(|lines| fail_all(&lines))
}

/// Runs `inject` or `uninject`. If `reads_all` is true, a document without podgate's keys may also declare an order.
fn run(
    args: &FileArgs,
    reads_all: bool,
    action: impl FnOnce(&[Source]) -> Result<Action, Vec<String>>,
) -> Result<ExitCode, Vec<String>> {
    if args.in_place && args.manifests.has_standard_input() {
        fail("--in-place can't rewrite standard input (-); pass files or omit --in-place");
        return Ok(Exit::Usage.into());
    }
    let sources = args.manifests.read();
    check_readable(&sources, reads_all)?;
    if let Some(line) = ignored_message(&sources).filter(|_| !args.quiet) {
        print_stderr(&line);
    }
    let action = action(&sources)?;
    let (mut reports, mut changed, mut any) = (Vec::new(), Vec::new(), false);
    for source in sources {
        let mut replaced = Vec::new();
        for (index, document) in source.documents.iter().enumerate() {
            let done = transform::transform_document(&source.name, document, &action);
            reports.extend(done.reports);
            any |= done.is_concerned;
            replaced.extend(done.new_text.map(|text| (index, text)));
        }
        let text = source.with_replaced(&replaced);
        changed.push(FileChange { source, new_text: text });
    }
    let broken = reports.iter().any(|report| report.level == Some(Level::Error));
    print_reports(&reports, args.quiet, broken);
    if broken {
        return Ok(ExitCode::FAILURE);
    }
    if !any && !args.quiet {
        print_stderr(action.nothing_done_message());
    }
    if args.check {
        return list_changes(&changed, args.diff);
    }
    match (args.in_place, args.diff) {
        (true, _) => output::write_in_place(&changed),
        (false, true) => output::print(&changed.iter().map(|changed| changed.diff()).collect::<String>()),
        (false, false) => output::print(&output::joined_stream(&changed)),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `--check`: lists the files that would change. Also prints the patch if `diff` is true.
fn list_changes(changed: &[FileChange], diff: bool) -> Result<ExitCode, Vec<String>> {
    let would: Vec<&FileChange> = changed.iter().filter(|changed| changed.new_text != changed.source.text).collect();
    for changed in &would {
        print_line(&format!("{}: would change", changed.source.name));
    }
    let patch: String = if diff { would.iter().map(|changed| changed.diff()).collect() } else { String::new() };
    output::print(&patch)?;
    Ok(if would.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WOULD_CHANGE) })
}

/// Prints reports to standard error in file order. Omits lines about changes if `broken` is true, because podgate then
/// writes no manifest. `--quiet` omits these lines and notes.
fn print_reports(reports: &[Report], quiet: bool, broken: bool) {
    for report in reports {
        let is_minor = report.level.is_none_or(|level| level == Level::Note);
        if !(is_minor && quiet || report.level.is_none() && broken) {
            print_line(&report.line);
        }
    }
}

fn print_line(line: &str) {
    // A failed write to standard error can't be reported anywhere.
    let _ = writeln!(std::io::stderr(), "{}", sanitize(line));
}

fn load_migration(from: &args::OrderSource) -> Result<migrate::MigrationSource, String> {
    Ok(match from {
        args::OrderSource::Kruise => migrate::MigrationSource::Kruise,
        args::OrderSource::Compose(path) => migrate::MigrationSource::Compose(read_single_document(path)?),
        args::OrderSource::Tekton(None) => migrate::MigrationSource::Tekton(None),
        args::OrderSource::Tekton(Some(path)) => migrate::MigrationSource::Tekton(Some(read_single_document(path)?)),
    })
}
