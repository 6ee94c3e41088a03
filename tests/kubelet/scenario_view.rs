//! Tests `kubectl podgate status`, `override` and `timeline` on Pods that start, are stuck, or have started.

use crate::cluster::{self, kubectl, run_script};
use crate::incarnation_log::IncarnationLog;
use crate::orders::{chain, gated_chain_containers};
use crate::pod::{Pod, server};
use crate::scene::{FollowedPod, Scene};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Prepares `kubectl podgate COMMAND POD` for the Pod of `run`. The first of the `arguments` is COMMAND.
fn podgate(run: &FollowedPod, arguments: &[&str]) -> Command {
    let program = option_env!("CARGO_BIN_EXE_kubectl-podgate").unwrap_or("kubectl-podgate");
    let mut command = Command::new(program);
    if cluster::is_test_cluster() {
        command.env("KUBECONFIG", run_script(&["kubeconfig"]).trim());
    }
    command.args(&arguments[..1]).args([&run.pod, "-n", &run.scene.namespace]).args(&arguments[1..]);
    command
}

/// Runs the command. Returns the exit code, and standard output followed by standard error.
pub(crate) fn run_podgate(run: &FollowedPod, arguments: &[&str]) -> (i32, String) {
    let output = podgate(run, arguments).output().expect("kubectl podgate runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("an exit code"), String::from_utf8(text).expect("text"))
}

pub(crate) fn row<'a>(view: &'a Value, name: &str) -> &'a Value {
    let rows = view["containers"].as_array().expect("containers");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {view}"))
}

/// While the kubelet reports only that the containers are being created, `status` shows the condition that blocks the
/// Pod.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn status_shows_why_a_hook_blocks_the_pod() {
    let scene = Scene::shared("view-frozen");
    scene.grant_pod_access();
    // The sidecar may publish the state Started up to 5 s (`MINOR_BATCH_WINDOW`) late.
    let run = scene.create(&chain("view-frozen", "9s"));
    let mut child = podgate(&run, &["status", "--until-started", "--timeout", "2m", "-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl podgate runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let views: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{views:#?}");

    let is_blocked = |view: &Value, name: &str| {
        let reason = row(view, name)["kubelet"]["reason"].as_str().unwrap_or_default();
        ["ContainerCreating", "PodInitializing"].contains(&reason)
    };
    let all_blocked = |view: &&Value| ["db", "api", "web"].iter().all(|name| is_blocked(view, name));
    let view = views.iter().filter(all_blocked).find(|view| row(view, "db")["state"] == "Started");
    let view = view.unwrap_or_else(|| panic!("status shows only what the kubelet reports: {views:#?}"));
    assert_eq!(row(view, "db")["since"]["by"], "podgate");
    assert_eq!(row(view, "api")["waitsFor"][0]["condition"], "db=Ready");
    let takes = row(view, "db")["waitsFor"][0]["takes"].as_str().unwrap();
    assert_eq!(takes, "db must pass its readinessProbe (httpGet :8001/)");
    let last = views.last().expect("a view");
    assert_eq!((&last["started"], &row(last, "db")["state"]), (&true.into(), &"Ready".into()));
    run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    scene.report(&format!("{} changes followed", views.len()));
}

/// Returns the time of the event `what` in a timeline row, in milliseconds since 1970.
pub(crate) fn time_in_row(row: &Value, what: &str) -> f64 {
    let text = row[what]["at"].as_str().unwrap_or_else(|| panic!("{what} has no time: {row}"));
    let at = humantime::parse_rfc3339(text).expect("a time").duration_since(std::time::UNIX_EPOCH);
    at.expect("a time after 1970").as_millis() as f64
}

