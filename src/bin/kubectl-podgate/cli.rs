//! The top-level command line. Each command's arguments and help text are in its module.

use crate::{check, inject, install, overrides, resolve_images, status, suggest, timeline, try_run, verify};
use clap::{Parser, Subcommand};

const HELP: &str = "\
An order is declared on the Pod, or on a workload's Pod template:
  metadata:
    annotations:
      podgate.io/order: \"db, api, web\"

Examples:
  kubectl podgate check shop.yaml                              find errors, forecast the start
  kubectl podgate try shop.yaml                                preview the start on this machine
  kubectl podgate inject -f shop.yaml | kubectl apply -f -     add the order and apply
  kubectl podgate status -w shop-6bcbfd8758-sr5xs              watch what each container waits for
  kubectl podgate timeline shop-6bcbfd8758-sr5xs               show how the start went

See `kubectl podgate COMMAND --help` for details. A wrong flag or argument gives exit code 64.";

/// Start the containers of a Pod in a declared order: check, inject, watch.
#[derive(Debug, Parser)]
#[command(name = "kubectl-podgate", bin_name = "kubectl podgate", version, after_help = HELP)]
#[command(max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    // Before the start, in the order of use.
    Suggest(suggest::Suggest),
    Check(Box<check::Check>),
    Try(Box<try_run::Try>),
    Inject(Box<inject::Inject>),
    Uninject(inject::Uninject),
    // In the cluster.
    Install(install::Install),
    ResolveImages(Box<resolve_images::ResolveImages>),
    Verify(verify::Verify),
    // During and after the start.
    Status(status::Status),
    Timeline(timeline::Timeline),
    Override(overrides::Override),
    #[command(hide = true)]
    StandIn(Box<try_run::StandIn>),
    /// Print the version
    Version,
}
