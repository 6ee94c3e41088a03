//! Events, cut down to what is read of them.

use serde::Deserialize;
use std::time::Duration;

/// One event of the pod. Those of the scheduler have microseconds (`eventTime`), those of the kubelet whole seconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Event {
    reason: Option<String>,
    message: Option<String>,
    first_timestamp: Option<String>,
    event_time: Option<String>,
    involved_object: Option<InvolvedObject>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InvolvedObject {
    field_path: Option<String>,
}

impl Event {
    /// Returns true if it has this reason, and is about this container, or about the pod as a whole.
    pub(crate) fn is_about(&self, container: Option<&str>, reason: &str) -> bool {
        self.container() == container && self.reason.as_deref() == Some(reason)
    }

    /// The container that it is about: `spec.containers{db}`.
    fn container(&self) -> Option<&str> {
        let path = self.involved_object.as_ref()?.field_path.as_deref()?;
        path.split_once('{')?.1.strip_suffix('}')
    }

    /// When it was, in RFC 3339, and whether that is exact.
    pub(crate) fn time(&self) -> Option<(&str, bool)> {
        let exact = self.event_time.as_deref().map(|time| (time, true));
        exact.or_else(|| self.first_timestamp.as_deref().map(|time| (time, false)))
    }

    /// Milliseconds that the pull took, by the kubelet's words: `Successfully pulled image "x" in 1.2s (1.3s including waiting).`
    pub(crate) fn pull_ms(&self) -> Option<i64> {
        let (text, _) = self.message.as_deref()?.split_once(" including waiting")?;
        let took = humantime::parse_duration(text.rsplit_once('(')?.1).ok()?;
        // A pull that takes longer than a day is no time that somebody has measured.
        (took < Duration::from_secs(24 * 60 * 60)).then_some(took.as_millis() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_how_long_a_pull_took() {
        let pull_ms = |message: String| Event { message: Some(message), ..Event::default() }.pull_ms();
        // As Go's `Duration.String` writes it.
        for (time, ms) in [
            ("1.234567891s", Some(1234)),
            ("1m2.5s", Some(62_500)),
            ("850ms", Some(850)),
            ("12.3µs", Some(0)),
            ("1h0m0s", Some(3_600_000)),
            ("", None),
            ("soon", None),
            ("1", None),
            ("999999999h", None),
        ] {
            let message =
                format!("Successfully pulled image \"db:1\" in 1.5s ({time} including waiting). Image size: 9 bytes.");
            assert_eq!(pull_ms(message), ms, "{time}");
        }
        assert_eq!(pull_ms(r#"Container image "db" already present on machine"#.to_owned()), None);
    }
}
