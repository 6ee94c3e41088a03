//! Time of a container's last change of state. The sidecar's times have milliseconds; the kubelet's have whole seconds.

use super::shape::{PodContainer, Since};
use podgate::core::state::State;
use podgate::core::times::{Milestone, Times};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time of a container's last change of state. `sidecar` is the start time of the sidecar according to the
/// kubelet, and the default for waiting containers.
pub(crate) fn since(
    container: &PodContainer<'_>,
    state: Option<State>,
    times: Option<&Times>,
    sidecar: Option<&str>,
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
            of_state.or_else(|| by_kubelet(sidecar))
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
