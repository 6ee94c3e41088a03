use super::*;
use podgate::core::probe::Word;

const HERE: &str = "3f2a9c1e-4097-1a0c5f3b";

fn world(resumed: bool, json: &str) -> World {
    let mut world = World::new(HERE.parse().unwrap(), "e1".to_owned(), 4, resumed);
    world.declare(podgate::core::container::parse_list(json).unwrap());
    world.judge();
    world
}

const CHAIN: &str = r#"[
    {"name":"db","mode":"post-start","readinessProbe":{"tcpSocket":{"port":1}}},
    {"name":"api","mode":"post-start","readinessProbe":{"tcpSocket":{"port":2}}},
    {"name":"web","readinessProbe":{"tcpSocket":{"port":3}}}]"#;

fn report() -> Report {
    Report { sandbox: Some(HERE.parse().unwrap()), epoch: "e1".to_owned(), started: true, ..Report::default() }
}

fn state(world: &World, name: &str) -> State {
    world.tracks().iter().find(|track| track.declared.name == name).unwrap().state()
}

fn kubelet(name: &str, word: Kubelet) -> Facts {
    Facts { words: [(name.to_owned(), word)].into(), ..Facts::default() }
}

fn running(id: &str, ready: bool) -> Kubelet {
    Kubelet { running: Some(id.to_owned()), ready, started: true, ..Kubelet::default() }
}

fn ended(id: &str, code: i32) -> Kubelet {
    Kubelet { ended: Some((id.to_owned(), code)), ..Kubelet::default() }
}

fn phase(world: &World) -> Phase {
    world.published.as_ref().unwrap().phase
}

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
    world.hear_probe("db", Word::Passed);
    assert!(world.judge().is_none(), "a probe that passes before the container has started is a neighbour's");
    world.hear_report("db", Some(report()));
    world.judge();
    assert_eq!(state(&world, "db"), State::Ready);
    assert!(!world.may_run(&world.tracks()[1]), "api has not reported");
    world.hear_report("api", Some(report()));
    world.judge();
    assert_eq!((state(&world, "api"), phase(&world)), (State::Started, Phase::Starting));
    world.hear_probe("api", Word::Passed);
    world.judge();
    assert!(world.may_run(&world.tracks()[2]), "nothing holds web back any more");
    world.hear_kubelet(&kubelet("web", running("w1", false)), true);
    world.hear_probe("web", Word::Passed);
    world.judge();
    assert_eq!((phase(&world), world.is_settled()), (Phase::Started, true));
}

#[test]
fn a_hook_that_has_only_reported_does_not_make_the_pod_started() {
    let mut world = world(false, CHAIN);
    for name in ["db", "api"] {
        world.hear_report(name, Some(report()));
    }
    world.hear_probe("db", Word::Passed);
    world.judge();
    assert_eq!(phase(&world), Phase::Starting, "api's hook must hold web back");
}

#[test]
fn reports_of_another_sandbox_or_epoch_do_not_count() {
    let mut world = world(false, CHAIN);
    world.hear_probe("db", Word::Passed);
    for stale in [
        Report { epoch: "e0".to_owned(), ..report() },
        Report { sandbox: Some("3f2a9c1e-4098-1a0c5f3b".parse().unwrap()), ..report() },
        Report { sandbox: None, ..report() },
    ] {
        world.hear_report("db", Some(stale));
        assert!(world.judge().is_none());
    }
}

#[test]
fn only_a_report_that_says_something_new_is_news() {
    let mut world = world(false, CHAIN);
    assert!(!world.hear_report("db", None));
    assert!(!world.hear_report("db", Some(Report { epoch: "e0".to_owned(), ..report() })));
    assert!(!world.hear_report("nobody", Some(report())));
    assert!(world.hear_report("db", Some(report())));
    assert!(!world.hear_report("db", Some(report())));
    world.hear_kubelet(&kubelet("db", ended("d1", 1)), true);
    assert!(world.hear_report("db", Some(report())), "it lives again");
}

