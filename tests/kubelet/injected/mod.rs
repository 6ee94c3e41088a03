//! Tests the workflow of a user: annotate a workload, run `kubectl podgate inject`, then `kubectl apply`.

mod accepted;
mod conditions;

use crate::clock::{eventually, wall_ms};
use crate::cluster::{self, IMAGE, ROOT, kubectl, kubectl_json};
use crate::incarnation_log::{IncarnationLog, summary};
use crate::node_logs::NodeLogs;
use crate::scenario_without_sidecar::lean_scene;
use crate::scene::{FollowedPod, Scene};
use crate::watch::ObservedPod;
use std::fs;
use std::process::Command;

/// Returns the output of `kubectl podgate inject` for a manifest, or the error messages.
pub(crate) fn inject_manifest(path: &str, flags: &[&str]) -> Result<String, String> {
    // `env!` would not compile without the feature `kubectl`.
    let Some(plugin) = option_env!("CARGO_BIN_EXE_kubectl-podgate") else {
        panic!("built without the feature kubectl")
    };
    let arguments = [&["inject", "--quiet", "--image", IMAGE, path], flags].concat();
    let output = Command::new(plugin).args(arguments).output().expect("kubectl podgate runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Creates a namespace that admits only "restricted" Pods. Injects the manifest `file` and creates its objects there.
fn apply_injected(name: &str, file: &str, flags: &[&str]) -> Scene {
    let scene = Scene::shared(name);
    scene.grant_pod_access();
    kubectl(&["label", "namespace", &scene.namespace, "pod-security.kubernetes.io/enforce=restricted"]);
    create_injected(&scene, &format!("{ROOT}/tests/kubelet/injected/{file}"), flags);
    scene
}

/// Creates the injected objects of the manifest `path`.
fn create_injected(scene: &Scene, path: &str, flags: &[&str]) {
    let text = inject_manifest(path, flags).unwrap_or_else(|error| panic!("{error}"));
    cluster::create(&scene.namespace, &text);
}

/// Waits for `count` Pods with this label, and returns their names.
fn wait_for_pods(scene: &Scene, label: &str, count: usize) -> Vec<String> {
    eventually(&format!("{count} Pods {label}"), 60, || {
        let list = kubectl_json(&["-n", &scene.namespace, "get", "pods", "-l", label]);
        let names = list["items"].as_array()?.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
        let names: Vec<String> = names.map(str::to_owned).collect();
        (names.len() == count).then_some(names)
    })
}

/// Formats the times at which each container received SIGTERM and exited, in seconds after the deletion.
fn stop_summary(lives: &[IncarnationLog], names: &[&str], begin: f64) -> String {
    let at = |ms: Option<f64>| ms.map_or("never".to_owned(), |ms| format!("{:+.2}", (ms - begin) / 1000.0));
    let format_one = |name: &&str| {
        format!("{name} TERM {} gone {}", at(log_of(lives, name).time_of("term")), at(log_of(lives, name).end))
    };
    names.iter().map(format_one).collect::<Vec<_>>().join(" | ")
}

fn log_of<'a>(lives: &'a [IncarnationLog], name: &str) -> &'a IncarnationLog {
    lives.iter().rfind(|life| life.name == name).unwrap_or_else(|| panic!("{name} logged nothing"))
}

/// Asserts for each pair in `edges` that the second container started only after the first container was ready.
fn assert_edges(run: &FollowedPod<'_>, names: &[&str], edges: &[(&str, &str)]) {
    let lives: Vec<IncarnationLog> = names.iter().map(|name| run.log(name)).collect();
    for (before, after) in edges {
        let early = log_of(&lives, before).ready_time() - log_of(&lives, after).start_time();
        assert!(early <= 0.0, "order broken: {after} started {early:.1} ms before {before} was ready: {lives:?}");
    }
    run.scene.report(&summary(&lives));
}

/// Asserts that each container in `names` received SIGTERM only after the previous container had exited.
fn assert_stop_order(lives: &[IncarnationLog], names: &[&str]) {
    for pair in names.windows(2) {
        let (dependent, provider) = (log_of(lives, pair[0]), log_of(lives, pair[1]));
        let end = dependent.end.unwrap_or_else(|| panic!("{} never exited: {dependent:?}", dependent.name));
        let early = end - provider.expect_time_of("term");
        assert!(early <= 0.0, "{} received SIGTERM {early:.1} ms before {} exited", provider.name, dependent.name);
    }
}

