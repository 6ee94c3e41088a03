//! Tests of faults. `try` rejects a fault that cannot occur as a usage error. If a fault did not occur, `try` reports the
//! reason.

use super::verdicts::{assert_outcome, pod};
use super::{Machine, QUICK, scenarios, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Read;
use std::time::Duration;

/// A Pod, its faults, and the faults that do not occur, each with the reason.
type Case<'a> = (&'a Value, &'a [&'a str], &'a [(&'a str, &'a str)]);

/// Returns a Pod that does not restart. `migrate` exits with 0 after 0.8 s. Then `api` starts.
fn migration(order: &str) -> Value {
    let mut pod = pod(order, &[("migrate", json!({})), ("api", json!({}))]);
    pod["spec"]["restartPolicy"] = "Never".into();
    pod
}

/// Returns the chain of `db`, `api` and `web`, with probes.
fn probed() -> Value {
    let mut pod = scenarios::chain();
    for container in pod["spec"]["containers"].as_array_mut().unwrap() {
        container["readinessProbe"] = json!({"exec": {"command": ["x"]}, "periodSeconds": 1});
    }
    pod
}

#[test]
fn faults_that_did_not_occur_exit_with_4_and_a_reason() {
    let completed = migration("migrate=Completed, api");
    let exited = migration("migrate=Exited, api");
    let mut job = scenarios::chain();
    job["metadata"]["annotations"] =
        json!({"podgate.io/order": "db, api=Completed, web", "podgate.io/job-sidecars": "db"});
    job["spec"]["restartPolicy"] = "Never".into();
    let ended = "migrate had ended (exit code 0).";
    let cases: &[Case<'_>] = &[
        // The container ends before the fault.
        (&completed, &["migrate@crash:4s"], &[("migrate@crash:4s", ended)]),
        (&completed, &["migrate@kill:15s"], &[("migrate@kill:15s", ended)]),
        (&completed, &["migrate@crash:1h", "api@kill:3s"], &[("migrate@crash:1h", ended)]),
        (
            &exited,
            &["migrate@crash:100ms", "migrate@kill:15s"],
            &[("migrate@kill:15s", "migrate had ended (exit code 1).")],
        ),
        (
            &exited,
            &["migrate@slow:1s", "migrate@crash:100ms"],
            &[("migrate@slow:1s", "migrate had ended (exit code 1).")],
        ),
        (&exited, &["migrate@slow:2s", "migrate@kill:1s"], &[("migrate@slow:2s", "migrate had ended (SIGKILL).")]),
        (&job, &["db@crash:1h"], &[("db@crash:1h", "db had ended (exit code 0).")]),
        // The run ends before the fault.
        (&probed(), &["api@crash:1m"], &[("api@crash:1m", "the run ended first.")]),
        (&probed(), &["web@kill:1m"], &[("web@kill:1m", "the run ended first.")]),
        (&probed(), &["sidecar@kill:1m"], &[("sidecar@kill:1m", "the run ended first.")]),
        (&probed(), &["api@kill:1s", "api@kill:1h"], &[("api@kill:1h", "the run ended first.")]),
        // The container does not start.
        (&probed(), &["db@never", "api@crash:1ms"], &[("api@crash:1ms", "api did not start.")]),
        (&probed(), &["db@never", "api@never"], &[("api@never", "api did not start.")]),
        (
            &probed(),
            &["db@never", "web@slow:1ms", "api@slow:1ms"],
            &[("web@slow:1ms", "web did not start."), ("api@slow:1ms", "api did not start.")],
        ),
    ];
    std::thread::scope(|scope| {
        // With more runs at the same time, containers would start late.
        for part in 0..3 {
            scope.spawn(move || cases.iter().skip(part).step_by(3).for_each(|case| assert_missing(*case)));
        }
    });
}

