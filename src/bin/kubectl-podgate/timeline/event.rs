//! Kubernetes events of a Pod, as the timeline reads them.

use super::shape::{Moment, Source};
use k8s_openapi::api::core::v1::Event;
use std::time::Duration;

/// Returns true if the event has this reason and is about this container. `None` means the Pod as a whole.
pub(super) fn is_about(event: &Event, container: Option<&str>, reason: &str) -> bool {
    // The field path names the container, such as `db` in `spec.containers{db}`.
    let named = || event.involved_object.field_path.as_deref()?.split_once('{')?.1.strip_suffix('}');
    named() == container && event.reason.as_deref() == Some(reason)
}

/// Returns the event's time. The scheduler's events have microseconds (`eventTime`), the kubelet's have whole seconds.
pub(super) fn moment(event: &Event) -> Option<Moment> {
    let exact = event.event_time.as_ref().map(|time| time.0);
    let at = exact.or(event.first_timestamp.as_ref().map(|time| time.0))?.as_millisecond();
    Some(Moment { at, exact: exact.is_some(), by: Source::Event })
}

/// Returns the duration of an image pull in milliseconds. Reads the duration from messages such as
/// `Successfully pulled image "x" in 1.2s (1.3s including waiting).`
pub(super) fn pull_ms(event: &Event) -> Option<i64> {
    let (text, _) = event.message.as_deref()?.split_once(" including waiting")?;
    let took = humantime::parse_duration(text.rsplit_once('(')?.1).ok()?;
    // Ignore implausible durations of more than a day.
    (took < Duration::from_secs(24 * 60 * 60)).then_some(took.as_millis() as i64)
}
