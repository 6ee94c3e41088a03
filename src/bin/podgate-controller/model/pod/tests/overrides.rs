//! States that an operator sets by hand.

use super::*;

fn override_of_db() -> Annotations {
    Annotations::from([("override.podgate.io/db".to_owned(), format!("Ready@{SANDBOX_ID}"))])
}

#[test]
fn an_override_for_this_sandbox_opens_and_any_other_does_not() {
    let mut world = new_pod(false, CHAIN);
    let overrides = |value: &str| Annotations::from([("override.podgate.io/db".to_owned(), value.to_owned())]);
    for bad in ["Ready", "Ready@", "Ready@0-0-0", "Ready@3f2a9c1e-4098-1a0c5f3b", "Open@3f2a9c1e-4097-1a0c5f3b"] {
        world.on_overrides(&overrides(bad));
        assert!(world.update_snapshot().is_none(), "{bad}");
    }
    world.on_overrides(&overrides("Ready@3f2a9c1e-4097-1a0c5f3b"));
    assert_eq!(world.state_of("db"), State::Ready);
}

#[test]
fn an_override_opens_a_gate_at_once_and_closes_it_again_when_it_is_taken_back() {
    let mut world = new_pod(false, GATES);
    world.receive_report("db", Some(opened("t1")));
    world.receive_verdict("db", ProbeVerdict::Passed);
    world.receive_report("api", Some(waiting("t2", &["db"])));
    assert_eq!(world.acked_ticket_of("api"), None, "db has passed, and is to be asked once more");
    world.on_overrides(&override_of_db());
    assert_eq!((world.acked_ticket_of("api").as_deref(), world.state_of("db")), (Some("t2"), State::Ready));
    world.on_overrides(&Annotations::new());
    world.receive_verdict("db", ProbeVerdict::Failing);
    assert_eq!(world.state_of("db"), State::NotReady);
}

#[test]
fn while_an_override_is_in_force_the_controller_does_not_rest_and_at_rest_an_old_one_opens_nothing() {
    let mut world = new_pod(false, r#"[{"name":"db"},{"name":"api","mode":"entrypoint","until":["db"]}]"#);
    world.receive_status("db", running("d1", true));
    world.receive_report("api", Some(opened("t1")));
    world.update_snapshot();
    assert!(world.may_idle());
    world.on_overrides(&override_of_db());
    world.update_snapshot();
    assert!(!world.may_idle());

    world.mark_pod_stale();
    world.receive_report("api", Some(waiting("t2", &["db"])));
    assert_eq!(world.acked_ticket_of("api"), None, "it may have been taken back since");
    let facts = PodFacts { annotations: override_of_db(), ..pod_facts("db", running("d1", true)) };
    world.on_pod_update(&facts, true, now());
    assert_eq!(world.acked_ticket_of("api").as_deref(), Some("t2"));
}
