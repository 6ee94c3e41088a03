//! When a gate is told that it has been heard, and what an open one is worth.

use super::*;

#[test]
fn behind_a_closed_gate_neither_a_probe_nor_the_kubelet_makes_it_ready() {
    let mut world = new_pod(false, GATES);
    world.receive_report("db", Some(waiting("t1", &[])));
    world.receive_status("db", running("d1", true));
    world.receive_verdict("db", ProbeVerdict::Passed);
    assert_eq!((world.state_of("db"), world.acked_ticket_of("db").as_deref()), (State::Waiting, Some("t1")));
    world.receive_report("db", Some(opened("t1")));
    assert_eq!((world.state_of("db"), world.acked_ticket_of("db")), (State::Ready, None));
}

#[test]
fn an_open_gate_of_an_earlier_epoch_counts_by_its_tether_alone() {
    let old = |report: Report| Report { epoch: "e0".to_owned(), ..report };
    let mut world = new_pod(false, GATES);
    world.on_report("db", folder_state(old(opened("t1")), false), now());
    world.receive_verdict("db", ProbeVerdict::Passed);
    assert_eq!(world.state_of("db"), State::Waiting, "it may be a dead one's");
    world.on_report("db", folder_state(old(opened("t1")), true), now());
    assert_eq!(world.state_of("db"), State::Ready);
    world.receive_report("api", Some(old(waiting("t1", &["db"]))));
    assert_eq!(world.acked_ticket_of("api"), None, "it has not reported to this controller");
}

#[test]
fn without_a_tether_it_counts_once_the_kubelet_has_shown_it_running_for_a_while() {
    let mut world = new_pod(false, GATES);
    world.on_report("db", folder_state(Report { epoch: "e0".to_owned(), ..opened("t1") }, false), now());
    world.receive_status("db", running("d1", true));
    assert!(world.update_snapshot().is_none());
    let due = world.due().unwrap();
    world.tick(due);
    assert_eq!((world.state_of("db"), world.due()), (State::Started, None));
    // A gate that reports meanwhile: it was another incarnation that the kubelet showed.
    let mut world = self::new_pod(false, GATES);
    world.on_report("db", folder_state(Report { epoch: "e0".to_owned(), ..opened("t1") }, false), now());
    world.receive_status("db", running("d1", true));
    world.receive_report("db", Some(waiting("t2", &[])));
    world.tick(later());
    assert_eq!(world.state_of("db"), State::Waiting);
}

#[test]
fn a_gate_is_heard_when_what_it_waits_for_has_passed_once_more() {
    let mut world = new_pod(false, GATES);
    world.receive_report("db", Some(opened("t1")));
    world.receive_verdict("db", ProbeVerdict::Passed);
    world.receive_report("api", Some(waiting("t2", &["db"])));
    assert_eq!(world.acked_ticket_of("api"), None);
    assert!(world.unconfirmed().contains("db"));
    world.on_probe("db", ProbeVerdict::Passed, false, now());
    assert_eq!(world.acked_ticket_of("api"), None, "a failure that does not count yet is no success");
    world.receive_verdict("db", ProbeVerdict::Passed);
    assert_eq!(world.acked_ticket_of("api").as_deref(), Some("t2"));
}

#[test]
fn a_gate_whose_predecessor_has_not_passed_is_heard_at_once() {
    let mut world = new_pod(false, GATES);
    world.receive_report("api", Some(waiting("t2", &["db"])));
    assert_eq!(world.acked_ticket_of("api").as_deref(), Some("t2"));
}

#[test]
fn after_a_rest_a_gate_waits_for_the_apis_word_on_what_only_that_can_tell() {
    let mut world = new_pod(false, r#"[{"name":"db"},{"name":"api","mode":"entrypoint","until":["db"]}]"#);
    world.receive_status("db", running("d1", true));
    world.mark_pod_stale();
    world.receive_report("api", Some(waiting("t2", &["db"])));
    assert_eq!(world.acked_ticket_of("api"), None);
    world.receive_status("db", running("d1", true));
    assert_eq!(world.acked_ticket_of("api").as_deref(), Some("t2"));
}
