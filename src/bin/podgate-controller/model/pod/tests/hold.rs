//! Tests of the gates of held containers.

use super::*;
use crate::clock::wall_clock;

const HELD: &str = r#"[
    {"name":"db","readinessProbe":{"tcpSocket":{"port":1}}},
    {"name":"api","mode":"hold","until":["db"],"timeoutSeconds":60,"readinessProbe":{"tcpSocket":{"port":2}}}]"#;

impl PodModel {
    /// Updates the states and the gates. Returns a value for each changed gate: true if the gate has opened.
    fn follow_conditions(&mut self, now: Instant) -> Vec<bool> {
        let mut changes = Vec::new();
        self.update_snapshot(now);
        self.update_gates(now, wall_clock(), |_, open| {
            changes.push(open);
            true
        });
        self.update_snapshot(now);
        changes
    }
}

/// Returns a Pod in which `db` is Ready and the gate of `api` is open.
fn open_pod() -> PodModel {
    let mut pod = new_pod(false, HELD);
    assert!(pod.follow_conditions(now()).is_empty());
    pod.receive_verdict("db", ProbeVerdict::Passed);
    assert!(pod.follow_conditions(now()).is_empty(), "the gate opens after one more successful probe");
    assert!(pod.containers_to_confirm().contains("db"));
    pod.receive_verdict("db", ProbeVerdict::Passed);
    assert_eq!(pod.follow_conditions(now()), [true]);
    pod
}

#[test]
fn gate_follows_its_conditions() {
    let mut pod = open_pod();
    assert!(pod.may_be_running(pod.track("api").unwrap()));
    pod.receive_verdict("db", ProbeVerdict::Failing);
    assert_eq!(pod.follow_conditions(now()), [false]);
    assert!(!pod.may_be_running(pod.track("api").unwrap()));
    pod.receive_verdict("api", ProbeVerdict::Passed);
    assert_eq!(pod.state_of("api"), State::Waiting, "another container answers on the port");
}

#[test]
fn container_that_passed_its_gate_keeps_running_behind_a_closed_gate() {
    for has_api in [true, false] {
        let mut pod = open_pod();
        if has_api {
            pod.receive_status("api", running("a1", true));
        }
        // Without the API, only the answers to probes show that the container runs.
        pod.receive_verdict("api", ProbeVerdict::Passed);
        pod.follow_conditions(now());
        pod.receive_verdict("db", ProbeVerdict::Failing);
        assert_eq!(pod.follow_conditions(now()), [false]);
        assert_eq!((pod.state_of("api"), pod.may_have_held_container()), (State::Ready, false));
        assert!(!pod.may_idle());
    }
}

#[test]
fn kubelet_is_asked_until_the_container_runs() {
    let mut pod = open_pod();
    let start = now();
    assert!(pod.may_have_held_container());
    assert_eq!(pod.take_release_requests(start), ["api"]);
    assert!(pod.take_release_requests(start).is_empty());
    assert_eq!(pod.take_release_requests(start + Duration::from_secs(2)), ["api"]);
    assert_eq!(pod.sync_request_count(), Some(2));
    pod.receive_status("api", running("a1", false));
    assert!(pod.take_release_requests(later()).is_empty());
    assert_eq!(pod.due(), None);
}

