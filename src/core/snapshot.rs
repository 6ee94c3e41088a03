//! What one source, the board or the downward-API volume, says of the pod at one moment.

use crate::core::annotations::Annotations;
use crate::core::names;
use crate::core::sandbox::SandboxId;
use crate::core::state::{Phase, State};
use std::collections::{BTreeMap, BTreeSet};

/// Largest revision that counts: JSON numbers hold no more without loss.
pub const REVISION_MAX: u64 = (1 << 53) - 1;

/// The controller's word on the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The sandbox in which it was observed.
    pub sandbox: SandboxId,
    /// Which start of the controller wrote it.
    pub epoch: String,
    /// Grows with every change.
    pub revision: u64,
    /// Where the pod's start stands.
    pub phase: Phase,
    /// Each container's state.
    pub states: BTreeMap<String, State>,
    /// The ordered containers, in start order.
    pub order: Vec<String>,
    /// Containers that can't go on by themselves, and why.
    pub stuck: BTreeMap<String, String>,
    /// The gates that the controller has heard, by container, with the ticket of each.
    pub heard_tickets: BTreeMap<String, String>,
    /// Containers whose preStop hook has begun.
    pub stopping: BTreeSet<String>,
    /// How often each container was started again, where it was.
    pub restarts: BTreeMap<String, u64>,
}

/// Why a source gives no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The folder or the file is not there.
    #[error("is not there")]
    Missing,
    /// It is there and can't be read; the text says why.
    #[error("can't be read ({0})")]
    ReadFailed(String),
    /// It is not in the downward-API format, or not whole.
    #[error("is not whole ({0})")]
    Torn(String),
    /// It holds nothing of podgate's.
    #[error("holds nothing of podgate's")]
    Empty,
    /// It holds something of podgate's that is not complete or not valid.
    #[error("has no valid {0}")]
    Invalid(&'static str),
}

/// Which annotations a snapshot is read from.
pub fn is_podgate_key(key: &str) -> bool {
    key.starts_with(names::STATUS_PREFIX) || key.starts_with(names::SANDBOX_PREFIX)
}

