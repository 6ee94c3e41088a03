//! Tests verdicts, exit codes and messages of single Pods.

use super::{Machine, Outcome, QUICK, scenarios};
use serde_json::{Value, json};

/// Returns a Pod with this order, and these containers with their fields.
pub(super) fn pod(order: &str, containers: &[(&str, Value)]) -> Value {
    let mut pod = scenarios::chain();
    pod["metadata"]["annotations"]["podgate.io/order"] = order.into();
    pod["spec"]["containers"] = containers
        .iter()
        .map(|(name, fields)| {
            let mut container = json!({"name": name, "image": "x", "command": [name]});
            container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            container
        })
        .collect();
    pod
}

/// Asserts the exit code, and that the output contains the texts.
pub(super) fn assert_outcome(run: &Outcome, code: i32, texts: &[&str]) {
    assert_eq!(run.code, code, "{}{}", run.out, run.err);
    for text in texts {
        assert!(run.out.contains(text) || run.err.contains(text), "{text:?} is missing in {}{}", run.out, run.err);
    }
}

#[test]
fn container_that_crashes_at_its_start_is_not_complete() {
    let stand_in = pod("db, api", &[("db", json!({})), ("api", json!({}))]);
    let run = Machine::new().run_manifest(&stand_in, &["--break=api@crash:1ms", "--timeout=6s"]);
    assert_outcome(&run, 3, &["ended (exit code 1); restarts in 10s"]);
}

#[test]
fn crash_before_the_stop_changes_the_verdict() {
    // The second run of api is complete after 1 s. With `--stop`, the containers run for 2.1 s, and api crashes again.
    let own = pod("db, api", &[("db", json!({})), ("api", json!({}))]);
    let run = Machine::new().run_manifest(&own, &["--break=api@crash:1600ms", "--stop", "--timeout=7s"]);
    assert_outcome(&run, 3, &["ended (exit code 1); restarts in 10s"]);
}

#[test]
fn container_that_ignores_sigterm_takes_the_others_time() {
    let mut own = pod("db, api", &[("db", json!({})), ("api", json!({}))]);
    own["metadata"]["annotations"]["podgate.io/stop-order"] = "reverse".into();
    own["spec"]["terminationGracePeriodSeconds"] = 3.into();
    let run = Machine::new().run_manifest(&own, &["--break=api@ignores-term", "--stop", "--timeout=10s"]);
    assert_outcome(&run, 2, &["ended (SIGKILL)", "db stopped before api: the stop order was not kept."]);
}

#[test]
fn ready_checks_count_as_probes() {
    let mut own = pod("db, api", &[("db", json!({})), ("api", json!({}))]);
    let without = Machine::new().run_manifest(&own, &[]);
    assert_outcome(&without, 0, &["db has no probe, so it counts as Ready as soon as it runs"]);
    own["metadata"]["annotations"]["ready.podgate.io/db"] = "tcp://127.0.0.1:5432".into();
    let run = Machine::new().run_manifest(&own, &["--ready=db=700ms"]);
    assert_outcome(&run, 0, &[]);
    assert!(!run.out.contains("has no probe") && !run.out.contains("runs no checks"), "{}", run.out);
    run.assert_events(&["db started", "db Ready", "api started"]);
}

#[test]
fn every_fault_of_a_container_is_awaited() {
    let faults = ["--ready=db=200ms", "--ready=api=100ms", "--break=web@kill:600ms", "--break=web@kill:2500ms"];
    let run = Machine::new().run(&[&faults[..], &["--timeout=4s"]].concat());
    assert_outcome(&run, 3, &["web exited twice (SIGKILL, SIGKILL) and was restarted once."]);
}

#[test]
fn result_shows_the_last_run() {
    let run = Machine::new().run(&[&QUICK[..], &["--break=db@kill:100ms", "-o=json"]].concat());
    let json: Value = serde_json::from_str(&run.out).unwrap();
    let db = json["containers"].as_array().unwrap().iter().find(|row| row["name"] == "db").unwrap();
    assert!(run.code == 0 && db["restarts"] == 1 && db["ready"].is_object() && db["ended"].is_null(), "{db:#}");
}

