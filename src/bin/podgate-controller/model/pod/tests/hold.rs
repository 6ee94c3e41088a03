//! Tests of the gates of held containers.

use super::*;
use crate::clock::wall_clock;

const HELD: &str = r#"[
    {"name":"db","readinessProbe":{"tcpSocket":{"port":1}}},
    {"name":"api","mode":"hold","until":["db"],"timeoutSeconds":60,"readinessProbe":{"tcpSocket":{"port":2}}}]"#;

impl PodModel {
    /// Determines states and gates. Returns the changes of gates.
    fn follow_conditions(&mut self, now: Instant) -> Vec<bool> {
        let mut changes = Vec::new();
        self.update_snapshot();
        self.update_gates(now, wall_clock(), |_, open| {
            changes.push(open);
            true
        });
        self.update_snapshot();
        changes
    }
}

/// Returns a Pod in which `db` is Ready and the gate of `api` is open.
fn open_pod() -> PodModel {
    let mut pod = new_pod(false, HELD);
    assert!(pod.follow_conditions(now()).is_empty());
    pod.receive_verdict("db", ProbeVerdict::Passed);
    assert!(pod.follow_conditions(now()).is_empty(), "the gate opens after one more successful probe");
    assert!(pod.unconfirmed().contains("db"));
    pod.receive_verdict("db", ProbeVerdict::Passed);
    assert_eq!(pod.follow_conditions(now()), [true]);
    pod
}

#[test]
fn gate_follows_its_conditions() {
    let mut pod = open_pod();
    assert!(pod.may_run(pod.track("api").unwrap()));
    pod.receive_verdict("db", ProbeVerdict::Failing);
    assert_eq!(pod.follow_conditions(now()), [false]);
    assert!(!pod.may_run(pod.track("api").unwrap()));
    pod.receive_verdict("api", ProbeVerdict::Passed);
    assert_eq!(pod.state_of("api"), State::Waiting, "another container answers on the port");
}

#[test]
fn container_that_passed_its_gate_keeps_running_behind_a_closed_gate() {
    let mut pod = open_pod();
    pod.receive_status("api", running("a1", true));
    pod.receive_verdict("api", ProbeVerdict::Passed);
    pod.receive_verdict("db", ProbeVerdict::Failing);
    pod.follow_conditions(now());
    assert_eq!((pod.state_of("api"), pod.has_held_container()), (State::Ready, false));
    assert!(!pod.may_idle());
}

#[test]
fn kubelet_is_asked_until_the_container_runs() {
    let mut pod = open_pod();
    let start = now();
    assert!(pod.has_held_container());
    assert_eq!(pod.take_release_requests(start), ["api"]);
    assert!(pod.take_release_requests(start).is_empty());
    assert_eq!(pod.take_release_requests(start + Duration::from_secs(2)), ["api"]);
    assert_eq!(pod.releases(), Some(2));
    pod.receive_status("api", running("a1", false));
    assert!(pod.take_release_requests(later()).is_empty());
    assert_eq!(pod.due(), None);
}

#[test]
fn held_container_times_out_and_recovers() {
    let mut pod = new_pod(false, HELD);
    pod.follow_conditions(now());
    pod.tick(later() - Duration::from_secs(30));
    assert_eq!(pod.state_of("api"), State::Waiting);
    pod.tick(later());
    assert_eq!(pod.state_of("api"), State::TimedOut);
    for _ in 0..2 {
        pod.receive_verdict("db", ProbeVerdict::Passed);
        pod.follow_conditions(later());
    }
    pod.receive_status("api", running("a1", true));
    pod.receive_verdict("api", ProbeVerdict::Passed);
    pod.follow_conditions(later());
    assert_eq!(pod.state_of("api"), State::Ready);
}

#[test]
fn gate_opens_after_a_time_out_if_declared() {
    let mut pod =
        new_pod(false, &HELD.replace(r#""timeoutSeconds":60"#, r#""timeoutSeconds":60,"continueOnTimeout":true"#));
    pod.follow_conditions(now());
    pod.tick(later());
    assert_eq!(pod.follow_conditions(later()), [true]);
}

#[test]
fn final_end_does_not_time_out() {
    let mut pod = open_pod();
    let stuck_reason = Some(REASON_ENDED.to_owned());
    pod.receive_status("api", Kubelet { stuck_reason, ..ended("a1", 0) });
    pod.receive_verdict("db", ProbeVerdict::Failing);
    pod.follow_conditions(now());
    pod.tick(later());
    assert_eq!(pod.state_of("api"), State::Completed);
}

/// A short run may end before the kubelet's status shows its start.
#[test]
fn run_that_was_never_seen_ends_the_time_out() {
    for continues in [false, true] {
        let json =
            HELD.replace(r#""timeoutSeconds":60"#, &format!(r#""timeoutSeconds":60,"continueOnTimeout":{continues}"#));
        let mut pod = new_pod(false, &json.replace(r#""name":"api""#, r#""name":"api","restartPolicy":"Never""#));
        pod.follow_conditions(now());
        pod.tick(later());
        for _ in 0..3 {
            pod.receive_verdict("db", ProbeVerdict::Passed);
            pod.follow_conditions(now());
        }
        pod.on_pod_update(&pod_facts("api", ended("a1", 0)), true, later() + Duration::from_secs(1));
        pod.follow_conditions(later());
        assert_eq!(pod.state_of("api"), State::Completed);
        assert!(!pod.has_held_container() && pod.take_release_requests(later() + Duration::from_secs(600)).is_empty());
    }
}

/// Without the API, only the answers of the container show that it runs.
#[test]
fn answering_container_keeps_its_state_when_its_gate_closes() {
    let mut pod = open_pod();
    pod.receive_verdict("api", ProbeVerdict::Passed);
    pod.follow_conditions(now());
    pod.receive_verdict("db", ProbeVerdict::Failing);
    assert_eq!(pod.follow_conditions(now()), [false]);
    assert_eq!(pod.state_of("api"), State::Ready);
}

#[test]
fn failed_write_is_forgotten_when_the_gate_need_not_change() {
    let mut pod = open_pod();
    pod.receive_verdict("db", ProbeVerdict::Failing);
    pod.update_snapshot();
    pod.update_gates(now(), wall_clock(), |_, _| false);
    assert!(pod.track("api").unwrap().hold.as_ref().unwrap().retry_at.is_some());
    pod.receive_verdict("db", ProbeVerdict::Passed);
    pod.follow_conditions(now());
    assert!(pod.track("api").unwrap().hold.as_ref().unwrap().retry_at.is_none());
}

#[test]
fn start_behind_a_closed_gate_is_a_violation() {
    let mut pod = new_pod(false, HELD);
    pod.follow_conditions(now());
    pod.receive_status("api", Kubelet { running_since: Some(wall_clock()), ..running("a1", true) });
    assert_eq!(pod.state_of("api"), State::Violated);
    let mut pod = new_pod(true, HELD);
    pod.follow_conditions(now());
    let at = |seconds| Some(wall_clock() + Duration::from_secs(seconds));
    pod.receive_status("api", Kubelet { running_since: at(1), ..running("a1", true) });
    assert_eq!(pod.state_of("api"), State::Started, "the earlier run of the sidecar may have opened the gate");
    pod.receive_status("api", Kubelet { running_since: at(60), ..running("a2", true) });
    assert_eq!(pod.state_of("api"), State::Violated);
}
