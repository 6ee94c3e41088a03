use super::*;
use crate::clock::now;
use crate::input::observe::Word as Kubelet;
use podgate::core::probe::Word;
use podgate::core::report::{Gate, Report};
use std::time::Duration;

const HERE: &str = "3f2a9c1e-4097-1a0c5f3b";

fn world(resumed: bool, json: &str) -> World {
    let mut world = World::new(HERE.parse().unwrap(), "e1".to_owned(), 4, resumed);
    world.declare(podgate::core::containers::parse_list(json).unwrap());
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

/// What lies in its folder: this report, and a tether if the report is a gate's.
fn hear(world: &mut World, name: &str, report: Option<Report>) -> bool {
    let held = report.as_ref().is_some_and(|report| report.ticket.is_some());
    world.hear_folder(name, Folder { report, rewritten: true, held, listens: false }, now())
}

fn probe(world: &mut World, name: &str, word: Word) {
    world.hear_probe(name, word, word == Word::Passed, now());
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
    probe(&mut world, "db", Word::Passed);
    assert!(world.judge().is_none(), "a probe that passes before the container has started is a neighbour's");
    hear(&mut world, "db", Some(report()));
    world.judge();
    assert_eq!(state(&world, "db"), State::Ready);
    assert!(!world.may_run(&world.tracks()[1]), "api has not reported");
    hear(&mut world, "api", Some(report()));
    world.judge();
    assert_eq!((state(&world, "api"), phase(&world)), (State::Started, Phase::Starting));
    probe(&mut world, "api", Word::Passed);
    world.judge();
    assert!(world.may_run(&world.tracks()[2]), "nothing holds web back any more");
    world.hear_kubelet(&kubelet("web", running("w1", false)), true, now());
    probe(&mut world, "web", Word::Passed);
    world.judge();
    assert_eq!((phase(&world), world.is_settled()), (Phase::Started, true));
}

#[test]
fn a_hook_that_has_only_reported_does_not_make_the_pod_started() {
    let mut world = world(false, CHAIN);
    for name in ["db", "api"] {
        hear(&mut world, name, Some(report()));
    }
    probe(&mut world, "db", Word::Passed);
    world.judge();
    assert_eq!(phase(&world), Phase::Starting, "api's hook must hold web back");
}

#[test]
fn reports_of_another_sandbox_or_epoch_do_not_count() {
    let mut world = world(false, CHAIN);
    probe(&mut world, "db", Word::Passed);
    for stale in [
        Report { epoch: "e0".to_owned(), ..report() },
        Report { sandbox: Some("3f2a9c1e-4098-1a0c5f3b".parse().unwrap()), ..report() },
        Report { sandbox: None, ..report() },
    ] {
        hear(&mut world, "db", Some(stale));
        assert!(world.judge().is_none());
    }
}

#[test]
fn only_a_report_that_says_something_new_is_news() {
    let mut world = world(false, CHAIN);
    assert!(!hear(&mut world, "db", None));
    assert!(!hear(&mut world, "db", Some(Report { epoch: "e0".to_owned(), ..report() })));
    assert!(!hear(&mut world, "nobody", Some(report())));
    assert!(hear(&mut world, "db", Some(report())));
    assert!(!hear(&mut world, "db", Some(report())));
    world.hear_kubelet(&kubelet("db", ended("d1", 1)), true, now());
    assert!(hear(&mut world, "db", Some(report())), "it lives again");
}

#[test]
fn the_kubelets_ready_opens_nothing_that_can_be_probed() {
    let mut world = world(false, CHAIN);
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Started);
}

#[test]
fn a_status_from_before_our_own_start_says_nothing() {
    let mut world = world(false, r#"[{"name":"db","mode":"post-start"}]"#);
    world.hear_kubelet(&kubelet("db", running("d1", true)), false, now());
    assert!(world.judge().is_none());
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Ready, "no probe: started is ready");
}

#[test]
fn an_end_counts_until_the_next_incarnation_reports_though_the_kubelet_still_shows_it() {
    let mut world = world(false, CHAIN);
    hear(&mut world, "db", Some(report()));
    probe(&mut world, "db", Word::Passed);
    world.hear_kubelet(&kubelet("db", ended("d1", 1)), true, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Failed);
    hear(&mut world, "db", Some(report()));
    world.hear_kubelet(&kubelet("db", ended("d1", 1)), true, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Started, "and its probes start anew");
    world.hear_kubelet(&kubelet("db", ended("d2", 0)), true, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Completed);
}

