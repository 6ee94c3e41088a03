//! How a Pod comes up, with hooks and without.

use super::*;

#[test]
fn starts_with_everything_waiting_and_a_higher_revision() {
    let world = new_pod(false, CHAIN);
    let first = world.published.as_ref().unwrap();
    assert_eq!((first.revision, first.phase), (5, Phase::Starting));
    assert!(first.states.values().all(|state| *state == State::Waiting));
    assert_eq!(first.order, ["db", "api", "web"]);
}

#[test]
fn a_chain_becomes_ready_one_after_the_other() {
    let mut world = new_pod(false, CHAIN);
    world.receive_verdict("db", ProbeVerdict::Passed);
    assert!(world.update_snapshot().is_none(), "a probe that passes before the container has started is a neighbour's");
    world.receive_report("db", Some(report()));
    assert_eq!(world.state_of("db"), State::Ready);
    assert!(!world.may_run(&world.tracks()[1]), "api has not reported");
    world.receive_report("api", Some(report()));
    assert_eq!((world.state_of("api"), world.phase()), (State::Started, Phase::Starting));
    world.receive_verdict("api", ProbeVerdict::Passed);
    world.update_snapshot();
    assert!(world.may_run(&world.tracks()[2]), "nothing holds web back any more");
    world.receive_status("web", running("w1", false));
    world.receive_verdict("web", ProbeVerdict::Passed);
    assert_eq!((world.phase(), world.may_idle()), (Phase::Started, true));
}

#[test]
fn a_hook_that_has_only_reported_does_not_make_the_pod_started() {
    let mut world = new_pod(false, CHAIN);
    for name in ["db", "api"] {
        world.receive_report(name, Some(report()));
    }
    world.receive_verdict("db", ProbeVerdict::Passed);
    assert_eq!(world.phase(), Phase::Starting, "api's hook must hold web back");
}

#[test]
fn reports_of_another_sandbox_or_epoch_do_not_count() {
    let mut world = new_pod(false, CHAIN);
    world.receive_verdict("db", ProbeVerdict::Passed);
    for stale in [
        Report { epoch: "e0".to_owned(), ..report() },
        Report { sandbox: Some("3f2a9c1e-4098-1a0c5f3b".parse().unwrap()), ..report() },
        Report { sandbox: None, ..report() },
    ] {
        world.receive_report("db", Some(stale));
        assert!(world.update_snapshot().is_none());
    }
}

#[test]
fn only_a_report_that_says_something_new_is_news() {
    let mut world = new_pod(false, CHAIN);
    assert!(!world.receive_report("db", None));
    assert!(!world.receive_report("db", Some(Report { epoch: "e0".to_owned(), ..report() })));
    assert!(!world.receive_report("nobody", Some(report())));
    assert!(world.receive_report("db", Some(report())));
    assert!(!world.receive_report("db", Some(report())));
    world.receive_status("db", ended("d1", 1));
    assert!(world.receive_report("db", Some(report())), "it lives again");
}

#[test]
fn the_kubelets_ready_opens_nothing_that_can_be_probed() {
    let mut world = new_pod(false, CHAIN);
    world.receive_status("db", running("d1", true));
    assert_eq!(world.state_of("db"), State::Started);
}

#[test]
fn a_status_from_before_our_own_start_says_nothing() {
    let mut world = new_pod(false, r#"[{"name":"db","mode":"post-start"}]"#);
    world.on_pod_update(&pod_facts("db", running("d1", true)), false, now());
    assert!(world.update_snapshot().is_none());
    world.receive_status("db", running("d1", true));
    assert_eq!(world.state_of("db"), State::Ready, "no probe: started is ready");
}

#[test]
fn after_a_restart_of_the_controller_what_answers_is_believed_without_reports() {
    let mut world = new_pod(true, CHAIN);
    for name in ["db", "api", "web"] {
        world.receive_verdict(name, ProbeVerdict::Passed);
    }
    assert_eq!(world.phase(), Phase::Started);
}

#[test]
fn without_the_api_the_hooks_alone_make_the_pod_started() {
    let mut world = new_pod(false, r#"[{"name":"db","mode":"post-start"},{"name":"web"}]"#);
    world.receive_report("db", Some(report()));
    assert_eq!(world.phase(), Phase::Started);
}

#[test]
fn deletion_alone_terminates() {
    let mut world = new_pod(false, CHAIN);
    world.on_pod_update(&PodFacts { is_deleting: true, ..PodFacts::default() }, false, now());
    assert_eq!(world.phase(), Phase::Terminating);
}

#[test]
fn exec_probes_are_reported_or_vetted() {
    let exec = r#"[{"name":"db","mode":"post-start","readinessProbe":{"exec":{"command":["x"]}}}]"#;
    let mut world = new_pod(false, exec);
    world.receive_report("db", Some(report()));
    assert_eq!(world.state_of("db"), State::Started);
    world.receive_status("db", running("d1", true));
    assert!(world.update_snapshot().is_none(), "the kubelet's word has not been vetted");
    world.on_kubelet_ready("db", Some(true));
    assert_eq!(world.state_of("db"), State::Ready);
}

#[test]
fn what_the_kubelet_calls_stuck_is_published() {
    let mut world = new_pod(false, CHAIN);
    let word = Kubelet { stuck_reason: Some("ImagePullBackOff".to_owned()), ..Kubelet::default() };
    world.receive_status("api", word);
    let snapshot = world.update_snapshot().unwrap();
    assert_eq!(snapshot.stuck.get("api").map(String::as_str), Some("ImagePullBackOff"));
}
