//! Arguments and help of `timeline`.

use crate::cluster::{ConnectionArgs, pod_name};
use clap::{Args, ValueEnum};

const HELP: &str = "\
For each container, the chart shows when its image was pulled, when it started, how long its gate
waited, and when it was Ready. The times come from three sources: the times that the sidecar has
recorded (in milliseconds), the kubelet's status, and the Pod's events. The latter two have whole
seconds. They are marked ~, because the real time is up to 1 s later. Times that no source has
recorded are left out; a note reports this. Most clusters keep events for one hour.

While the Pod is still starting, the chart ends at the current time. On a terminal the bars have
colors, unless NO_COLOR is set. Without colors, each kind of bar has its own shade.

Examples:
  kubectl podgate timeline ordered
  kubectl podgate timeline ordered -n shop --width 120
  kubectl podgate timeline ordered -o svg > ordered.svg
  kubectl podgate timeline ordered -o json | jq '.containers[] | {name, started, ready}'

Exit codes:
  0    success
  1    the Pod could not be read: not found, no connection, or access denied
  64   wrong flag or argument";

/// Draw the start of a Pod as a chart: when each container was pulled, started, gated and Ready
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Timeline {
    /// The Pod's name
    #[arg(value_name = "POD", value_parser = pod_name)]
    pub(crate) pod: String,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Print in this format: text chart, SVG image or JSON object
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    /// Draw the text chart with this width [default: the terminal's width, else 100]
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
