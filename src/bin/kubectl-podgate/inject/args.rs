//! Arguments and help of `inject` and `uninject`.

use crate::common_args::FindingArgs;
use crate::registry::ImageArgs;
use crate::yaml::ManifestArgs;
use clap::Args;
use podgate::order::declare::{Publish, SidecarUse};
use podgate::order::sidecar_settings::{self, SidecarSettings};
use podgate::order::{release, resources};
use serde_json::Value;

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
pub(crate) struct Inject {
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
pub(crate) struct Uninject {
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