#[test]
fn held_container_times_out_and_recovers() {
    let mut pod = new_pod(false, HELD);
    pod.follow_conditions(now());
    pod.apply_time_limits(later() - Duration::from_secs(30));
    assert_eq!(pod.state_of("api"), State::Waiting);
    pod.apply_time_limits(later());
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
fn final_end_does_not_time_out() {
    let mut pod = open_pod();
    let stuck_reason = Some(REASON_ENDED_FOR_GOOD.to_owned());
    pod.receive_status("api", Kubelet { stuck_reason, ..ended("a1", 0) });
    pod.receive_verdict("db", ProbeVerdict::Failing);
    pod.follow_conditions(now());
    pod.apply_time_limits(later());
    assert_eq!(pod.state_of("api"), State::Completed);
}

/// A short run may end before the kubelet's status shows its start.
#[test]
fn run_that_was_never_seen_ends_the_time_out() {
    for continues in [false, true] {
        let fields = format!(r#""name":"api","restartPolicy":"Never","continueOnTimeout":{continues}"#);
        let mut pod = new_pod(false, &HELD.replace(r#""name":"api""#, &fields));
        pod.follow_conditions(now());
        pod.apply_time_limits(later());
        for _ in 0..3 {
            pod.receive_verdict("db", ProbeVerdict::Passed);
            pod.follow_conditions(now());
        }
        pod.on_pod_update(&pod_facts("api", ended("a1", 0)), true, later() + Duration::from_secs(1));
        pod.follow_conditions(later());
        assert_eq!(pod.state_of("api"), State::Completed);
        assert!(!pod.may_have_held_container());
        assert!(pod.take_release_requests(later() + Duration::from_secs(600)).is_empty());
    }
}

#[test]
fn failed_write_is_forgotten_when_the_gate_need_not_change() {
    let mut pod = open_pod();
    pod.receive_verdict("db", ProbeVerdict::Failing);
    pod.update_snapshot(now());
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

/// A Pod with a held container `api` that waits for `db`, and the current time of the test.
struct Flapping {
    pod: PodModel,
    at: Instant,
}

impl Flapping {
    fn new(json: &str) -> Flapping {
        let (mut pod, at) = (new_pod(false, json), now());
        pod.update_gates(at, wall_clock(), |_, _| true);
        Flapping { pod, at }
    }

    /// Keeps `db` Ready or not Ready for the given time. Applies time limits when they are due.
    fn hold_for(&mut self, is_ready: bool, time: Duration) {
        let verdict = if is_ready { ProbeVerdict::Passed } else { ProbeVerdict::Failing };
        // A gate opens only after a second success, which confirms the first.
        for _ in 0..2 {
            self.pod.on_probe("db", verdict, is_ready, self.at);
            self.pod.follow_conditions(self.at);
        }
        self.at += time;
        self.pod.apply_time_limits(self.at);
        self.pod.follow_conditions(self.at);
    }

    fn is_open(&self) -> bool {
        self.pod.track("api").unwrap().hold.as_ref().unwrap().state.is_open()
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The container never runs in these cases. The time limit of its wait is 60 s.
#[test]
fn closed_time_counts_over_all_openings() {
    for (name, closed_and_open, is_timed_out) in [
        ("short of the limit", &[(20, 20), (20, 20), (19, 0)][..], false),
        ("closed time sums up", &[(20, 20), (20, 20), (20, 0)], true),
        ("an open hour does not count", &[(20, 3600), (39, 0)], false),
        ("the limit after an open hour", &[(20, 3600), (40, 0)], true),
        ("an hour open at once", &[(0, 3600), (59, 0)], false),
        ("openings too short to create the container", &[(1, 1); 30], true),
        ("hardly ever closed", &[(0, 14), (0, 14), (0, 14), (0, 14), (4, 0)], true),
    ] {
        let mut flapping = Flapping::new(HELD);
        for (closed, open) in closed_and_open {
            flapping.hold_for(false, seconds(*closed));
            if *open > 0 {
                flapping.hold_for(true, seconds(*open));
            }
        }
        flapping.hold_for(false, Duration::ZERO);
        assert_eq!(flapping.pod.state_of("api") == State::TimedOut, is_timed_out, "{name}");
    }
}

#[test]
fn gate_of_a_flapping_condition_opens_after_a_time_out_if_declared() {
    let continues = HELD.replace(r#""timeoutSeconds":60"#, r#""timeoutSeconds":60,"continueOnTimeout":true"#);
    let mut flapping = Flapping::new(&continues);
    for _ in 0..29 {
        flapping.hold_for(false, seconds(1));
        assert!(!flapping.is_open());
        flapping.hold_for(true, seconds(1));
    }
    flapping.hold_for(false, seconds(2));
    assert!(flapping.is_open(), "without the condition");
    flapping.hold_for(false, seconds(1));
    assert!(flapping.is_open(), "until the container runs");
}

#[test]
fn run_of_the_container_resets_its_closed_time() {
    let mut flapping = Flapping::new(HELD);
    flapping.hold_for(false, seconds(50));
    flapping.hold_for(true, seconds(1));
    flapping.pod.on_pod_update(&pod_facts("api", running("a1", true)), true, flapping.at);
    flapping.hold_for(true, seconds(1));
    flapping.pod.on_pod_update(&pod_facts("api", ended("a1", 1)), true, flapping.at);
    flapping.hold_for(false, seconds(59));
    assert_ne!(flapping.pod.state_of("api"), State::TimedOut);
    flapping.hold_for(false, seconds(1));
    assert_eq!(flapping.pod.state_of("api"), State::TimedOut);
}

#[test]
fn flapping_condition_cannot_flood_the_api_server() {
    let mut flapping = Flapping::new(&HELD.replace(r#","timeoutSeconds":60"#, ""));
    let mut requests = 0;
    for _ in 0..100 {
        flapping.hold_for(false, Duration::from_millis(100));
        flapping.hold_for(true, Duration::from_millis(900));
        requests += flapping.pod.take_release_requests(flapping.at).len();
    }
    assert!((10..=20).contains(&requests), "{requests} requests");
    let start = flapping.at;
    let due = flapping.pod.due().unwrap();
    assert!((start..=start + seconds(10)).contains(&due), "a delayed request is not lost");
    assert_eq!(flapping.pod.take_release_requests(due), ["api"]);
}
