//! `kubectl podgate inject` and `uninject`: read, change and write manifests.

pub(crate) mod output;
mod transform;

use crate::common_args::FindingArgs;
use crate::error::{CommandError, CommandResult, ErrorKind};
use crate::output::{print_stderr, print_stderr_line, write_to};
use crate::registry::ImageArgs;
use crate::registry::images::resolve_images;
use crate::yaml::files::{check_readable, ignored_message};
use crate::yaml::{ManifestArgs, Source};
use clap::Args;
use output::FileChange;
use podgate::order::declare::{Publish, SidecarUse};
use podgate::order::finding::Level;
use podgate::order::inject::Options;
use podgate::order::sidecar_settings::{self, SidecarSettings};
use podgate::order::{release, resources};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::ExitCode;
use transform::Action;

const INJECT_HELP: &str = "\
Reads manifests and adds the parts that their orders need: the sidecar, its volumes, and gates for
the containers that wait. A gate is in front of the container's command. If the command is not
known, the kubelet holds the container instead (Kubernetes 1.35). Only Pods and pod templates that
declare an order change; all other lines, comments and documents stay byte for byte. A second run on
the output changes nothing. Findings and reports go to standard error.

Examples:
  kubectl podgate inject -f shop.yaml | kubectl apply -f -
  kubectl podgate inject -i -R deploy/            rewrite the files that declare an order
  kubectl podgate inject --check -R deploy/       for CI: fail if a file is not up to date
  kubectl podgate inject --diff -f shop.yaml      show what would change
  kubectl podgate inject --resolve-images -i -f shop.yaml

Exit codes:
  0    done, even if nothing declares an order
  1    a manifest cannot be read or edited, or its order cannot work: nothing is written; with
       --strict also on warnings, or if nothing declares an order
  3    with --check: a file would change";

const UNINJECT_HELP: &str = "\
Removes the parts that `inject` added to manifests, and restores the original values. The
annotations that declare the order remain. A hook or startupProbe that `inject` replaced comes back
without its comments.

Examples:
  kubectl podgate uninject -f shop.yaml
  kubectl podgate uninject -i -R deploy/

Exit codes:
  0    done, even if nothing was injected
  1    a manifest cannot be read, or an injected part was changed by hand: nothing is written
  3    with --check: a file would change";

/// Add sidecar, volumes, gates and hooks to manifests that declare an order
#[derive(Debug, Args)]
#[command(after_help = INJECT_HELP)]
pub(crate) struct InjectArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) findings: FindingArgs,
    #[arg(long, value_name = "IMAGE", value_parser = release::parse_image)]
    #[arg(help = format!("Use this image [default: that of the last injection, or\n{}]", release::sidecar_image()))]
    pub(crate) image: Option<String>,
    /// Set imagePullPolicy: Always, IfNotPresent or Never
    #[arg(long, value_name = "POLICY", value_parser = ["Always", "IfNotPresent", "Never"], hide_possible_values = true)]
    pub(crate) image_pull_policy: Option<String>,
    /// Omit the sidecar's user id, for OpenShift
    #[arg(long)]
    pub(crate) no_fixed_user: bool,
    #[arg(long, value_name = "SETTINGS", default_value = resources::DEFAULT, value_parser = resources::parse)]
    #[arg(help = resources::help(), hide_default_value = true)]
    pub(crate) sidecar_resources: Value,
    /// Set log, metrics and probes, such as log=debug,metrics=9090
    #[arg(long, value_name = "SETTINGS", value_parser = sidecar_settings::parse)]
    pub(crate) sidecar_settings: Option<SidecarSettings>,
    /// Add the sidecar always (default), auto (if needed) or none
    #[arg(long, value_name = "WHEN")]
    pub(crate) sidecar: Option<SidecarUse>,
    /// Publish states as annotations (api), or add no token (none)
    #[arg(long, value_name = "TARGET")]
    pub(crate) publish: Option<Publish>,
    /// Convert the order of this tool: kruise
    #[arg(long, value_name = "TOOL", value_parser = ["kruise"], hide_possible_values = true)]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
}