#[test]
fn the_kubelets_ready_opens_nothing_that_can_be_probed() {
    let mut world = world(false, CHAIN);
    world.hear_kubelet(&kubelet("db", running("d1", true)), true);
    world.judge();
    assert_eq!(state(&world, "db"), State::Started);
}

#[test]
fn a_status_from_before_our_own_start_says_nothing() {
    let mut world = world(false, r#"[{"name":"db","mode":"post-start"}]"#);
    world.hear_kubelet(&kubelet("db", running("d1", true)), false);
    assert!(world.judge().is_none());
    world.hear_kubelet(&kubelet("db", running("d1", true)), true);
    world.judge();
    assert_eq!(state(&world, "db"), State::Ready, "no probe: started is ready");
}

#[test]
fn an_end_counts_until_the_next_incarnation_reports_though_the_kubelet_still_shows_it() {
    let mut world = world(false, CHAIN);
    world.hear_report("db", Some(report()));
    world.hear_probe("db", Word::Passed);
    world.hear_kubelet(&kubelet("db", ended("d1", 1)), true);
    world.judge();
    assert_eq!(state(&world, "db"), State::Failed);
    world.hear_report("db", Some(report()));
    world.hear_kubelet(&kubelet("db", ended("d1", 1)), true);
    world.judge();
    assert_eq!(state(&world, "db"), State::Started, "and its probes start anew");
    world.hear_kubelet(&kubelet("db", ended("d2", 0)), true);
    world.judge();
    assert_eq!(state(&world, "db"), State::Completed);
}

#[test]
fn after_a_restart_of_the_controller_what_answers_is_believed_without_reports() {
    let mut world = world(true, CHAIN);
    for name in ["db", "api", "web"] {
        world.hear_probe(name, Word::Passed);
    }
    world.judge();
    assert_eq!(phase(&world), Phase::Started);
}

#[test]
fn without_the_api_the_hooks_alone_make_the_pod_started() {
    let mut world = world(false, r#"[{"name":"db","mode":"post-start"},{"name":"web"}]"#);
    world.hear_report("db", Some(report()));
    world.judge();
    assert_eq!(phase(&world), Phase::Started);
}

#[test]
fn deletion_alone_terminates() {
    let mut world = world(false, CHAIN);
    world.hear_kubelet(&Facts { deleting: true, ..Facts::default() }, false);
    world.judge();
    assert_eq!(phase(&world), Phase::Terminating);
}

#[test]
fn exec_probes_are_reported_or_vetted() {
    let exec = r#"[{"name":"db","mode":"post-start","readinessProbe":{"exec":{"command":["x"]}}}]"#;
    let mut world = world(false, exec);
    world.hear_report("db", Some(report()));
    world.judge();
    assert_eq!(state(&world, "db"), State::Started);
    world.hear_kubelet(&kubelet("db", running("d1", true)), true);
    assert!(world.judge().is_none(), "the kubelet's word has not been vetted");
    world.hear_vetted("db", Some(true));
    world.judge();
    assert_eq!(state(&world, "db"), State::Ready);
}

#[test]
fn an_override_for_this_sandbox_opens_and_any_other_does_not() {
    let mut world = world(false, CHAIN);
    let overrides = |value: &str| Annotations::from([("override.podgate.io/db".to_owned(), value.to_owned())]);
    for bad in ["Ready", "Ready@", "Ready@0-0-0", "Ready@3f2a9c1e-4098-1a0c5f3b", "Open@3f2a9c1e-4097-1a0c5f3b"] {
        world.hear_overrides(&overrides(bad));
        assert!(world.judge().is_none(), "{bad}");
    }
    world.hear_overrides(&overrides("Ready@3f2a9c1e-4097-1a0c5f3b"));
    world.judge();
    assert_eq!(state(&world, "db"), State::Ready);
}

#[test]
fn what_the_kubelet_calls_stuck_is_published() {
    let mut world = world(false, CHAIN);
    let word = Kubelet { stuck: Some("ImagePullBackOff".to_owned()), ..Kubelet::default() };
    world.hear_kubelet(&kubelet("api", word), true);
    let snapshot = world.judge().unwrap();
    assert_eq!(snapshot.stuck.get("api").map(String::as_str), Some("ImagePullBackOff"));
}
