//! Types of the timeline. These types also define the JSON format. Times are in milliseconds since 1970.

use crate::pod::shape::Role;
use anstyle::AnsiColor;
use podgate::core::container::Mode;
use serde::{Serialize, Serializer};

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Timeline {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) summary: String,
    pub(crate) started: bool,
    /// Beginning of the chart: the creation time of the Pod.
    #[serde(serialize_with = "time")]
    pub(crate) from: i64,
    /// End of the chart: now for a starting Pod, shortly after the last known time for a started Pod.
    #[serde(serialize_with = "time")]
    pub(crate) to: i64,
    /// Events of the Pod as a whole, such as its scheduling.
    pub(crate) marks: Vec<Mark>,
    /// The containers in the kubelet's start order.
    pub(crate) containers: Vec<Row>,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Mark {
    pub(crate) what: &'static str,
    #[serde(flatten)]
    pub(crate) moment: Moment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Moment {
    #[serde(serialize_with = "time")]
    pub(crate) at: i64,
    /// False if the time has whole seconds. Then the real time is up to 1 s later.
    pub(crate) exact: bool,
    pub(crate) by: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// The sidecar's published times.
    Podgate,
    /// The kubelet's status of the Pod.
    Kubelet,
    Event,
    Api,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) mode: Mode,
    /// Time at which the image was available.
    pub(crate) pulled: Option<Moment>,
    /// Duration of the image pull in milliseconds; `None` if the image was already present.
    pub(crate) pull_ms: Option<i64>,
    /// Time at which the kubelet started the container. In entrypoint mode, the gate starts first.
    pub(crate) created: Option<Moment>,
    /// Time at which the gate reported that it waits.
    pub(crate) gate: Option<Moment>,
    pub(crate) opened: Option<Moment>,
    /// Time at which the container's own program started.
    pub(crate) started: Option<Moment>,
    pub(crate) ready: Option<Moment>,
    pub(crate) ended: Option<Moment>,
    pub(crate) restarts: u32,
    pub(crate) bars: Vec<Bar>,
}

/// One activity of a container. A row has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Bar {
    pub(crate) kind: BarKind,
    #[serde(serialize_with = "time")]
    pub(crate) from: i64,
    #[serde(serialize_with = "time")]
    pub(crate) to: i64,
    /// False if the real beginning is up to 1 s later.
    pub(crate) exact: bool,
}

/// Activity of a container during a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BarKind {
    /// The kubelet has not started the container yet.
    Wait,
    Pull,
    /// The gate waits before it starts the command.
    Gate,
    /// The program runs, but the container has not been Ready yet.
    Start,
    /// The container has been Ready at least once.
    Ready,
    /// The program runs, but the container's readiness is not recorded.
    Run,
}

impl Row {
    /// Returns all known moments.
    pub(crate) fn unsorted_moments(&self) -> impl Iterator<Item = Moment> + use<> {
        let Row { pulled, created, gate, opened, started, ready, ended, .. } = self;
        [*pulled, *created, *gate, *opened, *started, *ready, *ended].into_iter().flatten()
    }
}

impl BarKind {
    /// Returns the label, the character that fills the bar in text without colors, and the color.
    pub(crate) fn style(self) -> (&'static str, char, AnsiColor) {
        match self {
            BarKind::Wait => ("not started yet", '·', AnsiColor::BrightBlack),
            BarKind::Pull => ("pulling image", '+', AnsiColor::Blue),
            BarKind::Gate => ("gate waiting", '░', AnsiColor::Magenta),
            BarKind::Start => ("starting", '▒', AnsiColor::Yellow),
            BarKind::Ready => ("Ready", '█', AnsiColor::Green),
            BarKind::Run => ("running", '▓', AnsiColor::Cyan),
        }
    }
}

fn time<S: Serializer>(ms: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&rfc3339(*ms))
}

/// Formats a time as RFC 3339 in UTC, with milliseconds.
pub(crate) fn rfc3339(ms: i64) -> String {
    let since = std::time::Duration::from_millis(u64::try_from(ms).unwrap_or_default());
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string()
}

/// Formats a duration in seconds, such as `1.58 s` or `120 s`.
pub(crate) fn format_seconds(ms: i64) -> String {
    match ms {
        ..100_000 => format!("{:.2} s", ms as f64 / 1000.0),
        _ => format!("{:.0} s", ms as f64 / 1000.0),
    }
}