#[test]
fn user_container_may_be_named_sidecar() {
    let own = pod("sidecar, api", &[("sidecar", json!({})), ("api", json!({}))]);
    let run = Machine::new().run_manifest(&own, &["--break=podgate@kill:200ms", "-o=json"]);
    let json: Value = serde_json::from_str(&run.out).unwrap();
    let rows = json["containers"].as_array().unwrap().iter();
    let rows: Vec<(&str, u64)> =
        rows.map(|row| (row["name"].as_str().unwrap(), row["restarts"].as_u64().unwrap())).collect();
    assert_eq!((run.code, rows), (0, vec![("podgate", 1), ("sidecar", 0), ("api", 0)]), "{}", run.err);
    let run = Machine::new().run_manifest(&own, &["--timeout=1ms"]);
    assert_outcome(&run, 3, &["podgate's sidecar was not ready in time."]);
}

#[test]
fn container_that_is_asked_to_exit_ends_last() {
    let mut job = pod("proxy, api", &[("proxy", json!({})), ("api", json!({}))]);
    job["spec"]["restartPolicy"] = "Never".into();
    job["metadata"]["annotations"]["quit.podgate.io/proxy"] = "POST http://127.0.0.1:1/quit".into();
    let run = Machine::new().run_manifest(&job, &[]);
    assert_outcome(&run, 0, &["this run ends proxy, but sends no request to exit"]);
    run.assert_events(&["proxy started", "api started", "api ended", "proxy ended"]);
}

