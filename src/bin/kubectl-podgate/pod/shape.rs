//! Types of the view of a Pod and its containers, which also define the JSON format. The sidecar's times have
//! milliseconds; the kubelet's have whole seconds.

use podgate::core::command::Gate;
use podgate::core::container::{Container as Declared, Mode};
use podgate::core::names;
use podgate::core::pod::Container;
use podgate::core::state::State;
use podgate::core::times::{Milestone, Times};
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reason in the kubelet's status of a container whose environment cannot be built, such as a held container.
pub(crate) const CONFIG_ERROR_REASON: &str = "CreateContainerConfigError";

/// View of one Pod. The JSON form is a public format: see docs/watching.md.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct View {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) node: Option<String>,
    pub(crate) pod_phase: Option<String>,
    pub(crate) deleting: bool,
    pub(crate) started: bool,
    pub(crate) summary: String,
    pub(crate) published: Option<PublishedPod>,
    /// The reason why the published state cannot belong to the current sandbox.
    #[serde(skip)]
    pub(crate) stale_reason: Option<String>,
    /// The ordered containers, in the order of the list.
    pub(crate) order: Vec<String>,
    pub(crate) containers: Vec<Row>,
    /// Notes about anything unusual, with advice.
    pub(crate) notes: Vec<String>,
}

/// Published state of the Pod as a whole, and its origin.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedPod {
    pub(crate) stage: &'static str,
    pub(crate) sandbox: String,
    pub(crate) epoch: String,
    pub(crate) revision: u64,
    pub(crate) seen: Option<String>,
    pub(crate) seen_seconds_ago: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) mode: Mode,
    /// The state that podgate has published.
    pub(crate) state: Option<&'static str>,
    pub(crate) since: Option<Since>,
    pub(crate) kubelet: KubeletStatus,
    /// The unmet conditions that block the container.
    pub(crate) waits_for: Vec<UnmetCondition>,
    pub(crate) holds_back: Vec<String>,
    /// The reason why the container is stuck, such as `ImagePullBackOff`.
    pub(crate) stuck: Option<String>,
    /// The timeout of the container's hook or gate.
    pub(crate) timeout: Option<String>,
    /// True if the container's gate runs the probes of its predecessors itself.
    #[serde(skip)]
    pub(crate) asks: bool,
    /// True if the sidecar has opened the gate of a held container, and no condition blocks the container.
    #[serde(skip)]
    pub(crate) is_released: bool,
}

/// Time of a container's last change of state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Since {
    /// The time in RFC 3339 and UTC.
    pub(crate) at: String,
    pub(crate) seconds_ago: u64,
    /// Source of the time: `podgate` or `kubelet`. The kubelet's times have whole seconds.
    pub(crate) by: &'static str,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Sidecar,
    /// An init container that exits before the next container starts.
    Init,
    /// A container that can take part in the order.
    #[default]
    Container,
}

/// Status of one container according to the kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KubeletStatus {
    /// `waiting`, `running` or `terminated`; `None` before the kubelet's first report.
    pub(crate) state: Option<&'static str>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) started_at: Option<String>,
    pub(crate) finished_at: Option<String>,
    pub(crate) ready: bool,
    pub(crate) restarts: u32,
    /// True if a closed gate in hold mode keeps the kubelet from creating the container.
    #[serde(skip)]
    pub(crate) is_held: bool,
    /// True if, by the kubelet's status, the gate in front of the command has probably not opened.
    #[serde(skip)]
    pub(crate) is_in_gate: bool,
}

/// Unmet condition that a container waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnmetCondition {
    /// A condition such as `db=Ready`, or the URL of a check.
    pub(crate) condition: String,
    /// Current status of the condition: `not-yet`, `never` or `unknown`.
    pub(crate) standing: &'static str,
    /// The event that would meet the condition.
    pub(crate) takes: String,
    /// The container whose hook or gate has the condition.
    pub(crate) gate_of: String,
    /// The container that the condition is about; `None` for a check.
    #[serde(skip)]
    pub(crate) container: Option<String>,
}

/// Container with the data from the Pod's spec and status.
pub(crate) struct PodContainer<'a> {
    pub(crate) spec: &'a Container,
    /// The container's entry in the sidecar's list.
    pub(crate) declared: Option<Declared>,
    pub(crate) role: Role,
    pub(crate) gate: Option<Gate>,
    pub(crate) kubelet: KubeletStatus,
}