#[test]
fn after_a_restart_of_the_controller_what_answers_is_believed_without_reports() {
    let mut world = world(true, CHAIN);
    for name in ["db", "api", "web"] {
        probe(&mut world, name, Word::Passed);
    }
    world.judge();
    assert_eq!(phase(&world), Phase::Started);
}

#[test]
fn without_the_api_the_hooks_alone_make_the_pod_started() {
    let mut world = world(false, r#"[{"name":"db","mode":"post-start"},{"name":"web"}]"#);
    hear(&mut world, "db", Some(report()));
    world.judge();
    assert_eq!(phase(&world), Phase::Started);
}

#[test]
fn deletion_alone_terminates() {
    let mut world = world(false, CHAIN);
    world.hear_kubelet(&Facts { deleting: true, ..Facts::default() }, false, now());
    world.judge();
    assert_eq!(phase(&world), Phase::Terminating);
}

#[test]
fn exec_probes_are_reported_or_vetted() {
    let exec = r#"[{"name":"db","mode":"post-start","readinessProbe":{"exec":{"command":["x"]}}}]"#;
    let mut world = world(false, exec);
    hear(&mut world, "db", Some(report()));
    world.judge();
    assert_eq!(state(&world, "db"), State::Started);
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
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

fn override_of_db() -> Annotations {
    Annotations::from([("override.podgate.io/db".to_owned(), format!("Ready@{HERE}"))])
}

#[test]
fn an_override_opens_a_gate_at_once_and_closes_it_again_when_it_is_taken_back() {
    let mut world = world(false, GATES);
    hear(&mut world, "db", Some(opened("t1")));
    probe(&mut world, "db", Word::Passed);
    hear(&mut world, "api", Some(waiting("t2", &["db"])));
    world.judge();
    assert_eq!(heard(&world, "api"), None, "db has passed, and is to be asked once more");
    world.hear_overrides(&override_of_db());
    world.judge();
    assert_eq!((heard(&world, "api").as_deref(), state(&world, "db")), (Some("t2"), State::Ready));
    world.hear_overrides(&Annotations::new());
    probe(&mut world, "db", Word::Failing);
    world.judge();
    assert_eq!(state(&world, "db"), State::NotReady);
}

#[test]
fn while_an_override_is_in_force_the_controller_does_not_rest_and_at_rest_an_old_one_opens_nothing() {
    let mut world = world(false, r#"[{"name":"db"},{"name":"api","mode":"entrypoint","until":["db"]}]"#);
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
    hear(&mut world, "api", Some(opened("t1")));
    world.judge();
    assert!(world.is_settled());
    world.hear_overrides(&override_of_db());
    world.judge();
    assert!(!world.is_settled());

    world.stop_watching();
    hear(&mut world, "api", Some(waiting("t2", &["db"])));
    world.judge();
    assert_eq!(heard(&world, "api"), None, "it may have been taken back since");
    let facts = Facts { annotations: override_of_db(), ..kubelet("db", running("d1", true)) };
    world.hear_kubelet(&facts, true, now());
    world.judge();
    assert_eq!(heard(&world, "api").as_deref(), Some("t2"));
}

#[test]
fn what_the_kubelet_calls_stuck_is_published() {
    let mut world = world(false, CHAIN);
    let word = Kubelet { stuck: Some("ImagePullBackOff".to_owned()), ..Kubelet::default() };
    world.hear_kubelet(&kubelet("api", word), true, now());
    let snapshot = world.judge().unwrap();
    assert_eq!(snapshot.stuck.get("api").map(String::as_str), Some("ImagePullBackOff"));
}

const GATES: &str = r#"[
    {"name":"db","mode":"entrypoint","readinessProbe":{"tcpSocket":{"port":1}}},
    {"name":"api","mode":"entrypoint","until":["db"],"readinessProbe":{"tcpSocket":{"port":2}}}]"#;

fn waiting(ticket: &str, until: &[&str]) -> Report {
    let waiting_for = until.iter().map(|text| text.parse().unwrap()).collect();
    let (gate, ticket) = (Some(Gate::Waiting), Some(ticket.to_owned()));
    Report { gate, ticket, waiting_for, started: false, ..report() }
}

fn opened(ticket: &str) -> Report {
    Report { gate: Some(Gate::Opened), started: true, ..waiting(ticket, &[]) }
}

fn folder(report: Report, held: bool) -> Folder {
    Folder { report: Some(report), rewritten: true, held, listens: false }
}

fn heard(world: &World, name: &str) -> Option<String> {
    world.published.as_ref().unwrap().heard.get(name).cloned()
}

/// Long after whatever was said before.
fn later() -> Instant {
    now() + Duration::from_secs(60)
}

#[test]
fn behind_a_closed_gate_neither_a_probe_nor_the_kubelet_makes_it_ready() {
    let mut world = world(false, GATES);
    hear(&mut world, "db", Some(waiting("t1", &[])));
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
    probe(&mut world, "db", Word::Passed);
    world.judge();
    assert_eq!((state(&world, "db"), heard(&world, "db").as_deref()), (State::Waiting, Some("t1")));
    hear(&mut world, "db", Some(opened("t1")));
    world.judge();
    assert_eq!((state(&world, "db"), heard(&world, "db")), (State::Ready, None));
}

#[test]
fn a_tether_that_drops_is_the_containers_end_and_the_kubelet_adds_the_code() {
    let mut world = world(false, GATES);
    hear(&mut world, "db", Some(opened("t1")));
    world.hear_kubelet(&kubelet("db", running("d1", false)), true, now());
    world.hear_folder("db", folder(opened("t1"), false), later());
    world.judge();
    assert_eq!(state(&world, "db"), State::Failed);
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, later());
    world.judge();
    assert_eq!(state(&world, "db"), State::Failed, "the kubelet is late");
    world.hear_kubelet(&kubelet("db", ended("d1", 0)), true, later());
    world.judge();
    assert_eq!(state(&world, "db"), State::Completed);
    // The next incarnation, of whose start the kubelet has not spoken yet.
    hear(&mut world, "db", Some(waiting("t2", &[])));
    world.hear_kubelet(&kubelet("db", ended("d1", 0)), true, later());
    world.judge();
    assert_eq!(state(&world, "db"), State::Waiting);
    assert_eq!(world.published.as_ref().unwrap().restarts.get("db"), Some(&1));
}

#[test]
fn an_earlier_incarnations_end_that_comes_late_is_not_this_ones() {
    let mut world = world(false, GATES);
    hear(&mut world, "db", Some(opened("t1")));
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
    // It died and came again before anybody looked.
    hear(&mut world, "db", Some(waiting("t2", &[])));
    hear(&mut world, "db", Some(opened("t2")));
    world.hear_kubelet(&kubelet("db", ended("d1", 1)), true, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Started);
    world.hear_kubelet(&kubelet("db", running("d2", true)), true, now());
    world.hear_kubelet(&kubelet("db", ended("d2", 1)), true, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Failed);
}

#[test]
fn a_program_that_lets_go_of_its_tether_is_not_taken_for_dead() {
    for (listens, at) in [(false, now()), (true, later())] {
        let mut world = world(false, GATES);
        hear(&mut world, "db", Some(opened("t1")));
        probe(&mut world, "db", Word::Passed);
        world.hear_folder("db", Folder { listens, ..folder(opened("t1"), false) }, at);
        world.judge();
        assert_eq!(state(&world, "db"), State::Ready);
        world.hear_kubelet(&kubelet("db", ended("d1", 1)), true, later());
        world.judge();
        assert_eq!(state(&world, "db"), State::Failed, "the kubelet knows");
    }
}

#[test]
fn a_kubelet_that_is_late_does_not_bring_a_dead_one_back() {
    // It has, or has not, shown the incarnation before that ended.
    for shown in [true, false] {
        let mut world = world(false, CHAIN);
        if shown {
            world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
        }
        world.hear_folder("db", folder(report(), true), now());
        world.hear_folder("db", Folder { rewritten: false, ..folder(report(), false) }, now());
        for at in [now(), later()] {
            world.hear_kubelet(&kubelet("db", running("d1", true)), true, at);
            world.judge();
            assert_eq!(state(&world, "db"), State::Failed);
        }
        world.hear_kubelet(&kubelet("db", running("d2", true)), true, later());
        world.judge();
        assert_eq!(state(&world, "db"), State::Started);
    }
}

/// What it writes into its own folder makes nobody else's hook end, and holds nobody else up.
#[test]
fn who_takes_no_part_in_the_order_can_not_claim_an_end_or_a_gate() {
    let mut world = world(false, CHAIN);
    for lie in [
        Report { exit_code: Some(1), ..report() },
        Report { exit_code: Some(1), ..opened("t1") },
        waiting("t2", &["db"]),
    ] {
        hear(&mut world, "web", Some(lie.clone()));
        world.judge();
        assert!(!state(&world, "web").has_ended(), "{lie:?}");
        assert_eq!(heard(&world, "web"), None);
        world.hear_folder("web", folder(lie, false), later());
        world.judge();
        assert!(!state(&world, "web").has_ended());
    }
    hear(&mut world, "db", Some(Report { exit_code: Some(1), ..report() }));
    world.judge();
    assert_eq!(state(&world, "db"), State::Started, "a hook knows of no exit code");
}

/// After the loss of a sandbox the API shows how the containers ended in the one before.
#[test]
fn an_end_of_an_earlier_sandbox_is_none() {
    let at = |seconds| Some(std::time::UNIX_EPOCH + Duration::from_secs(seconds));
    let completed = |started| Kubelet { ended_started: at(started), ..ended("d1", 0) };
    let facts = |started, own| Facts { own_start: at(own), ..kubelet("db", completed(started)) };
    let mut world = world(false, CHAIN);
    world.hear_kubelet(&facts(100, 200), true, now());
    assert!(world.judge().is_none());
    world.hear_kubelet(&facts(201, 200), true, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Completed);
    // A controller that is started again in the same sandbox knows when that began.
    for (started, state_is) in [(150, State::Completed), (90, State::Waiting)] {
        let mut world = self::world(true, CHAIN);
        world.resume_since(at(100).unwrap());
        world.hear_kubelet(&facts(started, 200), true, now());
        world.judge();
        assert_eq!(state(&world, "db"), state_is, "{started}");
    }
}

#[test]
fn an_open_gate_of_an_earlier_epoch_counts_by_its_tether_alone() {
    let old = |report: Report| Report { epoch: "e0".to_owned(), ..report };
    let mut world = world(false, GATES);
    world.hear_folder("db", folder(old(opened("t1")), false), now());
    probe(&mut world, "db", Word::Passed);
    world.judge();
    assert_eq!(state(&world, "db"), State::Waiting, "it may be a dead one's");
    world.hear_folder("db", folder(old(opened("t1")), true), now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Ready);
    hear(&mut world, "api", Some(old(waiting("t1", &["db"]))));
    world.judge();
    assert_eq!(heard(&world, "api"), None, "it has not reported to this controller");
}

#[test]
fn without_a_tether_it_counts_once_the_kubelet_has_shown_it_running_for_a_while() {
    let mut world = world(false, GATES);
    world.hear_folder("db", folder(Report { epoch: "e0".to_owned(), ..opened("t1") }, false), now());
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
    assert!(world.judge().is_none());
    let due = world.due().unwrap();
    world.tick(due);
    world.judge();
    assert_eq!((state(&world, "db"), world.due()), (State::Started, None));
    // A gate that reports meanwhile: it was another incarnation that the kubelet showed.
    let mut world = self::world(false, GATES);
    world.hear_folder("db", folder(Report { epoch: "e0".to_owned(), ..opened("t1") }, false), now());
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
    hear(&mut world, "db", Some(waiting("t2", &[])));
    world.tick(later());
    world.judge();
    assert_eq!(state(&world, "db"), State::Waiting);
}

/// At rest nobody hears the kubelet: the end of the incarnation before is heard only after the next one's gate has opened.
#[test]
fn an_end_that_was_an_earlier_ones_does_not_stick_to_a_program_without_a_tether() {
    let mut world = world(false, GATES);
    hear(&mut world, "db", Some(opened("t1")));
    hear(&mut world, "db", Some(waiting("t2", &[])));
    hear(&mut world, "db", Some(opened("t2")));
    world.hear_folder("db", Folder { rewritten: false, ..folder(opened("t2"), false) }, now());
    world.hear_kubelet(&kubelet("db", ended("d1", 137)), true, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Failed, "it may be this one's");
    world.hear_kubelet(&kubelet("db", running("d2", true)), true, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Waiting);
    world.tick(world.due().unwrap());
    world.judge();
    assert_eq!(state(&world, "db"), State::Started);
}

#[test]
fn a_gate_is_heard_when_what_it_waits_for_has_passed_once_more() {
    let mut world = world(false, GATES);
    hear(&mut world, "db", Some(opened("t1")));
    probe(&mut world, "db", Word::Passed);
    hear(&mut world, "api", Some(waiting("t2", &["db"])));
    world.judge();
    assert_eq!(heard(&world, "api"), None);
    assert!(world.unconfirmed().contains("db"));
    world.hear_probe("db", Word::Passed, false, now());
    world.judge();
    assert_eq!(heard(&world, "api"), None, "a failure that does not count yet is no success");
    probe(&mut world, "db", Word::Passed);
    world.judge();
    assert_eq!(heard(&world, "api").as_deref(), Some("t2"));
}

#[test]
fn a_gate_whose_predecessor_has_not_passed_is_heard_at_once() {
    let mut world = world(false, GATES);
    hear(&mut world, "api", Some(waiting("t2", &["db"])));
    world.judge();
    assert_eq!(heard(&world, "api").as_deref(), Some("t2"));
}

#[test]
fn after_a_rest_a_gate_waits_for_the_apis_word_on_what_only_that_can_tell() {
    let mut world = world(false, r#"[{"name":"db"},{"name":"api","mode":"entrypoint","until":["db"]}]"#);
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
    world.stop_watching();
    hear(&mut world, "api", Some(waiting("t2", &["db"])));
    world.judge();
    assert_eq!(heard(&world, "api"), None);
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
    world.judge();
    assert_eq!(heard(&world, "api").as_deref(), Some("t2"));
}

#[test]
fn a_parents_exit_code_is_the_containers_end() {
    let mut world = world(false, GATES);
    hear(&mut world, "db", Some(opened("t1")));
    hear(&mut world, "db", Some(Report { exit_code: Some(0), ..opened("t1") }));
    world.judge();
    assert_eq!(state(&world, "db"), State::Completed);
    world.hear_folder("db", folder(Report { exit_code: Some(0), ..opened("t1") }, false), later());
    world.judge();
    assert_eq!(state(&world, "db"), State::Completed);
}

#[test]
fn a_hooks_tether_tells_the_end_under_a_freeze_and_the_next_ones_tells_the_new_start() {
    let mut world = world(false, CHAIN);
    world.hear_folder("db", folder(report(), true), now());
    probe(&mut world, "db", Word::Passed);
    world.judge();
    assert_eq!(state(&world, "db"), State::Ready);
    world.hear_folder("db", Folder { rewritten: false, ..folder(report(), false) }, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Failed);
    world.hear_folder("db", Folder { rewritten: false, ..folder(report(), true) }, now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Started);
}

/// The preStop hook's last word and the end that follows it can be found by one look.
#[test]
fn a_last_word_does_not_bring_a_dead_one_back() {
    let mut world = world(false, CHAIN);
    world.hear_folder("db", folder(report(), true), now());
    probe(&mut world, "db", Word::Passed);
    world.judge();
    assert_eq!(state(&world, "db"), State::Ready);
    world.hear_folder("db", folder(Report { stopping: Stopping::Over, ..report() }, false), now());
    world.judge();
    assert_eq!(state(&world, "db"), State::Failed);
}

#[test]
fn who_stops_is_published_until_it_starts_again() {
    let mut world = world(false, CHAIN);
    hear(&mut world, "db", Some(Report { stopping: Stopping::Begun, ..report() }));
    assert!(world.judge().unwrap().stopping.contains("db") && world.stopping() == 1);
    world.hear_kubelet(&kubelet("db", running("d1", true)), true, now());
    world.hear_kubelet(&kubelet("db", running("d2", true)), true, now());
    assert!(world.judge().unwrap().stopping.is_empty());
}