#[test]
fn native_sidecar_with_a_readiness_probe_is_a_stand_in() {
    let mut own = pod("mesh, api", &[("api", json!({}))]);
    let probe = json!({"exec": {"command": ["x"]}});
    let mesh = json!({"name": "mesh", "image": "x", "restartPolicy": "Always", "startupProbe": probe});
    own["spec"]["initContainers"] = json!([mesh]);
    let run = Machine::new().run_manifest(&own, &[]);
    assert_outcome(&run, 1, &["nothing to preview: no container waits"]);
    own["spec"]["initContainers"][0]["readinessProbe"] = json!({"tcpSocket": {"port": 80}});
    let run = Machine::new().run_manifest(&own, &["--ready=mesh=1s"]);
    assert_outcome(&run, 0, &["mesh does not restart here if its startupProbe fails"]);
    run.assert_events(&["api waits for mesh=Ready", "mesh started", "mesh Ready", "api started"]);
    assert!(!run.out.contains("do not run here"), "{}", run.out);
    // The init container `migrate` cannot wait for a stand-in for `mesh`: stand-ins start with the regular containers.
    let migrate = json!({"name": "migrate", "image": "x"});
    own["spec"]["initContainers"].as_array_mut().unwrap().push(migrate);
    own["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "web", "image": "x"}));
    own["metadata"]["annotations"]["podgate.io/order"] = "mesh=Started, migrate, api, web".into();
    own["metadata"]["annotations"]["after.podgate.io/api"] = "mesh".into();
    let run = Machine::new().run_manifest(&own, &[]);
    assert_outcome(&run, 0, &["and native sidecars that have no probe or precede an init container"]);
    let run = Machine::new().run_manifest(&own, &["--ready=mesh=1s"]);
    assert_outcome(&run, 64, &["--ready mesh: the Pod has no such container; choose one of api, web"]);
}

#[test]
fn reasons_of_exit_code_1_are_true() {
    let mut checked = pod("db & api", &[("db", json!({})), ("api", json!({}))]);
    checked["metadata"]["annotations"] = json!({"check.podgate.io/api": "file:///tmp/x"});
    let mut misspelled = scenarios::chain();
    misspelled["metadata"]["annotations"] = json!({"podgate.io/oder": "db, api"});
    let beside = json!({"apiVersion": "v1", "kind": "List", "items": [scenarios::chain(), misspelled]});
    let mut second = scenarios::chain();
    second["metadata"]["name"] = "second".into();
    let both = json!({"apiVersion": "v1", "kind": "List", "items": [scenarios::chain(), second]});
    let many: Vec<Value> = (0..12).map(|_| scenarios::chain()).collect();
    let many = json!({"apiVersion": "v1", "kind": "List", "items": many});
    for (manifest, flags, expected) in [
        (checked, &[][..], "nothing to preview: the order has only checks, which try does not run"),
        (misspelled, &[], "did you mean podgate.io/order?"),
        (both, &["--workload=Job/none"], "<stdin>: no Job/none with an order; the file has Pod/chain, Pod/second"),
        (beside, &["--workload=Pod/none"], "no Pod/none with an order; the file has Pod/chain"),
        (many, &[], "Pod/chain, Pod/chain); choose one with --workload"),
    ] {
        let run = Machine::new().run_manifest(&manifest, flags);
        assert_outcome(&run, 1, &[expected]);
    }
}

#[test]
fn unreadable_document_is_reported() {
    let machine = Machine::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pods.yaml");
    for (document, code, expected) in
        [("a: [", 0, "ignored an unreadable document"), ("podgate.io: [", 1, "unclosed [; add the closing bracket")]
    {
        std::fs::write(&path, format!("{}\n---\n{document}\n", scenarios::chain())).unwrap();
        assert_outcome(&machine.run(&[path.to_str().unwrap()]), code, &[expected]);
    }
}

#[test]
fn failed_exits_have_a_reason() {
    let mut own = pod("db=Exited, api", &[("db", json!({})), ("api", json!({}))]);
    own["spec"]["restartPolicy"] = "Never".into();
    let run = Machine::new().run_manifest(&own, &["--break=db@crash:100ms"]);
    assert_outcome(&run, 0, &["after db had exited;"]);
    own["metadata"]["annotations"]["podgate.io/order"] = "db=Completed, api".into();
    let run = Machine::new().run_manifest(&own, &["--break=db@crash:100ms", "--timeout=8s"]);
    assert_outcome(&run, 3, &["db exited with 1 and is not restarted.", "api did not start"]);
    let run = Machine::new().run_manifest(&own, &["--break=db@never", "--timeout=4s"]);
    assert_outcome(&run, 3, &["db did not exit with 0 in time."]);
}

#[test]
fn manifest_on_standard_input_replaces_the_example() {
    let probe = json!({"readinessProbe": {"tcpSocket": {"port": 21987}}});
    let own = pod("alone, last", &[("last", json!({})), ("alone", probe)]);
    let machine = Machine::new();
    let path = machine.directory.path().with_extension("json");
    std::fs::write(&path, own.to_string()).unwrap();
    let file = || std::fs::File::open(&path).unwrap();
    for flags in
        [&["--workload=pod/chain", "--ready=alone=100ms"][..], &["--workload=Pod/chain"], &["--workload=chain"], &[]]
    {
        let run = machine.run_with_input(file(), flags);
        assert_outcome(&run, 0, &["Pod/chain started in"]);
        let rows = ["\nalone ", "\nlast "].map(|row| run.out.find(row));
        assert!(rows[0].is_some() && rows[0] < rows[1], "rows in the order of the start: {}", run.out);
    }
    let path = path.to_str().unwrap();
    assert_outcome(&machine.run(&["-f", path]), 0, &["Pod/chain started in"]);
    assert_outcome(&machine.run(&["-f", path, path]), 64, &["cannot be used with"]);
    assert_outcome(&machine.run(&["--workload=Pod/chain"]), 1, &["--workload needs a manifest"]);
    assert_outcome(
        &machine.run(&["-f", path, "--workload=sts/chain"]),
        1,
        &["no sts/chain with an order; the file has Pod/chain"],
    );
    std::fs::remove_file(path).unwrap();
}

/// Before the verdict, a container without probes runs on for a second, which does not belong to the start.
#[test]
fn start_takes_until_the_last_event() {
    let own = pod("db, api", &[("db", json!({})), ("api", json!({}))]);
    let run = Machine::new().run_manifest(&own, &[]);
    let (_, rest) = run.out.split_once("The order was kept: Pod/chain started in ").unwrap();
    let took = rest.split_once(" s.").unwrap().0;
    let took: f64 = took.parse().unwrap();
    // The events are rounded from other readings of the clock than the verdict.
    let is_last = |line: &str| {
        let event = line.split_once(" s  api ").filter(|(_, event)| event.contains("started"));
        event.is_some_and(|(at, _)| at.trim().parse::<f64>().is_ok_and(|at| (at - took).abs() < 0.02))
    };
    assert!(run.out.lines().any(is_last), "{took}: {}", run.out);
}

#[test]
fn verdict_names_the_checks_that_did_not_run() {
    let mut own = pod("db, api", &[("db", json!({})), ("api", json!({}))]);
    own["metadata"]["annotations"]["check.podgate.io/api"] = "tcp://cache.shop:6379".into();
    let run = Machine::new().run_manifest(&own, &[]);
    assert_outcome(&run, 0, &["The order was kept: Pod/chain (check.podgate.io/api is not tested here) started in "]);
}