impl PodContainer<'_> {
    /// Returns true for hold mode: the kubelet creates the container only after the sidecar has opened the gate.
    pub(crate) fn is_hold(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.mode == Mode::Hold)
    }
}

impl KubeletStatus {
    /// Returns true if the container's own program runs or has run.
    pub(crate) fn own_program_has_started(&self) -> bool {
        matches!(self.state, Some("running" | "terminated")) && !self.is_in_gate
    }

    /// Returns true if the kubelet could not read the variable of hold mode. Other messages with the reason
    /// [`CONFIG_ERROR_REASON`] report errors of the Pod's configuration, such as a missing ConfigMap.
    pub(super) fn lacks_hold_variable(&self) -> bool {
        // The kubelet's messages if the gate file is missing, or has no key (`makeEnvironmentVariables` in
        // https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go).
        let without_key = format!("environment variable key {:?} not found", names::GATE_FILE_KEY);
        let is_of_gate = |text: &str| text.contains("couldn't parse env file") || text.contains(&without_key);
        self.reason.as_deref() == Some(CONFIG_ERROR_REASON) && self.message.as_deref().is_some_and(is_of_gate)
    }

    /// Returns true if the kubelet cannot read variables from files, and so leaves the variable of hold mode empty.
    pub(super) fn lacks_env_file_support(&self) -> bool {
        let text = format!("missing value for {}", names::HOLD_VARIABLE);
        self.message.as_ref().is_some_and(|message| message.contains(&text))
    }

    /// Returns true if the gate's program is missing, because the node has no volumes of images.
    pub(super) fn lacks_image_volume_support(&self) -> bool {
        // The messages of containerd before 2.1, of a kubelet without the feature, and of runc if the API server has
        // dropped the volume.
        let texts = ["failed to mkdir \"\"", "path is empty", "/podgate/bin/podgate: no such file or directory"];
        self.message.as_ref().is_some_and(|message| texts.iter().any(|text| message.contains(text)))
    }

    /// Describes the status in a few words, such as `running, ready`.
    pub(crate) fn describe(&self) -> String {
        let mut text = match self.state {
            Some("running") => if self.ready { "running, ready" } else { "running, not ready" }.to_owned(),
            Some("terminated") => {
                let reason = self.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                format!("exited {}{reason}", self.exit_code.unwrap_or_default())
            }
            Some(_) if self.is_held => format!("held ({CONFIG_ERROR_REASON})"),
            Some(_) => self.reason.clone().unwrap_or_else(|| "waiting".to_owned()),
            None => "no status".to_owned(),
        };
        match self.restarts {
            0 => {}
            1 => text.push_str(", 1 restart"),
            many => text.push_str(&format!(", {many} restarts")),
        }
        text
    }
}

/// Returns the time of a container's last change of state. `sidecar_started_at` is the start time of the sidecar
/// according to the kubelet, and the default for waiting containers.
pub(super) fn since(
    container: &PodContainer<'_>,
    state: Option<State>,
    times: Option<&Times>,
    sidecar_started_at: Option<&str>,
    now: SystemTime,
) -> Option<Since> {
    let name = &container.spec.name;
    let changed = |at, text, by| Since { at: text, seconds_ago: seconds_between(at, now), by };
    let by_podgate = |what| {
        let at = UNIX_EPOCH + Duration::from_millis(times?.get(name, what)?);
        Some(changed(at, humantime::format_rfc3339_millis(at).to_string(), "podgate"))
    };
    let by_kubelet = |text: Option<&str>| Some(changed(parse_time(text?)?, text?.to_owned(), "kubelet"));
    match state {
        Some(State::Waiting) => {
            let of_state = by_podgate(Milestone::StateChanged).or_else(|| by_podgate(Milestone::GateWaiting));
            of_state.or_else(|| by_kubelet(sidecar_started_at))
        }
        Some(_) => by_podgate(Milestone::StateChanged),
        None => by_kubelet(container.kubelet.started_at.as_deref().or(container.kubelet.finished_at.as_deref())),
    }
}

pub(super) fn parse_time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339_weak(text).ok()
}

pub(super) fn seconds_between(at: SystemTime, now: SystemTime) -> u64 {
    now.duration_since(at).unwrap_or_default().as_secs()
}
