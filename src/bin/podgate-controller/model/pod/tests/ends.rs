//! Tests of container ends and of the incarnations to which the ends belong.

use super::*;

#[test]
fn end_counts_until_the_next_incarnation_reports() {
    let mut pod = new_pod(false, CHAIN);
    pod.receive_report("db", Some(report()));
    pod.receive_verdict("db", ProbeVerdict::Passed);
    pod.receive_status("db", ended("d1", 1));
    assert_eq!(pod.state_of("db"), State::Failed);
    pod.receive_report("db", Some(report()));
    pod.receive_status("db", ended("d1", 1));
    assert_eq!(pod.state_of("db"), State::Started, "the kubelet still shows the old end; probing has restarted");
    pod.receive_status("db", ended("d2", 0));
    assert_eq!(pod.state_of("db"), State::Completed);
}

#[test]
fn released_tether_ends_a_container_and_kubelet_adds_code() {
    let mut pod = new_pod(false, GATES);
    pod.receive_report("db", Some(opened("t1")));
    pod.receive_status("db", running("d1", false));
    pod.on_report("db", directory_state(opened("t1"), false), later());
    assert_eq!(pod.state_of("db"), State::Failed);
    pod.on_pod_update(&pod_facts("db", running("d1", true)), true, later());
    assert_eq!(pod.state_of("db"), State::Failed, "the kubelet does not show the end yet");
    pod.on_pod_update(&pod_facts("db", ended("d1", 0)), true, later());
    assert_eq!(pod.state_of("db"), State::Completed);
    // The report of the next incarnation arrives before the kubelet shows the new start.
    pod.receive_report("db", Some(waiting("t2", &[])));
    pod.on_pod_update(&pod_facts("db", ended("d1", 0)), true, later());
    assert_eq!(pod.state_of("db"), State::Waiting);
    assert_eq!(pod.published.as_ref().unwrap().restarts.get("db"), Some(&1));
}

#[test]
fn late_end_of_an_earlier_incarnation_is_ignored() {
    let mut pod = new_pod(false, GATES);
    pod.receive_report("db", Some(opened("t1")));
    pod.receive_status("db", running("d1", true));
    // The container ended and restarted without an update from the kubelet.
    pod.receive_report("db", Some(waiting("t2", &[])));
    pod.receive_report("db", Some(opened("t2")));
    pod.receive_status("db", ended("d1", 1));
    assert_eq!(pod.state_of("db"), State::Started);
    pod.receive_status("db", running("d2", true));
    pod.receive_status("db", ended("d2", 1));
    assert_eq!(pod.state_of("db"), State::Started, "the container is tethered");
    pod.on_report("db", directory_state(opened("t2"), false), later());
    assert_eq!(pod.state_of("db"), State::Failed);
}

#[test]
fn program_that_closes_its_tether_still_counts_as_running() {
    for (is_listening, at) in [(false, now()), (true, later())] {
        let mut pod = new_pod(false, GATES);
        pod.receive_report("db", Some(opened("t1")));
        pod.receive_verdict("db", ProbeVerdict::Passed);
        pod.on_report("db", DirectoryState { is_listening, ..directory_state(opened("t1"), false) }, at);
        assert_eq!(pod.state_of("db"), State::Ready);
        pod.on_pod_update(&pod_facts("db", ended("d1", 1)), true, later());
        assert_eq!(pod.state_of("db"), State::Failed, "the kubelet reports the end");
    }
}

/// The gate opened in an earlier run of the sidecar, so the program has long closed what it closes at its start.
#[test]
fn drop_of_the_tether_after_a_sidecar_restart_is_an_end() {
    let mut pod = new_pod(true, GATES);
    let report = Report { epoch: "e0".to_owned(), ..opened("t1") };
    pod.on_report("db", directory_state(report.clone(), true), now());
    assert_eq!(pod.state_of("db"), State::Started);
    pod.on_report("db", DirectoryState { is_rewritten: false, ..directory_state(report, false) }, now());
    assert_eq!(pod.state_of("db"), State::Failed);
}