/// Deletes the Pod and prints the stop times of the containers in `names`. Returns the logs of all containers, and the
/// duration of the deletion in milliseconds.
fn delete_pod(run: &FollowedPod, logs: &NodeLogs, names: &[&str]) -> (Vec<IncarnationLog>, f64) {
    let begin = wall_ms();
    let (took, lives) = (run.delete(), logs.logs_with_ends());
    run.scene.report(&format!("{}; Pod gone {:+.2}", stop_summary(&lives, names, begin), took / 1000.0));
    (lives, took)
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn injected_deployment_starts_and_stops_in_order() {
    let scene = apply_injected("inj-deployment", "deployment.yaml", &[]);
    let names = wait_for_pods(&scene, "app=shop", 2);
    let runs: Vec<FollowedPod<'_>> = names.iter().map(|name| scene.follow(name)).collect();
    for run in &runs {
        let up = run.wait_until_up();
        for name in ["podgate", "db", "api", "cache", "web"] {
            assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
        }
        let edges = [("db", "api"), ("db", "cache"), ("api", "web"), ("cache", "web")];
        assert_edges(run, &["db", "api", "cache", "web"], &edges);
    }
    if cluster::is_test_cluster() {
        // The gate of the stop order has become the command: the kubelet's own run of the exec probe reports for it.
        let first = fs::read_to_string(format!("/proc/{}/comm", runs[0].pid("db").expect("a process")));
        assert_eq!(first.expect("a process").trim(), "testserver");
        // Delete one of the two Pods. The Deployment then creates another Pod.
        let logs = NodeLogs::follow(&scene.namespace, &names[0]);
        eventually("the Pod's logs are found", 20, || (logs.incarnation_logs().len() > 3).then_some(()));
        let (lives, _) = delete_pod(&runs[0], &logs, &["web", "api", "cache", "db"]);
        assert_stop_order(&lives, &["web", "api", "db"]);
        assert_stop_order(&lives, &["web", "cache", "db"]);
        let slept = log_of(&lives, "db").expect_time_of("term") - log_of(&lives, "api").end.unwrap_or_default();
        assert!(slept >= 1000.0, "db's own sleep was cut short: {slept:.0} ms after api's end");
    }
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn injected_stateful_set_with_hooks_keeps_the_order() {
    let scene = apply_injected("inj-statefulset", "statefulset.yaml", &[]);
    let run = scene.follow("store-0");
    let logs = NodeLogs::follow(&scene.namespace, "store-0");
    let up = run.wait_until_up();
    for name in ["podgate", "mesh", "setup", "db", "api", "web"] {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
    }
    run.assert_order(&["db", "api", "web"]);
    let db = run.log("db");
    let own = db.expect_time_of("own-post-start");
    assert!(own <= run.log("api").start_time(), "the user's own hook must run before the next container starts");
    if cluster::is_test_cluster() {
        let (lives, _) = delete_pod(&run, &logs, &["web", "api", "db"]);
        assert_stop_order(&lives, &["web", "api", "db"]);
        let (db, api) = (log_of(&lives, "db"), log_of(&lives, "api"));
        let own = db.expect_time_of("own-pre-stop");
        assert!(api.end.is_some_and(|end| end <= own) && own <= db.expect_time_of("term"), "{lives:?}");
        [db, api, log_of(&lives, "web")].into_iter().for_each(IncarnationLog::assert_ended_in_time);
        assert_eq!(run.killed(), "");
    }
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn injected_job_runs_in_order() {
    let scene = apply_injected("inj-job", "job.yaml", &[]);
    let name = wait_for_pods(&scene, "app=report", 1).remove(0);
    let run = scene.follow(&name);
    eventually("the Job is complete", 90, || {
        let job = kubectl_json(&["-n", &scene.namespace, "get", "job", "report"]);
        let conditions = job["status"]["conditions"].as_array()?;
        let holds = |what| conditions.iter().any(|c| c["type"] == what && c["status"] == "True");
        assert!(!holds("Failed"), "{:#}", job["status"]);
        holds("Complete").then_some(())
    });
    let [proxy, fetch, send] = ["proxy", "fetch", "send"].map(|name| run.log(name));
    assert!(proxy.ready_time() <= fetch.start_time(), "order broken: {proxy:?} {fetch:?}");
    assert!(fetch.expect_time_of("exit") <= send.start_time(), "order broken: {fetch:?} {send:?}");
    assert!(
        send.expect_time_of("exit") <= proxy.expect_time_of("term"),
        "the proxy received SIGTERM before send had exited"
    );
    scene.report(&summary(&[proxy, fetch, send]));
}

/// If a step fails, all later steps are skipped at once, as in Tekton.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn failed_step_skips_later_steps() {
    let scene = apply_injected("inj-steps", "steps.yaml", &[]);
    let run = scene.follow("steps");
    let failed = run.watch.wait_until("the Pod fails", 60, |seen| seen.pod["status"]["phase"] == "Failed");
    let end = |name: &str| &failed.kubelet_status(name)["state"]["terminated"];
    let code = |name: &str| end(name)["exitCode"].as_i64();
    assert_eq!(["fetch", "build", "publish", "tell"].map(code), [Some(0), Some(3), Some(69), Some(69)]);
    let why = |name: &str| end(name)["message"].as_str().unwrap_or_default();
    assert!(
        why("publish").contains("build=Completed cannot be met: the container is Failed and will not be restarted"),
        "{}",
        why("publish")
    );
    assert!(
        why("tell").contains("publish=Completed cannot be met: the container is Waiting and will not be restarted"),
        "{}",
        why("tell")
    );
    scene.report(&format!("{} | {}", why("publish"), why("tell")));
}

/// Tests a Pod without API access. The containers are not in the order of their start.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn injected_pod_needs_no_token() {
    let scene = apply_injected("inj-no-token", "no-token.yaml", &[]);
    let run = scene.follow("no-token");
    let logs = NodeLogs::follow(&scene.namespace, "no-token");
    let up = run.watch.wait_until("the pod is ready", 120, ObservedPod::is_ready);
    assert_eq!(up.podgate_state("db"), None, "the sidecar must not write to the API");
    run.assert_order(&["db", "api", "web"]);
    if cluster::is_test_cluster() {
        let (lives, took) = delete_pod(&run, &logs, &["web", "api", "db"]);
        assert_stop_order(&lives, &["web", "api", "db"]);
        // The preStop command of web takes 4.5 s. The other preStop hooks wait only 3 s (`POD_STOP_DETECTION_TIMEOUT`)
        // for a sign that the Pod stops. The stop report of web must be that sign.
        let (web, api) = (log_of(&lives, "web"), log_of(&lives, "api"));
        assert!(api.expect_time_of("term") >= web.expect_time_of("term"), "{lives:?}");
        assert!(took >= 4000.0, "it took {took:.0} ms");
        for name in ["db", "api", "web"] {
            log_of(&lives, name).assert_ended_in_time();
        }
        assert_eq!(run.killed(), "");
    }
}

/// The sidecar must not change the QoS class. The API server must accept a sidecar that shares its Pod's resources.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn injected_guaranteed_pods_stay_guaranteed() {
    let scene = apply_injected("inj-guaranteed", "guaranteed.yaml", &[]);
    for name in ["containers", "shared"] {
        let run = scene.follow(name);
        let up = run.wait_until_up();
        assert_eq!(up.pod["status"]["qosClass"], "Guaranteed", "{name}: {:#}", up.pod["spec"]["initContainers"]);
        run.assert_order(&["db", "api"]);
    }
}

/// Without a sidecar, the Pod needs no token and no permission. Podgate asks the probes that the user wrote.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn injected_order_without_a_sidecar_starts_in_order() {
    let Some(scene) = lean_scene("inj-lean") else { return };
    kubectl(&["label", "namespace", &scene.namespace, "pod-security.kubernetes.io/enforce=restricted"]);
    create_injected(&scene, &format!("{ROOT}/tests/kubelet/injected/lean.yaml"), &[]);
    let names = wait_for_pods(&scene, "app=lean", 1);
    let run = scene.follow(&names[0]);
    run.watch.wait_until("the Pod is Ready", 90, ObservedPod::is_ready);
    let edges = [("db", "api"), ("cache", "api"), ("db", "web"), ("cache", "web"), ("api", "web")];
    assert_edges(&run, &["db", "cache", "api", "web"], &edges);
    let seen = run.watch.last().expect("the Pod");
    for name in ["db", "cache", "api", "web"] {
        assert_eq!(seen.kubelet_status(name)["restartCount"], 0, "{name}");
    }
}
