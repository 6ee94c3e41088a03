//! `kubectl podgate inject` and `uninject`: manifests in, manifests out.

mod args;
mod diff;
mod output;
mod work;

pub(crate) use args::{Inject, Uninject};

use crate::output::{fail, fail_all, say};
use crate::registry::images::look_up;
use crate::yaml::Source;
use crate::yaml::files::{Input, one};
use args::Files;
use output::Changed;
use podgate::core::exit::Exit;
use podgate::core::text::harmless;
use podgate::order::finding::Level;
use podgate::order::inject::Options;
use podgate::order::migrate;
use std::io::Write;
use std::process::ExitCode;
use work::{Report, Way};

/// Something would change.
const WOULD_CHANGE: u8 = 3;

/// Runs `inject`.
pub(crate) fn inject(args: &Inject) -> ExitCode {
    let from = match args.from.as_ref().map(migration).transpose() {
        Ok(from) => from,
        Err(line) => return fail(&line),
    };
    let image_pull_policy = args.image_pull_policy.clone();
    let options = Options { image_pull_policy, fixed_user: !args.no_fixed_user, ..Options::new(&args.image) };
    let way = |sources: &[(Input, Source)]| {
        let images = args.images.resolve_images.then(|| look_up(sources, &args.images)).transpose()?;
        Ok(Way::Inject { options, from, images })
    };
    run(&args.files, way).unwrap_or_else(|lines| fail_all(&lines))
}

/// Runs `uninject`.
pub(crate) fn uninject(args: &Uninject) -> ExitCode {
    run(&args.files, |_| Ok(Way::Uninject)).unwrap_or_else(|lines| fail_all(&lines))
}

fn run(
    args: &Files,
    way: impl FnOnce(&[(Input, Source)]) -> Result<Way, Vec<String>>,
) -> Result<ExitCode, Vec<String>> {
    if args.in_place && args.manifests.has_standard_input() {
        fail("--in-place has no file to rewrite where - (standard input) is read; leave one of them away");
        return Ok(Exit::Usage.into());
    }
    let sources = args.manifests.read()?;
    let way = way(&sources)?;
    let (mut reports, mut changed, mut any) = (Vec::new(), Vec::new(), false);
    for (input, source) in sources {
        let mut replaced = Vec::new();
        for (index, document) in source.documents.iter().enumerate() {
            let done = work::document(&source.name, document, &way);
            reports.extend(done.reports);
            any |= done.concerned;
            replaced.extend(done.text.map(|text| (index, text)));
        }
        let text = source.with(&replaced);
        changed.push(Changed { input, source, text });
    }
    let broken = reports.iter().any(|report| report.level == Some(Level::Error));
    note_all(&reports, args.quiet, broken);
    if broken {
        return Ok(ExitCode::FAILURE);
    }
    if !any && !args.quiet {
        say(way.nothing());
    }
    if args.check {
        return check(&changed, args.diff);
    }
    match (args.in_place, args.diff) {
        (true, _) => output::in_place(&changed),
        (false, true) => output::print(&changed.iter().map(|changed| changed.diff()).collect::<String>()),
        (false, false) => output::print(&output::joined(&changed)),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// `--check`: the names of the files that would change.
fn check(changed: &[Changed], diff: bool) -> Result<ExitCode, Vec<String>> {
    let would: Vec<&Changed> = changed.iter().filter(|changed| changed.text != changed.source.text).collect();
    for changed in &would {
        note(&format!("{}: would change", changed.source.name));
    }
    let patch: String = if diff { would.iter().map(|changed| changed.diff()).collect() } else { String::new() };
    output::print(&patch)?;
    Ok(if would.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(WOULD_CHANGE) })
}

/// Reports go to standard error, in the order of the files. Where something is broken nothing has been injected: what would have
/// been is no news then.
fn note_all(reports: &[Report], quiet: bool, broken: bool) {
    for report in reports {
        let news = report.level.is_none_or(|level| level == Level::Note);
        if !(news && quiet || report.level.is_none() && broken) {
            note(&report.line);
        }
    }
}

fn note(line: &str) {
    // Nobody is left to tell when this fails.
    let _ = writeln!(std::io::stderr(), "{}", harmless(line));
}

fn migration(from: &args::From) -> Result<migrate::From, String> {
    Ok(match from {
        args::From::Kruise => migrate::From::Kruise,
        args::From::Compose(path) => migrate::From::Compose(one(path)?),
        args::From::Tekton(None) => migrate::From::Tekton(None),
        args::From::Tekton(Some(path)) => migrate::From::Tekton(Some(one(path)?)),
    })
}