#[test]
fn late_kubelet_status_does_not_revive_an_ended_container() {
    // `was_shown` means that the kubelet has shown the incarnation as running before its end.
    for was_shown in [true, false] {
        let mut pod = new_pod(false, CHAIN);
        if was_shown {
            pod.receive_status("db", running("d1", true));
        }
        pod.on_report("db", directory_state(report(), true), now());
        pod.on_report("db", DirectoryState { is_rewritten: false, ..directory_state(report(), false) }, now());
        // A status can also be that of a run whose end the agent has shown. Each start of a hook is reported.
        for (id, at) in [("d1", now()), ("d1", later()), ("d2", later())] {
            pod.on_pod_update(&pod_facts("db", running(id, true)), true, at);
            assert_eq!(pod.state_of("db"), State::Failed, "{id}");
        }
        pod.on_report("db", directory_state(report(), true), later());
        assert_eq!(pod.state_of("db"), State::Started);
    }
}

#[test]
fn container_outside_the_order_can_report_neither_end_nor_gate() {
    let mut pod = new_pod(false, CHAIN);
    for lie in [
        Report { exit_code: Some(1), ..report() },
        Report { exit_code: Some(1), ..opened("t1") },
        waiting("t2", &["db"]),
    ] {
        pod.receive_report("web", Some(lie.clone()));
        assert!(!pod.state_of("web").has_ended(), "{lie:?}");
        assert_eq!(pod.confirmed_ticket_of("web"), None);
        pod.on_report("web", directory_state(lie, false), later());
        assert!(!pod.state_of("web").has_ended());
    }
    pod.receive_report("db", Some(Report { exit_code: Some(1), ..report() }));
    assert_eq!(pod.state_of("db"), State::Started, "a hook cannot report an exit code");
}

/// After the loss of a sandbox, the API still shows the ends of containers in the old sandbox.
#[test]
fn end_in_an_earlier_sandbox_is_ignored() {
    let at = |seconds| Some(std::time::UNIX_EPOCH + Duration::from_secs(seconds));
    let completed = |id: &str, started| Kubelet { ended_run_started_at: at(started), ..ended(id, 0) };
    let of = |id, started, own| PodFacts { own_started_at: at(own), ..pod_facts("db", completed(id, started)) };
    let facts = |started, own| of("d1", started, own);
    let mut pod = new_pod(false, CHAIN);
    pod.on_pod_update(&facts(100, 200), true, now());
    assert!(pod.update_snapshot(now()).is_none());
    pod.on_pod_update(&facts(100, 200), true, now());
    assert_eq!(pod.state_of("db"), State::Waiting);
    // Only the first status can show an end of an earlier sandbox. This start looks older because of a clock step.
    pod.on_pod_update(&of("d2", 150, 200), true, now());
    assert_eq!(pod.state_of("db"), State::Completed);
    // A restarted sidecar in the same sandbox reads the sandbox's start time from the board.
    for (started, expected) in [(150, State::Completed), (90, State::Waiting)] {
        let mut pod = new_pod(true, CHAIN);
        pod.sandbox_started_at = at(100);
        pod.on_pod_update(&facts(started, 200), true, now());
        assert_eq!(pod.state_of("db"), expected, "{started}");
    }
}

/// An idle sidecar gets no status from the kubelet. The end of an incarnation can therefore arrive after the gate of
/// the next incarnation has opened.
#[test]
fn earlier_end_does_not_stop_an_untethered_program() {
    let mut pod = new_pod(false, GATES);
    pod.receive_report("db", Some(opened("t1")));
    pod.receive_report("db", Some(waiting("t2", &[])));
    pod.receive_report("db", Some(opened("t2")));
    pod.on_report("db", DirectoryState { is_rewritten: false, ..directory_state(opened("t2"), false) }, now());
    pod.receive_status("db", ended("d1", 137));
    assert_eq!(pod.state_of("db"), State::Failed, "the end may belong to this incarnation");
    pod.receive_status("db", running("d2", true));
    assert_eq!(pod.state_of("db"), State::Waiting);
    pod.apply_time_limits(pod.due().unwrap());
    assert_eq!(pod.state_of("db"), State::Started);
}

#[test]
fn reported_exit_code_ends_the_container() {
    let mut pod = new_pod(false, GATES);
    pod.receive_report("db", Some(opened("t1")));
    pod.receive_report("db", Some(Report { exit_code: Some(0), ..opened("t1") }));
    assert_eq!(pod.state_of("db"), State::Completed);
    pod.on_report("db", directory_state(Report { exit_code: Some(0), ..opened("t1") }, false), later());
    assert_eq!(pod.state_of("db"), State::Completed);
}