/// Remove from manifests what inject added
#[derive(Debug, Args)]
#[command(after_help = UNINJECT_HELP)]
pub(crate) struct UninjectArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
}

/// Input files, and destination of the result.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct FileArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    /// Rewrite changed files in place, each by an atomic rename
    #[arg(short, long, conflicts_with_all = ["check", "diff"])]
    pub(crate) in_place: bool,
    /// Only list the files that would change; exit with 3 if any
    #[arg(long)]
    pub(crate) check: bool,
    /// Print a patch instead of the manifests
    #[arg(long)]
    pub(crate) diff: bool,
    /// Report warnings and errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Exit code of `--check` if a file would change.
const EXIT_WOULD_CHANGE: u8 = 3;

pub(crate) fn inject(args: &InjectArgs) -> CommandResult {
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

pub(crate) fn uninject(args: &UninjectArgs) -> CommandResult {
    run(&args.files, &FindingArgs::default(), false, |_| Ok(Action::Uninject))
}

/// Runs `inject` or `uninject`. If `reads_all` is true (`--from`), every unreadable document is an error, because a
/// document can declare an order with the keys of another tool.
fn run(
    args: &FileArgs,
    findings: &FindingArgs,
    reads_all: bool,
    action: impl FnOnce(&[Source]) -> CommandResult<Action>,
) -> CommandResult {
    if args.in_place && args.manifests.has_standard_input() {
        let line = "--in-place cannot rewrite standard input (-); pass files or omit --in-place";
        return Err(CommandError::new(ErrorKind::Usage, line));
    }
    let sources = args.manifests.read();
    check_readable(&sources, reads_all).map_err(CommandError::of_lines)?;
    ignored_message(&sources).filter(|_| !args.quiet).iter().for_each(|line| print_stderr(Level::Note, line));
    let action = action(&sources)?;
    let (mut located, mut outdated, mut any) = (Vec::new(), Vec::new(), false);
    let (mut changes, mut changed) = (Vec::new(), Vec::new());
    for source in &sources {
        let mut replaced = BTreeMap::new();
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
        changed.push(FileChange { source, new_text: source.with_replaced(&replaced) });
    }
    // An injection fixes an outdated one. With --check, these findings are the reasons for the exit code 3.
    outdated.retain(|_| args.check);
    for list in [&mut located, &mut outdated] {
        list.retain(|one| findings.includes(one.finding.rule, one.finding.level));
    }
    let least = if args.quiet { Level::Warning } else { Level::Note };
    let shown = located.iter().chain(&outdated).filter(|one| one.finding.level >= least);
    shown.for_each(|one| print_stderr_line(&one.report()));
    let worst = if findings.strict { Level::Warning } else { Level::Error };
    if located.iter().any(|one| one.finding.level >= worst) {
        return Ok(ExitCode::FAILURE);
    }
    if !any && findings.strict {
        return Err(action.nothing_done_message().into());
    }
    if !any && !args.quiet {
        print_stderr(Level::Note, action.nothing_done_message());
    }
    let mut code = ExitCode::SUCCESS;
    for changed in changed.iter().filter(|changed| args.check && changed.new_text != changed.source.text()) {
        print_stderr_line(&format!("{}: would change", changed.source.name));
        code = EXIT_WOULD_CHANGE.into();
    }
    // Keep escape sequences, because the text is a manifest.
    let print = |text: String| write_to(std::io::stdout(), &text).map(drop);
    match (args.in_place, args.diff, args.check) {
        (true, ..) => output::write_in_place(&changed),
        (_, true, _) => print(changed.iter().map(FileChange::diff).collect()),
        (_, _, true) => Ok(()),
        _ => print(output::joined_stream(&changed)),
    }?;
    if args.diff && any && !args.quiet {
        print_stderr(Level::Note, &format!("{} explains each line that inject adds", release::page_url("in-the-pod")));
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
    changes.iter().for_each(|line| print_stderr_line(line));
    Ok(code)
}
