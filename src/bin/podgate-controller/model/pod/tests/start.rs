//! Tests of the startup of a Pod, with and without hooks.

use super::*;

#[test]
fn containers_of_a_chain_become_ready_in_order() {
    let mut pod = new_pod(false, CHAIN);
    pod.receive_verdict("db", ProbeVerdict::Passed);
    assert!(pod.update_snapshot(now()).is_none(), "before db has started, another container may answer the probe");
    pod.receive_report("db", Some(report()));
    assert_eq!(pod.state_of("db"), State::Ready);
    assert!(!pod.may_be_running(&pod.tracks[1]), "api has not reported");
    pod.receive_report("api", Some(report()));
    assert_eq!((pod.state_of("api"), pod.stage()), (State::Started, Stage::Starting), "api's hook waits");
    pod.receive_verdict("api", ProbeVerdict::Passed);
    pod.update_snapshot(now());
    assert!(pod.may_be_running(&pod.tracks[2]), "no hook of an earlier container waits");
    pod.receive_status("web", running("w1", false));
    pod.receive_verdict("web", ProbeVerdict::Passed);
    assert_eq!((pod.stage(), pod.may_idle()), (Stage::Started, true));
}

#[test]
fn pod_has_started_without_the_api_when_the_last_port_is_open() {
    let mut pod = new_pod(false, CHAIN);
    for name in ["db", "api"] {
        pod.receive_report(name, Some(report()));
        pod.receive_verdict(name, ProbeVerdict::Passed);
    }
    pod.update_snapshot(now());
    assert_eq!((pod.state_of("api"), pod.stage()), (State::Ready, Stage::Starting), "web's port is not open yet");
    pod.on_listening("web");
    pod.update_snapshot(now());
    assert_eq!(pod.stage(), Stage::Started);
}

/// The gate of api has timed out, and the kubelet restarts it: api itself has never started.
#[test]
fn pod_has_started_only_when_each_gate_has_opened_once() {
    let mut pod = new_pod(false, r#"[{"name":"db"},{"name":"api","mode":"entrypoint","until":["db=Ready"]}]"#);
    pod.receive_status("db", running("d1", false));
    pod.receive_report("api", Some(waiting("t1", &["db=Ready"])));
    pod.receive_status("api", running("a1", false));
    pod.on_report("api", directory_state(waiting("t1", &["db=Ready"]), false), now());
    pod.receive_status("db", ended("d1", 1));
    pod.receive_status("api", ended("a1", 75));
    assert_eq!((pod.state_of("api"), pod.stage()), (State::Waiting, Stage::Starting));
    pod.receive_report("api", Some(opened("t2")));
    assert_eq!(pod.stage(), Stage::Started, "db has started once, and api's gate has opened");
}

#[test]
fn only_a_changed_report_of_this_sandbox_and_epoch_counts() {
    let mut pod = new_pod(false, CHAIN);
    pod.receive_verdict("db", ProbeVerdict::Passed);
    assert!(!pod.receive_report("db", None) && !pod.receive_report("unknown", Some(report())));
    for stale in [
        Report { epoch: "e0".to_owned(), ..report() },
        Report { sandbox: Some("3f2a9c1e-4098-1a0c5f3b".parse().unwrap()), ..report() },
        Report { sandbox: None, ..report() },
    ] {
        assert!(!pod.receive_report("db", Some(stale)));
        assert!(pod.update_snapshot(now()).is_none());
    }
    assert!(pod.receive_report("db", Some(report())));
    assert!(!pod.receive_report("db", Some(report())));
    pod.receive_status("db", ended("d1", 1));
    assert!(pod.receive_report("db", Some(report())), "the container was restarted");
}

#[test]
fn deleted_pod_is_terminating() {
    let mut pod = new_pod(false, CHAIN);
    pod.on_pod_update(&PodFacts { is_deleting: true, ..PodFacts::default() }, false, now());
    assert_eq!(pod.stage(), Stage::Terminating);
}

#[test]
fn only_an_exec_probe_needs_the_filtered_kubelet_status() {
    let mut pod = new_pod(false, CHAIN);
    pod.on_kubelet_ready("db", Some(true));
    pod.receive_status("db", running("d1", true));
    assert_eq!(pod.state_of("db"), State::Started, "podgate can run this probe");
    let exec = r#"[{"name":"db","mode":"post-start","readinessProbe":{"exec":{"command":["x"]}}}]"#;
    let mut pod = new_pod(false, exec);
    pod.receive_report("db", Some(report()));
    assert_eq!(pod.state_of("db"), State::Started);
    pod.receive_status("db", running("d1", true));
    assert!(
        pod.update_snapshot(now()).is_none(),
        "the sidecar must ignore the kubelet's `ready` until the ready filter trusts it"
    );
    pod.on_kubelet_ready("db", Some(true));
    assert_eq!(pod.state_of("db"), State::Ready);
    // The kubelet does not run the check that replaces its probes, so its `ready` status must not count.
    let mut pod = new_pod(false, r#"[{"name":"db","mode":"post-start","readyCheck":"unix:///x"}]"#);
    pod.receive_report("db", Some(report()));
    pod.on_kubelet_ready("db", Some(true));
    assert_eq!(pod.state_of("db"), State::Started);
}

#[test]
fn stuck_reason_is_published() {
    let mut pod = new_pod(false, CHAIN);
    let status = Kubelet { stuck_reason: Some("ImagePullBackOff".to_owned()), ..Kubelet::default() };
    pod.receive_status("api", status);
    let snapshot = pod.update_snapshot(now()).unwrap();
    assert_eq!(snapshot.stuck.get("api").map(String::as_str), Some("ImagePullBackOff"));
}
