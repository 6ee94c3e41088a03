//! What is said of a pod, and of each of its containers: the shape of it, which is the JSON too.

use podgate::core::command::Gate;
use podgate::core::container::Mode;
use podgate::core::pod::Container;
use serde::Serialize;

/// One pod. As JSON it is an interface: see docs/kubectl-podgate.md.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct View {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) node: Option<String>,
    /// The API's own word for the pod.
    pub(crate) pod_phase: Option<String>,
    pub(crate) deleting: bool,
    /// All containers have started.
    pub(crate) started: bool,
    /// All of it in one sentence.
    pub(crate) summary: String,
    pub(crate) published: Option<Published>,
    /// Why what is published can't be of the pod as it is now.
    #[serde(skip)]
    pub(crate) stale_reason: Option<String>,
    /// The ordered containers, in start order.
    pub(crate) order: Vec<String>,
    pub(crate) containers: Vec<Row>,
    /// What is odd, and what can be done about it.
    pub(crate) notes: Vec<String>,
}

/// What the sidecar has published, and where and when it saw it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Published {
    pub(crate) phase: &'static str,
    pub(crate) sandbox: String,
    pub(crate) epoch: String,
    pub(crate) revision: u64,
    pub(crate) seen: Option<String>,
    pub(crate) seen_seconds_ago: Option<u64>,
}

/// One container.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) mode: Mode,
    /// Podgate's word.
    pub(crate) state: Option<&'static str>,
    /// Since when it is as it is.
    pub(crate) since: Option<Since>,
    pub(crate) kubelet: KubeletStatus,
    /// What must come about before it goes on.
    pub(crate) waits_for: Vec<Condition>,
    /// Containers that go on only after it does.
    pub(crate) holds_back: Vec<String>,
    /// Why it can't go on by itself.
    pub(crate) stuck: Option<String>,
    /// How long its hook or gate waits.
    pub(crate) timeout: Option<String>,
}

/// Since when a container is as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Since {
    /// RFC 3339, UTC.
    pub(crate) at: String,
    pub(crate) seconds_ago: u64,
    /// `podgate` or `kubelet`; the kubelet counts in whole seconds.
    pub(crate) by: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Podgate's own.
    Sidecar,
    /// Runs to its end before any other starts.
    Init,
    /// Takes part in the order.
    Container,
}

/// The kubelet's word on one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KubeletStatus {
    /// `waiting`, `running` or `terminated`; nothing while the kubelet has said nothing.
    pub(crate) state: Option<&'static str>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) started_at: Option<String>,
    pub(crate) finished_at: Option<String>,
    pub(crate) ready: bool,
    pub(crate) restarts: u32,
}

/// Something that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    /// `db=Ready`, or a check's URL.
    pub(crate) condition: String,
    /// `not-yet`, `never` or `unknown`.
    pub(crate) standing: &'static str,
    /// What it would take.
    pub(crate) takes: String,
    /// In whose hook or gate it stands.
    pub(crate) gate_of: String,
    /// The container that it names.
    #[serde(skip)]
    pub(crate) container: Option<String>,
}

/// One container and what the Pod says of it.
pub(crate) struct PodContainer<'a> {
    pub(crate) spec: &'a Container,
    pub(crate) role: Role,
    pub(crate) gate: Option<Gate>,
    pub(crate) kubelet: KubeletStatus,
}

impl KubeletStatus {
    /// In a few words.
    pub(crate) fn describe(&self) -> String {
        let mut text = match self.state {
            Some("running") => if self.ready { "running, ready" } else { "running, not ready" }.to_owned(),
            Some("terminated") => {
                let reason = self.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                format!("exited {}{reason}", self.exit_code.unwrap_or_default())
            }
            Some(_) => self.reason.clone().unwrap_or_else(|| "waiting".to_owned()),
            None => "nothing".to_owned(),
        };
        match self.restarts {
            0 => {}
            1 => text.push_str(", 1 restart"),
            many => text.push_str(&format!(", {many} restarts")),
        }
        text
    }
}