/// Asserts that the timeline shows the containers of `lives` in order. Each time of Ready must lie between the
/// time in the container's own log and the start of the next container.
fn assert_timeline(run: &FollowedPod, lives: &[IncarnationLog]) {
    let (code, text) = run_podgate(run, &["timeline", "-o", "json"]);
    assert_eq!(code, 0, "{text}");
    let asked = crate::clock::wall_ms();
    let timeline: Value = serde_json::from_str(&text).expect("JSON");
    let mut before = 0.0;
    for (index, life) in lives.iter().enumerate() {
        let row = row(&timeline, &life.name);
        let (started, ready) = (time_in_row(row, "started"), time_in_row(row, "ready"));
        // A time that is not exact is rounded down to whole seconds.
        let latest = started + if row["started"]["exact"] == true { 0.0 } else { 1000.0 };
        assert!(before <= latest && started <= ready, "{} is out of order: {text}", life.name);
        // The next container starts only after podgate has seen this one Ready.
        let next = lives.get(index + 1).map_or(asked, IncarnationLog::start_time);
        let logged = life.ready_time();
        // The times in JSON have no fractions of a millisecond.
        assert!(logged - 1.0 < ready && ready <= next, "{}: {logged} {ready} {next}: {text}", life.name);
        assert_eq!(row["ready"]["by"], "podgate", "{text}");
        before = ready;
    }
    let (code, picture) = run_podgate(run, &["timeline"]);
    assert!(code == 0 && lives.iter().all(|life| picture.contains(&life.name)), "{picture}");
    run.scene.report(picture.lines().next().unwrap_or_default());
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn timeline_matches_a_pod_with_hooks() {
    let scene = Scene::shared("view-hooks");
    scene.grant_pod_access();
    let run = scene.create(&chain("view-hooks", "2s"));
    run.wait_until_up();
    assert_timeline(&run, &run.assert_order(&["db", "api", "web"]));
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn timeline_matches_a_pod_with_gates() {
    let scene = Scene::shared("view-gates");
    scene.grant_pod_access();
    let run = scene.create(&Pod::new("view-gates", gated_chain_containers("2s", &[])));
    run.wait_until_up();
    assert_timeline(&run, &run.assert_order(&["db", "api", "web"]));
    let (_, text) = run_podgate(&run, &["timeline", "-o", "json"]);
    let timeline: Value = serde_json::from_str(&text).expect("JSON");
    let (api, web) = (row(&timeline, "api"), row(&timeline, "web"));
    let (gate, opened, ready) = (time_in_row(web, "gate"), time_in_row(web, "opened"), time_in_row(api, "ready"));
    assert!(
        gate < opened && ready <= opened && opened <= time_in_row(web, "ready"),
        "web's gate must open when api is Ready: {text}"
    );
    assert!(web["bars"].as_array().expect("bars").iter().any(|bar| bar["kind"] == "gate"), "{text}");
}

/// The hook of a container that is never Ready blocks the next container. An operator releases the hook with an
/// override.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn override_opens_a_waiting_hook() {
    let scene = Scene::shared("view-override");
    scene.grant_pod_access();
    let db = server("db").http(8001).ready_after("1h").hook(&[]);
    let run = scene.create(&Pod::new("view-override", [db, server("api").http(8002)]));
    run.watch.wait_until("db's hook waits", 60, |seen| seen.podgate_state("db") == Some("Started"));
    let (code, text) = run_podgate(&run, &["status"]);
    assert!(code == 3 && text.contains("db holds back api until db=Ready"), "{text}");
    let (code, text) = run_podgate(&run, &["override", "nobody=Ready"]);
    assert!(
        code == 1
            && text.contains("the sidecar does not track nobody, so this state cannot be set; choose one of api, db"),
        "{text}"
    );
    // An override for another sandbox has no effect.
    kubectl(&["-n", &scene.namespace, "annotate", "pod", &run.pod, "override.podgate.io/db=Ready@00000000-1-00000000"]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(cluster::incarnations(&scene.namespace, &run.pod).iter().all(|i| i.container != "api"));

    let (code, text) = run_podgate(&run, &["override", "db=Ready"]);
    let at = crate::clock::wall_ms();
    assert!(code == 0 && text.contains("it held back api"), "{text}");
    let started = run.wait_for_start("api", 1);
    assert!(started > at - 2000.0, "api started before the override: {started} {at}");
    scene.report(&format!("api was started {:+.0} ms after the override was written", started - at));
    run.watch.wait_until("the pod has started", 60, |seen| {
        seen.annotation("sandbox.podgate.io/stage") == Some("started") && seen.podgate_state("db") == Some("Ready")
    });
    let (_, text) = run_podgate(&run, &["status"]);
    assert!(text.contains("An operator has set db to Ready by hand"), "{text}");
    // The timeline must not show the time of an override as the time at which db became ready.
    let (_, json) = run_podgate(&run, &["timeline", "-o", "json"]);
    let timeline: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(row(&timeline, "db")["ready"], Value::Null, "{json}");

    let from = run.watch.len();
    let (code, text) = run_podgate(&run, &["override", "--remove", "db"]);
    assert!(code == 0 && text.contains("override.podgate.io/db removed"), "{text}");
    run.watch.wait_from(from, "db has its real state again", 60, |seen| {
        matches!(seen.podgate_state("db"), Some("Started" | "NotReady"))
    });
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn override_opens_a_gate() {
    let scene = Scene::shared("view-gate");
    scene.grant_pod_access();
    let db = server("db").http(8001).ready_after("1h").gate(&[]);
    let api = server("api").http(8002).gate(&["--until", "db"]);
    let run = scene.create(&Pod::new("view-gate", [db, api]));
    let waits = |life: &IncarnationLog| life.messages().any(|line| line.contains(": waiting for"));
    crate::clock::eventually("api's gate waits", 60, || waits(&run.log("api")).then_some(()));
    run.watch.wait_until("db runs", 60, |seen| seen.podgate_state("db") == Some("Started"));
    assert!(run.log("api").time_of("start").is_none());
    let (code, text) = run_podgate(&run, &["override", "db=Ready"]);
    assert!(code == 0 && text.contains("it held back api"), "{text}");
    let start = crate::clock::eventually("api runs", 10, || run.log("api").time_of("start"));
    let (_, text) = run_podgate(&run, &["status"]);
    assert!(text.contains("An operator has set db to Ready by hand"), "{text}");
    scene.report(&format!("api's own program ran {:.0} ms before this was seen", crate::clock::wall_ms() - start));
}
