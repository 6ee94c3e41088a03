//! The arguments of `timeline`, and what its help teaches.

use crate::cluster::{ConnectionArgs, pod_name};
use clap::{Args, ValueEnum};

const HELP: &str = "\
For each container: when its image was pulled, when it was started, how long its gate waited, when it was
Ready. It is put together from what the sidecar has written down (to the millisecond), the kubelet's status
and the events (both in whole seconds, marked ~: up to 1 s later than shown). Nothing is guessed: what
nobody has written down is left out, and that is said. Events are gone after an hour, on most clusters.

While the Pod still starts, the picture ends now. Colours are for a terminal, and NO_COLOR turns them off
there; without them the bars are told apart by their shade.

Examples:
  kubectl podgate timeline ordered
  kubectl podgate timeline ordered -n shop --width 120
  kubectl podgate timeline ordered -o svg > ordered.svg
  kubectl podgate timeline ordered -o json | jq '.containers[] | {name, started, ready}'

Exit codes:
  0    done
  1    the Pod could not be read: no such Pod, no connection, no right to
  64   wrong flag or argument";

/// Show the start of a Pod as a picture: each container pulled, started, held back, Ready
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Timeline {
    /// The Pod's name
    #[arg(value_name = "POD", value_parser = pod_name)]
    pub(crate) pod: String,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// What to print: a picture for the terminal, an SVG picture, or one JSON object
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    /// Columns of the picture in text; by default those of the terminal, else 100
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub(crate) width: Option<u16>,
}

/// Value of `--output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Svg,
    Json,
}
