//! How a Pod comes up, with hooks and without.

use super::*;

#[test]
fn starts_with_everything_waiting_and_a_higher_revision() {
    let world = world(false, CHAIN);
    let first = world.published.as_ref().unwrap();
    assert_eq!((first.revision, first.phase), (5, Phase::Starting));
    assert!(first.states.values().all(|state| *state == State::Waiting));
    assert_eq!(first.order, ["db", "api", "web"]);
}

#[test]
fn a_chain_becomes_ready_one_after_the_other() {
    let mut world = world(false, CHAIN);
    world.probe("db", Word::Passed);
    assert!(world.judge().is_none(), "a probe that passes before the container has started is a neighbour's");
    world.hear("db", Some(report()));
    assert_eq!(world.state_of("db"), State::Ready);
    assert!(!world.may_run(&world.tracks()[1]), "api has not reported");
    world.hear("api", Some(report()));
    assert_eq!((world.state_of("api"), world.phase()), (State::Started, Phase::Starting));
    world.probe("api", Word::Passed);
    world.judge();
    assert!(world.may_run(&world.tracks()[2]), "nothing holds web back any more");
    world.shows("web", running("w1", false));
    world.probe("web", Word::Passed);
    assert_eq!((world.phase(), world.is_settled()), (Phase::Started, true));
}

#[test]
fn a_hook_that_has_only_reported_does_not_make_the_pod_started() {
    let mut world = world(false, CHAIN);
    for name in ["db", "api"] {
        world.hear(name, Some(report()));
    }
    world.probe("db", Word::Passed);
    assert_eq!(world.phase(), Phase::Starting, "api's hook must hold web back");
}

#[test]
fn reports_of_another_sandbox_or_epoch_do_not_count() {
    let mut world = world(false, CHAIN);
    world.probe("db", Word::Passed);
    for stale in [
        Report { epoch: "e0".to_owned(), ..report() },
        Report { sandbox: Some("3f2a9c1e-4098-1a0c5f3b".parse().unwrap()), ..report() },
        Report { sandbox: None, ..report() },
    ] {
        world.hear("db", Some(stale));
        assert!(world.judge().is_none());
    }
}

#[test]
fn only_a_report_that_says_something_new_is_news() {
    let mut world = world(false, CHAIN);
    assert!(!world.hear("db", None));
    assert!(!world.hear("db", Some(Report { epoch: "e0".to_owned(), ..report() })));
    assert!(!world.hear("nobody", Some(report())));
    assert!(world.hear("db", Some(report())));
    assert!(!world.hear("db", Some(report())));
    world.shows("db", ended("d1", 1));
    assert!(world.hear("db", Some(report())), "it lives again");
}

#[test]
fn the_kubelets_ready_opens_nothing_that_can_be_probed() {
    let mut world = world(false, CHAIN);
    world.shows("db", running("d1", true));
    assert_eq!(world.state_of("db"), State::Started);
}

#[test]
fn a_status_from_before_our_own_start_says_nothing() {
    let mut world = world(false, r#"[{"name":"db","mode":"post-start"}]"#);
    world.hear_kubelet(&kubelet("db", running("d1", true)), false, now());
    assert!(world.judge().is_none());
    world.shows("db", running("d1", true));
    assert_eq!(world.state_of("db"), State::Ready, "no probe: started is ready");
}

#[test]
fn after_a_restart_of_the_controller_what_answers_is_believed_without_reports() {
    let mut world = world(true, CHAIN);
    for name in ["db", "api", "web"] {
        world.probe(name, Word::Passed);
    }
    assert_eq!(world.phase(), Phase::Started);
}

#[test]
fn without_the_api_the_hooks_alone_make_the_pod_started() {
    let mut world = world(false, r#"[{"name":"db","mode":"post-start"},{"name":"web"}]"#);
    world.hear("db", Some(report()));
    assert_eq!(world.phase(), Phase::Started);
}

#[test]
fn deletion_alone_terminates() {
    let mut world = world(false, CHAIN);
    world.hear_kubelet(&Facts { deleting: true, ..Facts::default() }, false, now());
    assert_eq!(world.phase(), Phase::Terminating);
}

#[test]
fn exec_probes_are_reported_or_vetted() {
    let exec = r#"[{"name":"db","mode":"post-start","readinessProbe":{"exec":{"command":["x"]}}}]"#;
    let mut world = world(false, exec);
    world.hear("db", Some(report()));
    assert_eq!(world.state_of("db"), State::Started);
    world.shows("db", running("d1", true));
    assert!(world.judge().is_none(), "the kubelet's word has not been vetted");
    world.hear_vetted("db", Some(true));
    assert_eq!(world.state_of("db"), State::Ready);
}

#[test]
fn what_the_kubelet_calls_stuck_is_published() {
    let mut world = world(false, CHAIN);
    let word = Kubelet { stuck: Some("ImagePullBackOff".to_owned()), ..Kubelet::default() };
    world.shows("api", word);
    let snapshot = world.judge().unwrap();
    assert_eq!(snapshot.stuck.get("api").map(String::as_str), Some("ImagePullBackOff"));
}