#[test]
fn tether_of_a_hook_shows_end_and_restart_without_kubelet() {
    let mut pod = new_pod(false, CHAIN);
    pod.on_report("db", directory_state(report(), true), now());
    pod.receive_verdict("db", ProbeVerdict::Passed);
    assert_eq!(pod.state_of("db"), State::Ready);
    pod.on_report("db", DirectoryState { is_rewritten: false, ..directory_state(report(), false) }, now());
    assert_eq!(pod.state_of("db"), State::Failed);
    pod.on_report("db", DirectoryState { is_rewritten: false, ..directory_state(report(), true) }, now());
    assert_eq!(pod.state_of("db"), State::Started);
    // The last report of a preStop hook and the container's end can arrive together.
    pod.on_report("db", directory_state(Report { stopping: PreStopState::Finished, ..report() }, false), now());
    assert_eq!(pod.state_of("db"), State::Failed);
}

#[test]
fn stopping_container_is_published_until_its_restart() {
    let mut pod = new_pod(false, CHAIN);
    pod.receive_report("db", Some(Report { stopping: PreStopState::Begun, ..report() }));
    assert!(pod.update_snapshot(now()).unwrap().stopping.contains("db"));
    pod.receive_status("db", ended("d1", 0));
    pod.receive_report("db", Some(report()));
    assert!(pod.update_snapshot(now()).unwrap().stopping.is_empty());
}

/// The board says without the API if an end is final: from the policy, the rules and the reported exit code. A killed
/// agent reports no exit code.
#[test]
fn declared_policy_and_rules_determine_if_an_end_is_final() {
    let killed = || opened("t1");
    let parent = |exit_code| Report { is_parent: true, exit_code, ..opened("t1") };
    let rules = r#","restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"In","values":[42]}}]"#;
    for (policy, rules, last, expected) in [
        ("OnFailure", "", parent(Some(0)), "final"),
        ("OnFailure", "", parent(Some(1)), "restarts"),
        ("OnFailure", "", parent(None), "restarts"),
        ("OnFailure", "", killed(), "unknown"),
        ("Never", "", parent(Some(1)), "final"),
        ("Never", "", killed(), "unknown"),
        ("Never", rules, parent(Some(1)), "final"),
        ("Never", rules, parent(Some(42)), "restarts"),
        ("Never", rules, parent(None), "final"),
        ("Never", rules, killed(), "unknown"),
        ("Always", "", killed(), "restarts"),
    ] {
        let list = format!(r#"[{{"name":"app","mode":"entrypoint","restartPolicy":"{policy}"{rules}}}]"#);
        let mut pod = new_pod(false, &list);
        pod.receive_report("app", Some(Report { exit_code: None, ..last.clone() }));
        pod.on_report("app", directory_state(last.clone(), false), later());
        assert!(pod.state_of("app").has_ended());
        let board = pod.published.clone().unwrap();
        let end = match (board.has_ended_for_good("app"), board.restarting.contains("app")) {
            (true, false) => "final",
            (false, true) => "restarts",
            (false, false) => "unknown",
            (true, true) => "both",
        };
        assert_eq!(end, expected, "{policy} {rules} {last:?}");
        // The next start of the gate is no end any more.
        pod.receive_report("app", Some(opened("t2")));
        pod.update_snapshot(later());
        let board = pod.published.clone().unwrap();
        assert!(board.restarting.is_empty() && !board.has_ended_for_good("app"));
    }
}

/// The kubelet shows no reason while it pulls the image for a restart, or an error that passes by itself.
#[test]
fn container_restarts_even_if_the_kubelet_shows_no_back_off() {
    let mut pod = new_pod(false, r#"[{"name":"app","mode":"entrypoint","restartPolicy":"OnFailure"}]"#);
    pod.receive_report("app", Some(opened("t1")));
    pod.receive_status("app", running("a1", true));
    pod.on_report("app", directory_state(opened("t1"), false), later());
    for status in [ended("a1", 1), Kubelet::default()] {
        pod.receive_status("app", status);
        assert_eq!(pod.state_of("app"), State::Failed);
        let board = pod.published.clone().unwrap();
        assert!(board.restarting.contains("app") && board.stuck.is_empty());
    }
}
