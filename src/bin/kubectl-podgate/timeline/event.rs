//! Events, cut down to what is read of them.

use serde::Deserialize;

/// One event of the pod. Those of the scheduler have microseconds (`eventTime`), those of the kubelet whole seconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Event {
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    first_timestamp: Option<String>,
    event_time: Option<String>,
    involved_object: Option<Object>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    field_path: Option<String>,
}

impl Event {
    /// The container that it is about: `spec.containers{db}`.
    pub(crate) fn container(&self) -> Option<&str> {
        let path = self.involved_object.as_ref()?.field_path.as_deref()?;
        path.split_once('{')?.1.strip_suffix('}')
    }

    /// When it was, in RFC 3339, and whether that is exact.
    pub(crate) fn time(&self) -> Option<(&str, bool)> {
        let exact = self.event_time.as_deref().map(|time| (time, true));
        exact.or_else(|| self.first_timestamp.as_deref().map(|time| (time, false)))
    }

    /// How long the pull took, as the kubelet says it: `Successfully pulled image "x" in 1.2s (1.3s including waiting).`
    pub(crate) fn pull_ms(&self) -> Option<i64> {
        let text = self.message.as_deref()?.split_once(" in ")?.1;
        let waited = text.split_once('(').and_then(|(_, rest)| rest.split_once(" including waiting"));
        let text = waited.map_or_else(|| text.split([' ', '.']).next().unwrap_or_default(), |(time, _)| time);
        go_duration_ms(text)
    }
}

/// Go's `Duration.String`: `1m2.5s`, `1.234567s`, `850ms`, `12.3µs`.
fn go_duration_ms(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let ms = match &rest[..unit] {
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1000.0,
            "ms" => 1.0,
            "µs" | "us" => 0.001,
            "ns" => 0.000_001,
            _ => return None,
        };
        total += number * ms;
        rest = &rest[unit..];
    }
    // A pull that takes longer than a day is no time that somebody has measured.
    (total < 86_400_000.0 && !text.is_empty()).then_some(total as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_go_durations() {
        for (text, ms) in [
            ("1.2345s", Some(1234)),
            ("1m2.5s", Some(62_500)),
            ("850ms", Some(850)),
            ("12µs", Some(0)),
            ("1h0m0s", Some(3_600_000)),
            ("", None),
            ("soon", None),
            ("1", None),
            ("999999999h", None),
        ] {
            assert_eq!(go_duration_ms(text), ms, "{text}");
        }
    }

    #[test]
    fn knows_how_long_a_pull_took() {
        let event = |message: &str| Event { message: Some(message.to_owned()), ..Event::default() };
        let long = r#"Successfully pulled image "db:1" in 1.5s (2.25s including waiting). Image size: 9 bytes."#;
        assert_eq!(event(long).pull_ms(), Some(2250));
        assert_eq!(event(r#"Successfully pulled image "db:1" in 850ms"#).pull_ms(), Some(850));
        assert_eq!(event(r#"Container image "db" already present on machine"#).pull_ms(), None);
    }
}
