//! Tests of the confirmation of waiting gates and of the reports of open gates.

use super::*;

#[test]
fn container_with_a_closed_gate_is_never_ready() {
    let mut pod = new_pod(false, GATES);
    pod.receive_report("db", Some(waiting("t1", &[])));
    pod.receive_status("db", running("d1", true));
    pod.receive_verdict("db", ProbeVerdict::Passed);
    assert_eq!((pod.state_of("db"), pod.confirmed_ticket_of("db").as_deref()), (State::Waiting, Some("t1")));
    pod.receive_report("db", Some(opened("t1")));
    assert_eq!((pod.state_of("db"), pod.confirmed_ticket_of("db")), (State::Ready, None));
}

#[test]
fn open_gate_without_tether_needs_a_stable_kubelet_status() {
    let mut pod = new_pod(false, GATES);
    pod.on_report("db", directory_state(Report { epoch: "e0".to_owned(), ..opened("t1") }, false), now());
    pod.receive_status("db", running("d1", true));
    assert!(pod.update_snapshot(now()).is_none());
    let due = pod.due().unwrap();
    pod.apply_time_limits(due);
    assert_eq!((pod.state_of("db"), pod.due()), (State::Started, None));
    // A new gate reports before the time limit, so the kubelet's status belongs to an earlier incarnation.
    let mut pod = new_pod(false, GATES);
    pod.on_report("db", directory_state(Report { epoch: "e0".to_owned(), ..opened("t1") }, false), now());
    pod.receive_status("db", running("d1", true));
    pod.receive_report("db", Some(waiting("t2", &[])));
    pod.apply_time_limits(later());
    assert_eq!(pod.state_of("db"), State::Waiting);
}

#[test]
fn gate_waits_for_a_pod_update_when_the_pod_is_stale() {
    let mut pod = new_pod(false, r#"[{"name":"db"},{"name":"api","mode":"entrypoint","until":["db"]}]"#);
    pod.receive_status("db", running("d1", true));
    pod.is_pod_stale = true;
    pod.receive_report("api", Some(waiting("t2", &["db"])));
    assert_eq!(pod.confirmed_ticket_of("api"), None);
    pod.receive_status("db", running("d1", true));
    assert_eq!(pod.confirmed_ticket_of("api").as_deref(), Some("t2"));
}

/// A tether and an old report do not show that the `exec` probe still passes.
#[test]
fn gate_needs_the_kubelet_status_of_an_exec_probe_when_the_pod_is_stale() {
    let list = r#"[{"name":"db","readinessProbe":{"exec":{"command":["x"]}}},{"name":"api","mode":"entrypoint","until":["db"]}]"#;
    for (is_ready, known) in [(true, None), (false, None), (true, Some(true)), (false, Some(true))] {
        let mut pod = new_pod(false, list);
        pod.receive_status("db", running("d1", false));
        pod.on_report("db", directory_state(Report { check_passed: true, ..opened("t1") }, true), now());
        pod.on_kubelet_ready("db", known);
        assert_eq!(pod.state_of("db"), State::Ready);
        pod.is_pod_stale = true;
        pod.receive_report("api", Some(waiting("t2", &["db"])));
        assert_eq!(pod.confirmed_ticket_of("api"), None);
        pod.receive_status("db", running("d1", is_ready));
        let state = if is_ready { State::Ready } else { State::NotReady };
        let ticket = is_ready.then(|| "t2".to_owned());
        assert_eq!((pod.confirmed_ticket_of("api"), pod.state_of("db")), (ticket, state));
    }
}

#[test]
fn tether_ends_the_wait_for_the_kubelet() {
    let mut pod = new_pod(false, GATES);
    let old = Report { epoch: "e0".to_owned(), ..opened("t1") };
    pod.on_report("db", directory_state(old.clone(), false), now());
    pod.receive_status("db", running("d1", true));
    pod.on_report("db", directory_state(old.clone(), true), now());
    assert_eq!((pod.state_of("db"), pod.due()), (State::Started, None));
    pod.on_report("db", directory_state(old, false), later());
    assert_eq!(pod.state_of("db"), State::Failed);
}
