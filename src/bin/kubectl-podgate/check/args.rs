//! Arguments and help of `check`.

use crate::common_args::{FindingArgs, OutputFormat};
use crate::registry::ImageArgs;
use crate::yaml::ManifestArgs;
use clap::Args;
use podgate::order::lint::Version;

const HELP: &str = "\
Reports errors and pitfalls of declared orders, each with its place in the file and a fix. For each
template it forecasts the start and stop order, which containers start in parallel, and the longest wait.
The command changes nothing. It checks podgate's keys in all objects; templates that declare no order
have no forecast. It checks injected manifests as they were before injection. A file that cannot be
read is an error; the command still checks the other files.

Examples:
  kubectl podgate check deploy.yaml
  helm template shop ./chart | kubectl podgate check --strict -
  kubectl podgate check -R manifests/ --kubernetes 1.34 --ignore native-would-do,short-grace

Exit codes:
  0    no errors
  1    errors, or a file could not be read; with --strict also warnings, or no order is declared
  64   wrong flag or argument";

const RESOLVE: &str = "Read missing commands from the registry, as inject does";

/// Check declared orders in manifests and forecast the start
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[command(mut_arg("resolve_images", |arg| arg.help(RESOLVE)), mut_arg("no_pin", |arg| arg.hide(true)))]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: OutputFormat,
    #[command(flatten)]
    pub(crate) findings: FindingArgs,
    /// Print findings only, without forecasts
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Check for this Kubernetes version, such as 1.34
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes: Option<Version>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
}
