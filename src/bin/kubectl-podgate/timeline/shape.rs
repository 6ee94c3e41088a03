//! The start of a pod, as it is known: the shape of it, which is the JSON too. Times are in milliseconds since 1970.

use crate::pod::shape::Role;
use anstyle::AnsiColor;
use podgate::core::container::Mode;
use serde::{Serialize, Serializer};

/// One pod's start.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Timeline {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    /// All of it in one sentence.
    pub(crate) summary: String,
    /// All containers have started.
    pub(crate) started: bool,
    /// Where the picture begins: when the pod was created.
    #[serde(serialize_with = "time")]
    pub(crate) from: i64,
    /// Where it ends.
    #[serde(serialize_with = "time")]
    pub(crate) to: i64,
    /// What came about for the pod as a whole.
    pub(crate) marks: Vec<Mark>,
    /// In the order in which the kubelet starts them.
    pub(crate) containers: Vec<Row>,
    /// What is not known, and why.
    pub(crate) notes: Vec<String>,
}

/// Something that came about at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Mark {
    pub(crate) what: &'static str,
    #[serde(flatten)]
    pub(crate) moment: Moment,
}

/// A moment, and who has written it down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Moment {
    #[serde(serialize_with = "time")]
    pub(crate) at: i64,
    /// False: in whole seconds, so it was up to 1 s later.
    pub(crate) exact: bool,
    pub(crate) by: Source,
}

/// Who has written a moment down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// The sidecar.
    Podgate,
    /// The kubelet, in the pod's status.
    Kubelet,
    /// An event.
    Event,
    /// The API server.
    Api,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) mode: Mode,
    /// Its image was there.
    pub(crate) pulled: Option<Moment>,
    /// How long that took, in milliseconds, where it had to be fetched.
    pub(crate) pull_ms: Option<i64>,
    /// The kubelet started it; before a gate's wait, if it has one.
    pub(crate) created: Option<Moment>,
    /// Its gate was heard to wait.
    pub(crate) gate: Option<Moment>,
    /// Its gate has opened.
    pub(crate) opened: Option<Moment>,
    /// Its own program was started.
    pub(crate) started: Option<Moment>,
    pub(crate) ready: Option<Moment>,
    pub(crate) ended: Option<Moment>,
    pub(crate) restarts: u32,
    /// The bars of the picture.
    pub(crate) bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bar {
    pub(crate) kind: BarKind,
    #[serde(serialize_with = "time")]
    pub(crate) from: i64,
    #[serde(serialize_with = "time")]
    pub(crate) to: i64,
    /// False: it began up to 1 s later.
    pub(crate) exact: bool,
}

/// What a container does for the length of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BarKind {
    /// It has not been started: its turn has not come.
    Wait,
    /// Its image is being fetched.
    Pull,
    /// Its gate waits, in front of its command.
    Gate,
    /// Its program runs, and is not Ready yet.
    Start,
    /// It is, or was once, Ready.
    Ready,
    /// It runs; whether and when it was Ready nobody has written down.
    Run,
}

impl Row {
    /// Everything that is known to have come about, in no certain order.
    pub(crate) fn moments(&self) -> impl Iterator<Item = Moment> + use<> {
        let Row { pulled, created, gate, opened, started, ready, ended, .. } = self;
        [*pulled, *created, *gate, *opened, *started, *ready, *ended].into_iter().flatten()
    }
}

impl Timeline {
    /// The kinds of bars that there are, in the order in which they come.
    pub(crate) fn bar_kinds(&self) -> impl Iterator<Item = BarKind> {
        let all = [BarKind::Wait, BarKind::Pull, BarKind::Gate, BarKind::Start, BarKind::Ready, BarKind::Run];
        all.into_iter().filter(|kind| self.containers.iter().flat_map(|row| &row.bars).any(|bar| bar.kind == *kind))
    }
}

/// How a kind of bar is shown.
pub(crate) struct BarStyle {
    /// In the legend.
    pub(crate) label: &'static str,
    /// In SVG.
    pub(crate) class: &'static str,
    /// On a terminal without colours.
    pub(crate) shade: char,
    pub(crate) color: AnsiColor,
}

impl BarKind {
    pub(crate) fn style(self) -> BarStyle {
        let (words, class, shade, colour) = match self {
            BarKind::Wait => ("waits for its turn", "wait", '·', AnsiColor::BrightBlack),
            BarKind::Pull => ("image is pulled", "pull", '+', AnsiColor::Blue),
            BarKind::Gate => ("its gate waits", "gate", '░', AnsiColor::Magenta),
            BarKind::Start => ("comes up", "start", '▒', AnsiColor::Yellow),
            BarKind::Ready => ("Ready", "ready", '█', AnsiColor::Green),
            BarKind::Run => ("runs", "run", '▓', AnsiColor::Cyan),
        };
        BarStyle { label: words, class, shade, color: colour }
    }
}

fn time<S: Serializer>(ms: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&rfc3339(*ms))
}

/// RFC 3339 in UTC, with milliseconds.
pub(crate) fn rfc3339(ms: i64) -> String {
    let since = std::time::Duration::from_millis(u64::try_from(ms).unwrap_or_default());
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string()
}

/// A length of time, for people.
pub(crate) fn format_seconds(ms: i64) -> String {
    match ms {
        ..100_000 => format!("{:.2} s", ms as f64 / 1000.0),
        _ => format!("{:.0} s", ms as f64 / 1000.0),
    }
}
