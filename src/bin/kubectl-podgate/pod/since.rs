//! Determines the time of a container's last change of state: from the sidecar in milliseconds, else from the kubelet in
//! seconds, else unknown.

use super::shape::{PodContainer, Since};
use podgate::core::state::State;
use podgate::core::times::{Milestone, Times};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time of the container's last change of state.
///
/// `sidecar` is the kubelet's start time of the sidecar. A container without an own time has been waiting since then.
pub(crate) fn since(
    found: &PodContainer<'_>,
    state: Option<State>,
    times: Option<&Times>,
    sidecar: Option<&str>,
    now: SystemTime,
) -> Option<Since> {
    let name = &found.spec.name;
    let by_podgate = |what| {
        let at = UNIX_EPOCH + Duration::from_millis(times?.get(name, what)?);
        Some(Since {
            at: humantime::format_rfc3339_millis(at).to_string(),
            seconds_ago: seconds_between(at, now),
            by: "podgate",
        })
    };
    let by_kubelet = |text: Option<&str>| {
        let at = parse_time(text?)?;
        Some(Since { at: text?.to_owned(), seconds_ago: seconds_between(at, now), by: "kubelet" })
    };
    match state {
        Some(State::Waiting) => {
            let of_state = by_podgate(Milestone::StateChanged).or_else(|| by_podgate(Milestone::GateWaiting));
            of_state.or_else(|| by_kubelet(sidecar))
        }
        Some(_) => by_podgate(Milestone::StateChanged),
        None => by_kubelet(found.kubelet.started_at.as_deref().or(found.kubelet.finished_at.as_deref())),
    }
}

/// Parses a time in the API's format.
pub(super) fn parse_time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339_weak(text).ok()
}

/// Returns the whole seconds from `at` to `now`.
pub(super) fn seconds_between(at: SystemTime, now: SystemTime) -> u64 {
    now.duration_since(at).unwrap_or_default().as_secs()
}
