//! Kubernetes events, reduced to the fields that the timeline reads.

use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// Event of the Pod. The scheduler's events have microseconds (`eventTime`). The kubelet's events have whole seconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Event {
    reason: Option<String>,
    message: Option<String>,
    first_timestamp: Option<String>,
    event_time: Option<String>,
    involved_object: Value,
}

impl Event {
    /// Returns true if the event has this reason and is about this container. `None` means the Pod as a whole.
    pub(crate) fn is_about(&self, container: Option<&str>, reason: &str) -> bool {
        self.container() == container && self.reason.as_deref() == Some(reason)
    }

    /// Returns the container that the event's field path names, such as `db` for `spec.containers{db}`.
    fn container(&self) -> Option<&str> {
        self.involved_object["fieldPath"].as_str()?.split_once('{')?.1.strip_suffix('}')
    }

    /// Returns the event's time in RFC 3339, and true if the time is exact. Other times have whole seconds.
    pub(crate) fn time(&self) -> Option<(&str, bool)> {
        let exact = self.event_time.as_deref().map(|time| (time, true));
        exact.or_else(|| self.first_timestamp.as_deref().map(|time| (time, false)))
    }

    /// Returns the duration of an image pull in milliseconds. Reads the duration from messages such as
    /// `Successfully pulled image "x" in 1.2s (1.3s including waiting).`
    pub(crate) fn pull_ms(&self) -> Option<i64> {
        let (text, _) = self.message.as_deref()?.split_once(" including waiting")?;
        let took = humantime::parse_duration(text.rsplit_once('(')?.1).ok()?;
        // Ignore implausible durations of more than a day.
        (took < Duration::from_secs(24 * 60 * 60)).then_some(took.as_millis() as i64)
    }
}
