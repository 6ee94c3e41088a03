//! Tests of faults: `try` waits for each fault that can still occur before it gives the verdict.

use super::verdicts::{assert_outcome, pod};
use super::{Machine, QUICK, scenarios};
use serde_json::json;

/// If a gate exits after its time limit, this exit does not count as the fault.
#[test]
fn crash_is_awaited_after_other_ends() {
    let mut own = scenarios::chain();
    for container in own["spec"]["containers"].as_array_mut().unwrap() {
        container["readinessProbe"] = json!({"exec": {"command": ["x"]}, "periodSeconds": 1});
    }
    own["metadata"]["annotations"]["podgate.io/timeout"] = "400ms".into();
    let flags = ["--ready=db=800ms", "--break=web@crash:2500ms", "--timeout=20s"];
    own["spec"]["containers"].as_array_mut().unwrap().remove(1);
    own["metadata"]["annotations"]["podgate.io/order"] = "db, web".into();
    let run = Machine::new().run_manifest(&own, &flags);
    assert_outcome(&run, 0, &["exit code 75", "web was restarted twice (exit code 75, exit code 1)."]);
}

/// A container that has ended and does not restart cannot have a fault any more.
#[test]
fn ended_container_is_not_awaited() {
    let mut own = pod("migrate=Completed, api", &[("migrate", json!({})), ("api", json!({}))]);
    own["spec"]["restartPolicy"] = "Never".into();
    let flags = ["--break=migrate@crash:1h", "--break=migrate@kill:1h", "--timeout=1m"];
    let run = Machine::new().run_manifest(&own, &flags);
    assert_outcome(&run, 0, &["The order was kept", "after migrate had exited with 0"]);
    assert!(!run.out.contains("is killed"), "{}", run.out);
}

/// `try` must not inject a fault that is due after the verdict, because the fault could no longer change the verdict.
#[test]
fn no_fault_occurs_after_the_verdict() {
    let flags = ["--break=web@kill:5s", "--timeout=4s", "--stop"];
    let run = Machine::new().run(&[&QUICK[..3], &flags].concat());
    assert_outcome(&run, 0, &["The order was kept"]);
    assert!(!run.out.contains("is killed"), "{}", run.out);
}
