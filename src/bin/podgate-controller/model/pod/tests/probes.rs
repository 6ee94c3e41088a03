//! Tests of reports by `podgate probe`, in containers without a gate.

use super::*;
use podgate::core::report::Process;

const WRAPPED: &str = r#"[
    {"name":"db","readinessProbe":{"exec":{"command":["x"]}}},
    {"name":"api","mode":"hold","until":["db"],"readinessProbe":{"exec":{"command":["x"]}}}]"#;

/// Returns the report of a probe in the incarnation whose first process started at `start_ticks`.
fn probe(start_ticks: u64, check_passed: bool) -> Report {
    Report { process: Some(Process { pid: 1, start_ticks }), check_passed, ..report() }
}

#[test]
fn passed_probe_is_known_before_the_kubelet_status() {
    let mut pod = new_pod(false, WRAPPED);
    pod.receive_report("db", Some(probe(1, false)));
    assert_eq!(pod.state_of("db"), State::Started);
    pod.on_kubelet_ready("db", Some(false));
    pod.receive_report("db", Some(probe(1, true)));
    assert_eq!(
        [pod.state_of("db"), pod.state_of("db")],
        [State::Ready; 2],
        "the kubelet's older status does not count"
    );
    pod.on_kubelet_ready("db", Some(true));
    assert_eq!(pod.state_of("db"), State::Ready);
    pod.on_kubelet_ready("db", Some(false));
    assert_eq!(pod.state_of("db"), State::NotReady);
    pod.on_kubelet_ready("db", Some(true));
    assert_eq!(pod.state_of("db"), State::Ready);
}

#[test]
fn failing_probe_withdraws_its_pass() {
    let mut pod = new_pod(false, WRAPPED);
    for (passes, state) in [(true, State::Ready), (false, State::NotReady), (true, State::Ready)] {
        pod.receive_report("db", Some(probe(1, passes)));
        assert_eq!(pod.state_of("db"), state);
    }
}

