//! The pod's state at one moment, as read from one source: the board or the downward-API volume.

use crate::core::annotations::Annotations;
use crate::core::names;
use crate::core::sandbox::SandboxId;
use crate::core::state::{Stage, State};
use std::collections::{BTreeMap, BTreeSet};

/// Largest valid revision. JSON numbers cannot represent larger integers exactly.
pub const REVISION_MAX: u64 = (1 << 53) - 1;

/// The pod's state, as published by the sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Sandbox in which the state was observed.
    pub sandbox: SandboxId,
    /// Random id of the sidecar run that published the state.
    pub epoch: String,
    /// Counter that grows with every change.
    pub revision: u64,
    /// Stage of the pod.
    pub stage: Stage,
    /// State of each container.
    pub states: BTreeMap<String, State>,
    /// Ordered containers, in the order of the list.
    pub order: Vec<String>,
    /// Reason for each stuck container.
    pub stuck: BTreeMap<String, String>,
    /// Containers that have ended and that the kubelet will restart.
    pub restarting: BTreeSet<String>,
    /// Conditions that only the kubelet's status proves, if the sidecar cannot read that status.
    pub unseen: BTreeSet<String>,
    /// Ticket of each waiting gate whose conditions are met and confirmed, by container name.
    pub confirmed_tickets: BTreeMap<String, String>,
    /// Ticket of each gate whose startupProbe the sidecar has run, by container name. True if the probe has passed, and
    /// false if it has failed as often as its failure threshold allows.
    pub startup: BTreeMap<String, (String, bool)>,
    /// The pod's first IP address, if the source has it.
    pub pod_ip: Option<Box<str>>,
    /// Containers whose preStop hook has started.
    pub stopping: BTreeSet<String>,
    /// Number of restarts of each restarted container.
    pub restarts: BTreeMap<String, u64>,
}

/// Reason why a source has no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The directory or the file is missing.
    #[error("is missing")]
    Missing,
    /// The file exists but cannot be read, for this reason.
    #[error("cannot be read ({0})")]
    ReadFailed(String),
    /// The file is incomplete or not in the downward-API format.
    #[error("is incomplete ({0})")]
    Torn(String),
    /// The file has no podgate annotations.
    #[error("has no podgate annotations")]
    Empty,
    /// The annotation with this key is missing or invalid.
    #[error("has no valid {0}")]
    Invalid(&'static str),
}

/// Returns true if `key` belongs to an annotation of a snapshot.
pub fn is_snapshot_key(key: &str) -> bool {
    key.starts_with(names::STATUS_KEY_PREFIX) || key.starts_with(names::SANDBOX_KEY_PREFIX)
}