/// Returns true for a short word that needs no quoting, as epochs, tickets and the kubelet's reasons are.
pub fn is_plain_word(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Reason in `stuck` of a container that has ended and that the kubelet will not start again.
pub const REASON_ENDED: &str = "Ended";

impl Snapshot {
    /// Says that these containers, in start order, are in these states while the pod starts, and no more.
    pub fn new(sandbox: SandboxId, epoch: &str, states: &[(&str, State)]) -> Snapshot {
        Snapshot {
            sandbox,
            epoch: epoch.to_owned(),
            revision: 0,
            phase: Phase::Starting,
            states: states.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect(),
            order: states.iter().map(|(name, _)| (*name).to_owned()).collect(),
            stuck: BTreeMap::new(),
            heard_tickets: BTreeMap::new(),
            stopping: BTreeSet::new(),
            restarts: BTreeMap::new(),
        }
    }

    /// Reads a snapshot. A container whose state is not one of ours is left out: it is unknown, never ready.
    ///
    /// # Errors
    /// [`Unreadable::Empty`] where none of our keys is there, [`Unreadable::Invalid`] where the sandbox, epoch, revision or phase is
    /// missing or not valid.
    pub fn from_annotations(annotations: &Annotations) -> Result<Snapshot, Unreadable> {
        if !annotations.keys().any(|key| is_podgate_key(key)) {
            return Err(Unreadable::Empty);
        }
        let get = |key: &str| annotations.get(key).map(String::as_str);
        let sandbox =
            get(names::SANDBOX_ID).and_then(|v| v.parse().ok()).ok_or(Unreadable::Invalid(names::SANDBOX_ID))?;
        let epoch =
            get(names::SANDBOX_EPOCH).filter(|v| is_plain_word(v)).ok_or(Unreadable::Invalid(names::SANDBOX_EPOCH))?;
        let revision = get(names::SANDBOX_REVISION)
            .filter(|v| v.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|v| v.parse().ok())
            .filter(|v| *v <= REVISION_MAX)
            .ok_or(Unreadable::Invalid(names::SANDBOX_REVISION))?;
        let phase =
            get(names::SANDBOX_PHASE).and_then(|v| v.parse().ok()).ok_or(Unreadable::Invalid(names::SANDBOX_PHASE))?;
        let states = annotations.iter().filter_map(|(key, value)| {
            let name = key.strip_prefix(names::STATUS_PREFIX)?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        let list = |key| get(key).unwrap_or("").split(',').filter(|item| !item.is_empty());
        let pairs = |key| list(key).filter_map(|item| item.split_once('='));
        let words = |key| {
            let valid = pairs(key).filter(|(_, word)| is_plain_word(word));
            valid.map(|(name, word)| (name.to_owned(), word.to_owned())).collect()
        };
        Ok(Snapshot {
            sandbox,
            epoch: epoch.to_owned(),
            revision,
            phase,
            states: states.collect(),
            order: list(names::SANDBOX_ORDER).map(str::to_owned).collect(),
            stuck: words(names::SANDBOX_STUCK),
            heard_tickets: words(names::SANDBOX_HEARD),
            stopping: list(names::SANDBOX_STOPPING).map(str::to_owned).collect(),
            restarts: pairs(names::SANDBOX_RESTARTS)
                .filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?)))
                .collect(),
        })
    }

    /// The annotations that say the same.
    pub fn to_annotations(&self) -> Annotations {
        let Snapshot {
            sandbox,
            epoch,
            revision,
            phase,
            states,
            order,
            stuck,
            heard_tickets: heard,
            stopping,
            restarts,
        } = self;
        let mut out = Annotations::from([
            (names::SANDBOX_ID.to_owned(), sandbox.to_string()),
            (names::SANDBOX_EPOCH.to_owned(), epoch.clone()),
            (names::SANDBOX_REVISION.to_owned(), revision.to_string()),
            (names::SANDBOX_PHASE.to_owned(), phase.to_string()),
            (names::SANDBOX_ORDER.to_owned(), order.join(",")),
        ]);
        let mut put = |key: &str, items: Vec<String>| {
            if !items.is_empty() {
                out.insert(key.to_owned(), items.join(","));
            }
        };
        put(names::SANDBOX_STUCK, stuck.iter().map(|(name, reason)| format!("{name}={reason}")).collect());
        put(names::SANDBOX_HEARD, heard.iter().map(|(name, ticket)| format!("{name}={ticket}")).collect());
        put(names::SANDBOX_STOPPING, stopping.iter().cloned().collect());
        put(names::SANDBOX_RESTARTS, restarts.iter().map(|(name, count)| format!("{name}={count}")).collect());
        out.extend(states.iter().map(|(name, state)| (format!("{}{name}", names::STATUS_PREFIX), state.to_string())));
        out
    }

    /// Whether the controller has heard the gate with this ticket, and has judged anew since what it waits for.
    pub fn has_heard_ticket(&self, ticket: &str) -> bool {
        self.heard_tickets.values().any(|heard| heard == ticket)
    }

    /// Whether the kubelet will not start this container again.
    pub fn has_ended_for_good(&self, container: &str) -> bool {
        self.stuck.get(container).is_some_and(|reason| reason == REASON_ENDED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Snapshot {
        let states = [("db", State::Ready), ("api", State::Waiting)];
        Snapshot {
            revision: 7,
            stuck: BTreeMap::from([("api".to_owned(), "ImagePullBackOff".to_owned())]),
            heard_tickets: BTreeMap::from([("web".to_owned(), "00d1f6c2".to_owned())]),
            stopping: BTreeSet::from(["db".to_owned()]),
            restarts: BTreeMap::from([("db".to_owned(), 2)]),
            ..Snapshot::new("3f2a9c1e-4097-1a0c5f3b".parse().unwrap(), "e1", &states)
        }
    }

    #[test]
    fn reads_back_what_it_wrote() {
        assert_eq!(Snapshot::from_annotations(&sample().to_annotations()), Ok(sample()));
    }

    #[test]
    fn a_state_that_is_not_ours_is_unknown() {
        let mut annotations = sample().to_annotations();
        annotations.insert("status.podgate.io/db".to_owned(), "READY".to_owned());
        assert_eq!(Snapshot::from_annotations(&annotations).unwrap().states.get("db"), None);
    }

    #[test]
    fn a_snapshot_without_its_identity_is_garbage() {
        for (key, bad) in [
            (names::SANDBOX_ID, "x"),
            (names::SANDBOX_EPOCH, "a b"),
            (names::SANDBOX_REVISION, "9007199254740992"),
            (names::SANDBOX_REVISION, "-1"),
            (names::SANDBOX_PHASE, "Starting"),
        ] {
            let mut annotations = sample().to_annotations();
            annotations.insert(key.to_owned(), bad.to_owned());
            assert_eq!(Snapshot::from_annotations(&annotations), Err(Unreadable::Invalid(key)));
            annotations.remove(key);
            assert_eq!(Snapshot::from_annotations(&annotations), Err(Unreadable::Invalid(key)));
        }
    }

    #[test]
    fn foreign_annotations_alone_are_nothing() {
        let foreign = Annotations::from([("example.com/a".to_owned(), "1".to_owned())]);
        assert_eq!(Snapshot::from_annotations(&foreign), Err(Unreadable::Empty));
    }
}
