//! Tests of states that a user sets with override annotations.

use super::*;

fn override_of_db() -> Annotations {
    Annotations::from([("override.podgate.io/db".to_owned(), format!("Ready@{SANDBOX_ID}"))])
}

#[test]
fn only_an_override_for_this_sandbox_applies() {
    let mut pod = new_pod(false, CHAIN);
    let overrides = |value: &str| Annotations::from([("override.podgate.io/db".to_owned(), value.to_owned())]);
    for bad in ["Ready", "Ready@", "Ready@0-0-0", "Ready@3f2a9c1e-4098-1a0c5f3b", "Open@3f2a9c1e-4097-1a0c5f3b"] {
        pod.on_overrides(&overrides(bad));
        assert!(pod.update_snapshot(now()).is_none(), "{bad}");
    }
    pod.on_overrides(&overrides("Ready@3f2a9c1e-4097-1a0c5f3b"));
    assert_eq!(pod.state_of("db"), State::Ready);
    // Without a unique part in its sandbox id, the sidecar cannot tell whether an override comes from the Pod template
    // or from the user.
    for id in ["0-0-0", "3f2a9c1e-0-0"] {
        let mut pod = PodModel::new(id.parse().unwrap(), Epoch { id: "e1".to_owned(), is_resumed: false }, 4);
        pod.set_containers(podgate::core::container_list::parse_list(CHAIN).unwrap());
        pod.on_overrides(&overrides(&format!("Ready@{id}")));
        assert_eq!(pod.state_of("db"), State::Waiting);
    }
}

#[test]
fn override_applies_at_once_and_until_it_is_removed() {
    let mut pod = new_pod(false, GATES);
    pod.receive_report("db", Some(opened("t1")));
    pod.receive_verdict("db", ProbeVerdict::Passed);
    pod.receive_report("api", Some(waiting("t2", &["db"])));
    assert_eq!(pod.confirmed_ticket_of("api"), None, "db has passed and needs one more probe");
    pod.on_overrides(&override_of_db());
    assert_eq!((pod.confirmed_ticket_of("api").as_deref(), pod.state_of("db")), (Some("t2"), State::Ready));
    pod.on_overrides(&Annotations::new());
    pod.receive_verdict("db", ProbeVerdict::Failing);
    assert_eq!(pod.state_of("db"), State::NotReady);
}

#[test]
fn override_prevents_idle_and_needs_a_fresh_pod() {
    let mut pod = new_pod(false, r#"[{"name":"db"},{"name":"api","mode":"entrypoint","until":["db"]}]"#);
    pod.receive_status("db", running("d1", true));
    pod.receive_report("api", Some(opened("t1")));
    pod.update_snapshot(now());
    assert!(pod.may_idle());
    pod.on_overrides(&override_of_db());
    pod.update_snapshot(now());
    assert!(!pod.may_idle());

    pod.is_pod_stale = true;
    pod.receive_report("api", Some(waiting("t2", &["db"])));
    assert_eq!(pod.confirmed_ticket_of("api"), None, "the override may have been removed");
    let facts = PodFacts { annotations: override_of_db(), ..pod_facts("db", running("d1", true)) };
    pod.on_pod_update(&facts, true, now());
    assert_eq!(pod.confirmed_ticket_of("api").as_deref(), Some("t2"));
}