/// The kubelet shows "not ready" when the sidecar wakes. The probe itself reports each result, so this is not the last
/// word.
#[test]
fn wrapped_probe_decides_after_an_idle_time() {
    let list = WRAPPED.replace(r#""name":"db","#, r#""name":"db","reportsStart":true,"#);
    let mut pod = new_pod(false, &list);
    pod.receive_report("db", Some(probe(1, true)));
    assert_eq!(pod.state_of("db"), State::Ready);
    pod.is_pod_stale = true;
    pod.receive_status("db", running("d1", false));
    assert_eq!(pod.state_of("db"), State::Ready);
}

/// The gate has become the command, so the probe adds its results to the gate's report.
#[test]
fn wrapped_probe_reports_for_a_gate() {
    let mut pod =
        new_pod(false, &WRAPPED.replace(r#""name":"db","#, r#""name":"db","mode":"entrypoint","reportsStart":true,"#));
    let report = |check_passed, check_fails| Report { check_passed, check_fails, ..opened("t1") };
    for (passed, fails, state) in [
        (false, false, State::Started),
        (true, false, State::Ready),
        (false, true, State::NotReady),
        (true, false, State::Ready),
    ] {
        pod.receive_report("db", Some(report(passed, fails)));
        assert_eq!(pod.state_of("db"), state);
    }
}

#[test]
fn lost_first_run_of_a_wrapped_probe_is_repeated_once() {
    let list = WRAPPED.replace(r#""name":"db","#, r#""name":"db","reportsStart":true,"#);
    let of_gate = list.replace(r#""name":"db","#, r#""name":"db","mode":"entrypoint","#);
    for (list, has_run) in [(&list, false), (&list, true), (&of_gate, false), (&of_gate, true)] {
        let mut pod = new_pod(false, list);
        if list == &of_gate {
            pod.receive_report(
                "db",
                Some(Report { process: Some(Process { pid: 1, start_ticks: 1 }), ..opened("t1") }),
            );
        }
        pod.receive_status("db", running("d1", false));
        assert!(!pod.take_lost_probe_request(now()));
        if has_run && list == &of_gate {
            pod.receive_report("db", Some(Report { check_passed: true, ..opened("t1") }));
        } else if has_run {
            pod.receive_report("db", Some(probe(1, false)));
        }
        let at = now() + Duration::from_secs(1);
        assert_eq!(pod.due().is_some_and(|due| due <= at), !has_run);
        assert_eq!([pod.take_lost_probe_request(at), pod.take_lost_probe_request(at)], [!has_run, false]);
    }
}

#[test]
fn passed_probe_does_not_outlive_its_incarnation() {
    for statuses in [vec![ended("d1", 1), running("d2", false)], vec![running("d2", false)]] {
        let mut pod = new_pod(false, WRAPPED);
        pod.receive_status("db", running("d1", false));
        pod.receive_report("db", Some(probe(1, true)));
        assert_eq!(pod.state_of("db"), State::Ready);
        statuses.into_iter().for_each(|status| pod.receive_status("db", status));
        assert_eq!(pod.state_of("db"), State::Started);
        // The sidecar reads the same file again when the tether changes.
        let again = DirectoryState { is_rewritten: false, ..directory_state(probe(1, true), false) };
        pod.on_report("db", again, now());
        assert_eq!(pod.state_of("db"), State::Started);
        pod.receive_report("db", Some(probe(2, false)));
        assert_eq!(pod.state_of("db"), State::Started);
        pod.receive_report("db", Some(probe(2, true)));
        assert_eq!((pod.state_of("db"), pod.track("db").unwrap().restarts), (State::Ready, 1));
        pod.receive_status("db", ended("d2", 1));
        assert_eq!(pod.state_of("db"), State::Failed);
        pod.receive_status("db", running("d3", false));
        assert_eq!(pod.state_of("db"), State::Started);
    }
}

#[test]
fn report_of_another_first_process_is_a_restart() {
    let mut pod = new_pod(false, WRAPPED);
    pod.receive_status("db", running("d1", false));
    pod.receive_report("db", Some(probe(1, true)));
    assert_eq!(pod.state_of("db"), State::Ready);
    pod.receive_report("db", Some(probe(2, false)));
    assert_eq!(pod.state_of("db"), State::Started);
    pod.receive_report("db", Some(probe(2, true)));
    assert_eq!(pod.state_of("db"), State::Ready);
    // The kubelet's statuses of this restart arrive later.
    pod.receive_status("db", ended("d1", 1));
    pod.receive_status("db", running("d2", false));
    assert_eq!((pod.state_of("db"), pod.track("db").unwrap().restarts), (State::Ready, 1));
}

#[test]
fn container_without_exec_probe_cannot_report_a_passed_probe() {
    let mut pod = new_pod(
        false,
        r#"[{"name":"db","readinessProbe":{"tcpSocket":{"port":1}}},{"name":"api","mode":"hold","until":["db"]}]"#,
    );
    pod.receive_report("db", Some(probe(1, true)));
    assert_eq!(pod.state_of("db"), State::Waiting);
}

#[test]
fn startup_probe_of_a_gate_passes_once_in_each_incarnation() {
    let mut pod = new_pod(
        false,
        r#"[{"name":"api","mode":"entrypoint","startupProbe":{"grpc":{"port":1}},"readinessProbe":{"tcpSocket":{"port":2}}},
        {"name":"web","mode":"none","startupProbe":{"grpc":{"port":3}}}]"#,
    );
    let result = |pod: &mut PodModel| {
        pod.update_snapshot(now());
        pod.published.as_ref().unwrap().startup.get("api").cloned()
    };
    let passed = || Some(("t1".to_owned(), true));
    let gate = |ticket: &str, gate| Report { ticket: Some(ticket.to_owned()), gate: Some(gate), ..report() };
    pod.receive_report("api", Some(gate("t1", GateState::Opened)));
    assert_eq!((pod.state_of("api"), result(&mut pod)), (State::Started, None));
    for name in ["api", "web"] {
        pod.on_probe(name, ProbeVerdict::StartupPassed, true, now());
    }
    assert_eq!((pod.state_of("api"), result(&mut pod)), (State::Started, passed()));
    pod.on_probe("api", ProbeVerdict::Passed, true, now());
    assert_eq!((pod.state_of("api"), result(&mut pod)), (State::Ready, passed()));
    pod.on_probe("api", ProbeVerdict::Failing, false, now());
    assert_eq!(result(&mut pod), passed());
    pod.receive_report("api", Some(gate("t2", GateState::Waiting)));
    assert_eq!((pod.state_of("api"), result(&mut pod)), (State::Waiting, None));
    // A startupProbe that has failed too often is final, because the kubelet then restarts the container.
    pod.receive_report("api", Some(gate("t2", GateState::Opened)));
    for verdict in [ProbeVerdict::StartupFailed, ProbeVerdict::Passed] {
        pod.on_probe("api", verdict, verdict == ProbeVerdict::Passed, now());
        assert_eq!((pod.state_of("api"), result(&mut pod)), (State::Started, Some(("t2".to_owned(), false))));
    }
}
