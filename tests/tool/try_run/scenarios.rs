//! Runs the scenarios of `tests/common/start_scenarios.rs`. `tests/kubelet/scenario_try.rs` runs them on a kubelet.

#[path = "../../common/start_scenarios.rs"]
mod start_scenarios;

use super::{Machine, QUICK};
use serde_json::json;
pub(super) use start_scenarios::chain;
use start_scenarios::{Scenario, scenarios};

/// Runs the scenario, and compares exit code, events and verdict.
fn check(Scenario { name, pod, faults, code, events, verdict }: Scenario) {
    let machine = Machine::new();
    let flag = |fault: &&str| if fault.starts_with("--") { (*fault).to_owned() } else { format!("--break={fault}") };
    let flags: Vec<String> = faults.iter().map(flag).collect();
    let mut arguments: Vec<&str> = if pod.is_none() { QUICK.to_vec() } else { vec!["--timeout=20s"] };
    // Clap rejects a flag that is given twice.
    arguments
        .retain(|known| !(known.starts_with("--timeout") && flags.iter().any(|flag| flag.starts_with("--timeout"))));
    arguments.extend(flags.iter().map(String::as_str));
    let run = match &pod {
        Some(pod) => machine.run_manifest(pod, &arguments),
        None => machine.run(&arguments),
    };
    assert_eq!(run.code, code, "{name}: {}{}", run.out, run.err);
    run.assert_events(events);
    for expected in verdict {
        assert!(run.out.contains(expected), "{name}: {expected:?} is missing in {}", run.out);
    }
}

#[test]
fn order_with_init_containers_runs_without_them() {
    let mut pod = chain();
    pod["metadata"]["annotations"]["podgate.io/order"] = "setup & mesh, db, absent?, api".into();
    let probe = json!({"tcpSocket": {"port": 15021}});
    pod["spec"]["initContainers"] = json!([
        {"name": "setup", "image": "x"},
        {"name": "mesh", "image": "x", "restartPolicy": "Always", "readinessProbe": probe},
    ]);
    check(Scenario {
        name: "native",
        pod: Some(pod),
        faults: &[],
        code: 0,
        events: &["mesh Ready", "db started", "api started"],
        verdict: &[
            "this run omits init containers, and native sidecars that have no probe or precede an init container",
        ],
    });
}

#[test]
fn events_of_each_scenario_occur_in_order() {
    std::thread::scope(|scope| {
        for scenario in scenarios() {
            scope.spawn(|| check(scenario));
        }
    });
}
