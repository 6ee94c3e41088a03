//! States that an operator sets by hand.

use super::*;

fn override_of_db() -> Annotations {
    Annotations::from([("override.podgate.io/db".to_owned(), format!("Ready@{HERE}"))])
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
    assert_eq!(world.state_of("db"), State::Ready);
}

#[test]
fn an_override_opens_a_gate_at_once_and_closes_it_again_when_it_is_taken_back() {
    let mut world = world(false, GATES);
    world.hear("db", Some(opened("t1")));
    world.probe("db", Word::Passed);
    world.hear("api", Some(waiting("t2", &["db"])));
    assert_eq!(world.heard_of("api"), None, "db has passed, and is to be asked once more");
    world.hear_overrides(&override_of_db());
    assert_eq!((world.heard_of("api").as_deref(), world.state_of("db")), (Some("t2"), State::Ready));
    world.hear_overrides(&Annotations::new());
    world.probe("db", Word::Failing);
    assert_eq!(world.state_of("db"), State::NotReady);
}

#[test]
fn while_an_override_is_in_force_the_controller_does_not_rest_and_at_rest_an_old_one_opens_nothing() {
    let mut world = world(false, r#"[{"name":"db"},{"name":"api","mode":"entrypoint","until":["db"]}]"#);
    world.shows("db", running("d1", true));
    world.hear("api", Some(opened("t1")));
    world.judge();
    assert!(world.is_settled());
    world.hear_overrides(&override_of_db());
    world.judge();
    assert!(!world.is_settled());

    world.stop_watching();
    world.hear("api", Some(waiting("t2", &["db"])));
    assert_eq!(world.heard_of("api"), None, "it may have been taken back since");
    let facts = Facts { annotations: override_of_db(), ..kubelet("db", running("d1", true)) };
    world.hear_kubelet(&facts, true, now());
    assert_eq!(world.heard_of("api").as_deref(), Some("t2"));
}