fn assert_missing((pod, faults, missing): Case<'_>) {
    let flags: Vec<String> = faults.iter().map(|fault| format!("--break={fault}")).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["--timeout=6s"]).collect();
    let run = Machine::new().run_manifest(pod, &flags);
    assert_eq!(run.out.matches("did not occur").count(), missing.len(), "{flags:?}: {}", run.out);
    for (fault, why) in missing {
        let sentence = format!("- --break {fault} did not occur: {why}");
        assert_outcome(&run, 4, &["Some faults of Pod/chain did not happen", &sentence]);
    }
    assert!(!run.out.contains("The order was kept"), "{}", run.out);
}

#[test]
fn faults_that_cannot_occur_are_wrong_flags() {
    let mut unprobed = scenarios::chain();
    unprobed["metadata"]["annotations"]["podgate.io/order"] = "db=Completed, api, web".into();
    unprobed["spec"]["restartPolicy"] = "Never".into();
    let no_probe = "api has no startupProbe and no readinessProbe, so it is Ready once it runs";
    for (pod, flags, expected) in [
        (&unprobed, &["--ready=api=1s"][..], format!("--ready api: {no_probe}; add a probe, or omit the flag")),
        (&unprobed, &["--break=api@never"], format!("--break api@never: {no_probe}")),
        (&unprobed, &["--break=api@slow:1s"], format!("--break api@slow:1s: {no_probe}")),
        (
            &probed(),
            &["--break=api@slow:1s", "--break=api@never"],
            "--break api@slow:1s and --break api@never exclude each other; omit one".to_owned(),
        ),
        (
            &probed(),
            &["--break=api@slow:1s", "--break=db@never", "--break=api@slow:2s"],
            "--break api@slow:1s and --break api@slow:2s exclude each other".to_owned(),
        ),
        (&probed(), &["--break=api@never", "--break=api@never"], "exclude each other".to_owned()),
        (&probed(), &["--break=api@crash:1s", "--break=api@crash:2s"], "exclude each other".to_owned()),
    ] {
        let run = Machine::new().run_manifest(pod, flags);
        assert_eq!((run.code, run.out.as_str(), run.err.lines().count()), (64, "", 1), "{flags:?}: {run:?}");
        assert!(run.err.contains(&expected), "{expected:?} is missing in {}", run.err);
    }
    // A delay has an effect on a container that others wait for, even without a probe.
    let run = Machine::new().run_manifest(&unprobed, &["--ready=db=1s", "--timeout=10s"]);
    assert_outcome(&run, 0, &["The order was kept"]);
}

/// If a gate exits after its time limit, this exit does not count as the fault.
#[test]
fn crash_is_awaited_after_other_ends() {
    let mut own = probed();
    own["metadata"]["annotations"]["podgate.io/timeout"] = "400ms".into();
    let flags = ["--ready=db=800ms", "--break=web@crash:2500ms", "--timeout=20s"];
    own["spec"]["containers"].as_array_mut().unwrap().remove(1);
    own["metadata"]["annotations"]["podgate.io/order"] = "db, web".into();
    let run = Machine::new().run_manifest(&own, &flags);
    assert_outcome(&run, 0, &["exit code 75", "web was restarted twice (exit code 75, exit code 1)."]);
}

/// `try` must not inject a fault that is due after the verdict, because the fault could no longer change the verdict.
#[test]
fn no_fault_occurs_after_the_verdict() {
    let flags = ["--break=web@kill:5s", "--timeout=4s", "--stop"];
    let run = Machine::new().run(&[&QUICK[..3], &flags].concat());
    assert_outcome(&run, 4, &["--break web@kill:5s did not occur: the run ended first."]);
    assert!(!run.out.contains("is killed"), "{}", run.out);
}

#[test]
fn fault_that_ctrl_c_prevents_is_reported() {
    let machine = Machine::new();
    let flags = ["--ready=db=100ms", "--ready=api=100ms", "--ready=web=100ms", "--break=db@kill:1m"];
    let (mut child, mut out) = machine.start_until(&flags, "web      Ready");
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, Signal::INT);
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4), "{text}");
    assert!(text.contains("--break db@kill:1m did not occur: the run ended first."), "{text}");
}
