//! When a gate is told that it has been heard, and what an open one is worth.

use super::*;

#[test]
fn behind_a_closed_gate_neither_a_probe_nor_the_kubelet_makes_it_ready() {
    let mut world = world(false, GATES);
    world.hear("db", Some(waiting("t1", &[])));
    world.shows("db", running("d1", true));
    world.probe("db", Word::Passed);
    assert_eq!((world.state_of("db"), world.heard_of("db").as_deref()), (State::Waiting, Some("t1")));
    world.hear("db", Some(opened("t1")));
    assert_eq!((world.state_of("db"), world.heard_of("db")), (State::Ready, None));
}

#[test]
fn an_open_gate_of_an_earlier_epoch_counts_by_its_tether_alone() {
    let old = |report: Report| Report { epoch: "e0".to_owned(), ..report };
    let mut world = world(false, GATES);
    world.hear_folder("db", folder(old(opened("t1")), false), now());
    world.probe("db", Word::Passed);
    assert_eq!(world.state_of("db"), State::Waiting, "it may be a dead one's");
    world.hear_folder("db", folder(old(opened("t1")), true), now());
    assert_eq!(world.state_of("db"), State::Ready);
    world.hear("api", Some(old(waiting("t1", &["db"]))));
    assert_eq!(world.heard_of("api"), None, "it has not reported to this controller");
}

#[test]
fn without_a_tether_it_counts_once_the_kubelet_has_shown_it_running_for_a_while() {
    let mut world = world(false, GATES);
    world.hear_folder("db", folder(Report { epoch: "e0".to_owned(), ..opened("t1") }, false), now());
    world.shows("db", running("d1", true));
    assert!(world.judge().is_none());
    let due = world.due().unwrap();
    world.tick(due);
    assert_eq!((world.state_of("db"), world.due()), (State::Started, None));
    // A gate that reports meanwhile: it was another incarnation that the kubelet showed.
    let mut world = self::world(false, GATES);
    world.hear_folder("db", folder(Report { epoch: "e0".to_owned(), ..opened("t1") }, false), now());
    world.shows("db", running("d1", true));
    world.hear("db", Some(waiting("t2", &[])));
    world.tick(later());
    assert_eq!(world.state_of("db"), State::Waiting);
}

#[test]
fn a_gate_is_heard_when_what_it_waits_for_has_passed_once_more() {
    let mut world = world(false, GATES);
    world.hear("db", Some(opened("t1")));
    world.probe("db", Word::Passed);
    world.hear("api", Some(waiting("t2", &["db"])));
    assert_eq!(world.heard_of("api"), None);
    assert!(world.unconfirmed().contains("db"));
    world.hear_probe("db", Word::Passed, false, now());
    assert_eq!(world.heard_of("api"), None, "a failure that does not count yet is no success");
    world.probe("db", Word::Passed);
    assert_eq!(world.heard_of("api").as_deref(), Some("t2"));
}

#[test]
fn a_gate_whose_predecessor_has_not_passed_is_heard_at_once() {
    let mut world = world(false, GATES);
    world.hear("api", Some(waiting("t2", &["db"])));
    assert_eq!(world.heard_of("api").as_deref(), Some("t2"));
}

#[test]
fn after_a_rest_a_gate_waits_for_the_apis_word_on_what_only_that_can_tell() {
    let mut world = world(false, r#"[{"name":"db"},{"name":"api","mode":"entrypoint","until":["db"]}]"#);
    world.shows("db", running("d1", true));
    world.stop_watching();
    world.hear("api", Some(waiting("t2", &["db"])));
    assert_eq!(world.heard_of("api"), None);
    world.shows("db", running("d1", true));
    assert_eq!(world.heard_of("api").as_deref(), Some("t2"));
}