/// Returns true if `text` is a short alphanumeric word, such as an epoch, a ticket or a reason from the kubelet.
pub fn is_short_alphanumeric(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

const PASSED: &str = "passed";
const FAILED: &str = "failed";

/// Reason in `stuck` for a container that has ended and will not be restarted by the kubelet.
pub const REASON_ENDED_FOR_GOOD: &str = "Ended";

impl Snapshot {
    /// Creates a snapshot of a starting pod with these containers.
    pub fn new(sandbox: SandboxId, epoch: &str, states_in_order: &[(&str, State)]) -> Snapshot {
        Snapshot {
            sandbox,
            epoch: epoch.to_owned(),
            states: states_in_order.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect(),
            order: states_in_order.iter().map(|(name, _)| (*name).to_owned()).collect(),
            ..Snapshot::default()
        }
    }

    /// Reads a snapshot. Skips containers with an unknown state, so that such a container never counts as ready. Fails
    /// if a required annotation is missing or invalid.
    pub fn from_annotations(annotations: &Annotations) -> Result<Snapshot, Unreadable> {
        use Unreadable::Invalid;
        if !annotations.keys().any(|key| is_snapshot_key(key)) {
            return Err(Unreadable::Empty);
        }
        let get = |key: &str| annotations.get(key).map(String::as_str);
        let sandbox = get(names::SANDBOX_ID_KEY).and_then(|v| v.parse().ok()).ok_or(Invalid(names::SANDBOX_ID_KEY))?;
        let epoch = get(names::EPOCH_KEY).filter(|v| is_short_alphanumeric(v)).ok_or(Invalid(names::EPOCH_KEY))?;
        let revision = get(names::REVISION_KEY).filter(|v| v.bytes().all(|b| b.is_ascii_digit()));
        let revision = revision.and_then(|v| v.parse::<u64>().ok()).filter(|v| *v <= REVISION_MAX);
        let revision = revision.ok_or(Invalid(names::REVISION_KEY))?;
        let stage = get(names::STAGE_KEY).and_then(|v| v.parse().ok()).ok_or(Invalid(names::STAGE_KEY))?;
        let states = annotations.iter().filter_map(|(key, value)| {
            let name = key.strip_prefix(names::STATUS_KEY_PREFIX)?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        let list = |key| get(key).unwrap_or("").split(',').filter(|item| !item.is_empty());
        let pairs = |key| list(key).filter_map(|item| item.split_once('='));
        let words = |key| {
            let valid = pairs(key).filter(|(_, word)| is_short_alphanumeric(word));
            valid.map(|(name, word)| (name.to_owned(), word.to_owned())).collect()
        };
        let startup = |(name, value): (&str, &str)| {
            let (ticket, result) = value.split_once(':')?;
            let is_valid = is_short_alphanumeric(ticket) && [PASSED, FAILED].contains(&result);
            is_valid.then(|| (name.to_owned(), (ticket.to_owned(), result == PASSED)))
        };
        let restarts = |(name, count): (&str, &str)| Some((name.to_owned(), count.parse().ok()?));
        Ok(Snapshot {
            sandbox,
            epoch: epoch.to_owned(),
            revision,
            stage,
            states: states.collect(),
            order: list(names::ORDERED_CONTAINERS_KEY).map(str::to_owned).collect(),
            stuck: words(names::STUCK_REASONS_KEY),
            restarting: list(names::WILL_RESTART_KEY).map(str::to_owned).collect(),
            unseen: list(names::UNSEEN_CONDITIONS_KEY).map(str::to_owned).collect(),
            confirmed_tickets: words(names::CONFIRMED_TICKETS_KEY),
            startup: pairs(names::STARTUP_RESULTS_KEY).filter_map(startup).collect(),
            pod_ip: get(names::POD_IP_KEY).map(Into::into),
            stopping: list(names::STOPPING_CONTAINERS_KEY).map(str::to_owned).collect(),
            restarts: pairs(names::EPOCH_RESTARTS_KEY).filter_map(restarts).collect(),
        })
    }

    /// Returns the annotations for this snapshot.
    pub fn to_annotations(&self) -> Annotations {
        let mut out = Annotations::from([
            (names::SANDBOX_ID_KEY.to_owned(), self.sandbox.to_string()),
            (names::EPOCH_KEY.to_owned(), self.epoch.clone()),
            (names::REVISION_KEY.to_owned(), self.revision.to_string()),
            (names::STAGE_KEY.to_owned(), self.stage.to_string()),
            (names::ORDERED_CONTAINERS_KEY.to_owned(), self.order.join(",")),
        ]);
        let mut put = |key: &str, items: Vec<String>| {
            if !items.is_empty() {
                out.insert(key.to_owned(), items.join(","));
            }
        };
        let pairs = |of: &BTreeMap<String, String>| of.iter().map(|(name, word)| format!("{name}={word}")).collect();
        put(names::STUCK_REASONS_KEY, pairs(&self.stuck));
        put(names::WILL_RESTART_KEY, self.restarting.iter().cloned().collect());
        put(names::UNSEEN_CONDITIONS_KEY, self.unseen.iter().cloned().collect());
        put(names::CONFIRMED_TICKETS_KEY, pairs(&self.confirmed_tickets));
        let result = |passed: bool| if passed { PASSED } else { FAILED };
        let startup =
            self.startup.iter().map(|(name, (ticket, passed))| format!("{name}={ticket}:{}", result(*passed)));
        put(names::STARTUP_RESULTS_KEY, startup.collect());
        put(names::POD_IP_KEY, self.pod_ip.iter().map(|ip| ip.to_string()).collect());
        put(names::STOPPING_CONTAINERS_KEY, self.stopping.iter().cloned().collect());
        put(names::EPOCH_RESTARTS_KEY, self.restarts.iter().map(|(name, count)| format!("{name}={count}")).collect());
        out.extend(
            self.states.iter().map(|(name, state)| (format!("{}{name}", names::STATUS_KEY_PREFIX), state.to_string())),
        );
        out
    }

    /// Returns true if the container has ended and the kubelet will not restart it.
    pub fn has_ended_for_good(&self, container: &str) -> bool {
        self.stuck.get(container).is_some_and(|reason| reason == REASON_ENDED_FOR_GOOD)
    }
}
