//! The arguments of `check`, and what its help teaches.

use crate::cluster::ConnectionArgs;
use crate::registry::ImageArgs;
use crate::yaml::ManifestArgs;
use clap::{Args, ValueEnum};
use podgate::order::lint::Version;

const HELP: &str = "\
Says before anything is applied in which order the containers will start and stop, what goes side by side,
how long the start may wait, and what is wrong or will surprise: each with its place in the file and how
to fix it. Nothing is changed. What declares no order is passed over. Manifests with podgate's parts in
them are looked at as they were before.

Examples:
  kubectl podgate check deploy.yaml
  helm template shop ./chart | kubectl podgate check --strict -
  kubectl podgate check -R manifests/ --kubernetes 1.34
  kubectl podgate check deploy.yaml --server -n shop
  kubectl podgate check -o sarif manifests/ >podgate.sarif

Exit codes:
  0    no errors
  1    errors (with --strict: or warnings), or something could not be read
  64   wrong flag or argument";

const RESOLVE: &str = "\
Where a container has no command, take Entrypoint and Cmd of its image from the registry, as inject does";

/// Say what is wrong with an order, and what will come of it, before it is applied
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[command(mut_arg("resolve_images", |arg| arg.help(RESOLVE)), mut_arg("no_pin", |arg| arg.hide(true)))]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    /// What to print: findings and forecasts as text, all of it as one JSON object, or the findings as SARIF 2.1.0
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: ReportFormat,
    /// Fail for warnings too
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print findings alone, and no forecasts
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The Kubernetes that the manifests are for, such as 1.34
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes: Option<Version>,
    /// Ask the cluster for its version, whether labelled Pods find podgate's webhook, and whether their service accounts may do what its sidecar needs
    #[arg(long)]
    pub(crate) server: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
}

/// Value of `--output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    // Findings as a compiler shows them, and forecasts.
    Text,
    // One object, as docs/check.md promises it.
    Json,
    // For code scanning.
    Sarif,
}
