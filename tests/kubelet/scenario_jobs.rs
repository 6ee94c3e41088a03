//! Tests Pods and Jobs that complete.

use crate::clock::eventually;
use crate::cluster::{BUSYBOX_IMAGE, TESTSERVER_IMAGE, kubectl, kubectl_json, minor_version, run_script, try_kubectl};
use crate::injected::inject_manifest;
use crate::pod::{Container, Pod, merge, server};
use crate::scene::Scene;
use serde_json::{Value, json};
use std::time::Duration;

/// The kubelet terminates the sidecar when all other containers have ended.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn pod_completes_when_all_containers_exit() {
    let scene = Scene::shared("completes");
    scene.grant_pod_access();
    let db = server("db").http(8001).hook(&[]).args(&["--exit-after", "6s"]);
    let app = server("app").args(&["--exit-after", "2s"]);
    let run = scene.create(&Pod::new("completes", [db, app]).with(json!({"spec": {"restartPolicy": "Never"}})));
    let phase = eventually("the Pod completes", 60, || {
        let phase = kubectl(&["-n", &scene.namespace, "get", "pod", "completes", "-o", "jsonpath={.status.phase}"]);
        ["Succeeded", "Failed"].contains(&phase.as_str()).then_some(phase)
    });
    assert_eq!(phase, "Succeeded");
    run.assert_order(&["db", "app"]);
}

/// Creates a Job with `app` and a `proxy` that would run forever. `proxy` has the gate flag `--stop-after app`.
fn job(name: &str, app: Container, proxy_flags: &[&str]) -> Value {
    let flags = [&["--stop-after", "app"], proxy_flags].concat();
    let proxy = server("proxy").http(8003).gate(&flags);
    let pod = Pod::new(name, [proxy, app]).json();
    let mut spec = pod["spec"].clone();
    spec["restartPolicy"] = "Never".into();
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": {"job": name}}, "spec": spec}}})
}

/// Returns the outcome of the Job, and the terminated state of the proxy.
fn outcome(scene: &Scene, name: &str) -> (String, Value) {
    let outcome = eventually("the Job ends", 150, || {
        let job = kubectl_json(&["-n", &scene.namespace, "get", "job", name]);
        let conditions = job["status"]["conditions"].as_array()?.clone();
        let end =
            conditions.iter().find(|c| (c["type"] == "Complete" || c["type"] == "Failed") && c["status"] == "True");
        Some(end?["type"].as_str()?.to_owned())
    });
    let pods = kubectl_json(&["-n", &scene.namespace, "get", "pods", "-l", &format!("job={name}")]);
    let statuses = pods["items"][0]["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    let proxy = statuses.into_iter().find(|status| status["name"] == "proxy").unwrap_or_default();
    (outcome, proxy["state"]["terminated"].clone())
}

/// The Job has the outcome of `app`. The exit code of the terminated proxy has no effect, even if `app` never starts or
/// exits before the proxy's gate checks `app`.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn job_ends_with_the_outcome_of_its_app() {
    let scene = Scene::shared("job");
    scene.grant_pod_access();
    let app = |code: &str| server("app").args(&["--exit-after", "2s", "--exit-code", code]);
    let no_such_command = json!({"command": ["/no/such/command"]});
    let jobs = [
        ("succeeds", app("0").gate(&["--until", "proxy"]), &[][..], "Complete", 0),
        ("fails", app("3").gate(&["--until", "proxy"]), &[], "Failed", 0),
        ("no-gate", app("0"), &[], "Complete", 0),
        ("ignores-term", app("0"), &["--grace", "1s"], "Complete", 0),
        ("too-late", app("0"), &["--until", "app=Exited"], "Complete", 0),
        ("never-started", server("app").with(no_such_command), &[], "Failed", 0),
    ];
    for (name, app, flags, ..) in &jobs {
        let mut job = job(name, app.clone(), flags);
        if *name == "ignores-term" {
            let containers = job["spec"]["template"]["spec"]["containers"].as_array_mut().expect("containers");
            let proxy = containers.iter_mut().find(|container| container["name"] == "proxy").expect("the proxy");
            proxy["args"].as_array_mut().expect("arguments").push("--ignore-term".into());
        }
        crate::cluster::create(&scene.namespace, &job.to_string());
    }
    for (name, _, _, expected, code) in jobs {
        let (outcome, proxy) = outcome(&scene, name);
        scene.report(&format!("{name}: {outcome}; the proxy exited with {}", proxy["exitCode"]));
        assert_eq!((outcome.as_str(), &proxy["exitCode"]), (expected, &json!(code)), "{name}: {proxy}");
    }
}

/// Podgate does not change the command of `proxy`, so the sidecar asks `proxy` to exit. The Job completes in each mode.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn proxy_of_a_job_is_asked_to_exit() {
    let scene = Scene::shared("job-quit");
    scene.grant_pod_access();
    let directory = tempfile::tempdir().expect("a directory");
    let modes: Vec<_> =
        ["entrypoint", "post-start", "hold"].into_iter().take(if minor_version() < 35 { 2 } else { 3 }).collect();
    for mode in &modes {
        // Set the command of `app` in entrypoint mode only. In the other modes, podgate must not know that command.
        let command = (*mode == "entrypoint").then_some(["/testserver"]);
        let app = json!({"name": "app", "image": TESTSERVER_IMAGE, "command": command, "args": ["--exit-after", "2s"]});
        let proxy = json!({"name": "proxy", "image": TESTSERVER_IMAGE, "args": ["--http", "8003", "--ready-after", "1s"],
            "readinessProbe": {"httpGet": {"path": "/", "port": 8003}, "periodSeconds": 1}});
        let mut annotations = json!({"podgate.io/order": "proxy, app", "quit.podgate.io/proxy": "POST http://127.0.0.1:8003/quitquitquit"});
        annotations[if *mode == "post-start" { "podgate.io/mode" } else { "mode.podgate.io/app" }] = json!(mode);
        let spec = json!({"restartPolicy": "Never", "activeDeadlineSeconds": 80, "containers": [proxy, app]});
        let template = json!({"metadata": {"labels": {"job": mode}, "annotations": annotations}, "spec": spec});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": mode},
            "spec": {"backoffLimit": 0, "template": template}});
        let path = directory.path().join(format!("{mode}.json"));
        std::fs::write(&path, podgate::order::declare::spec::without_nulls(&job).to_string()).expect("a file");
        let injected = inject_manifest(path.to_str().expect("a path"), &[]).unwrap_or_else(|error| panic!("{error}"));
        crate::cluster::create(&scene.namespace, &injected);
    }
    for mode in modes {
        let (outcome, proxy) = outcome(&scene, mode);
        scene.report(&format!("{mode}: {outcome}; the proxy exited with {}", proxy["exitCode"]));
        assert_eq!((outcome.as_str(), &proxy["exitCode"]), ("Complete", &json!(0)), "{mode}: {proxy}");
    }
}

/// Creates a Job with a `proxy` that would run forever, and an `app` that runs `script`. Both have a gate. The files in
/// `/state` survive the restarts of `app`.
fn create_job(scene: &Scene, name: &str, annotations: Value, app: Value, spec: Value, script: &str) {
    let mut template = json!({"metadata": {"labels": {"job": name},
        "annotations": {"podgate.io/order": "proxy, app", "podgate.io/job-sidecars": "proxy"}}});
    let proxy = json!({"name": "proxy", "image": TESTSERVER_IMAGE, "command": ["/testserver"],
        "args": ["--http", "8003"], "readinessProbe": {"httpGet": {"path": "/", "port": 8003}, "periodSeconds": 1}});
    let mut own = json!({"name": "app", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "state", "mountPath": "/state"}]});
    merge(&mut own, app);
    template["spec"] = json!({"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 5,
        "volumes": [{"name": "state", "emptyDir": {}}], "containers": [proxy, own]});
    merge(&mut template["metadata"]["annotations"], annotations);
    merge(&mut template["spec"], spec);
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"backoffLimit": 6, "template": template}});
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("job.json");
    std::fs::write(&path, job.to_string()).expect("a file");
    let injected = inject_manifest(path.to_str().expect("a path"), &[]).unwrap_or_else(|error| panic!("{error}"));
    crate::cluster::create(&scene.namespace, &injected);
}

/// Returns the name of the Job's Pod when `container` runs.
fn pod_with_running(scene: &Scene, job: &str, container: &str) -> String {
    eventually(&format!("{container} of {job} runs"), 60, || {
        let pods = kubectl_json(&["-n", &scene.namespace, "get", "pods", "-l", &format!("job={job}")]);
        let statuses = pods["items"][0]["status"]["containerStatuses"].as_array()?.clone();
        let runs = |status: &Value| status["name"] == container && status["state"]["running"].is_object();
        Some(pods["items"][0]["metadata"]["name"].as_str().filter(|_| statuses.iter().any(runs))?.to_owned())
    })
}

/// Asserts that the Job has succeeded after `restarts` restarts of `app`, and that `proxy` ran without a restart until
/// the last start of `app`. `proxy` may end before the container of `app`, because the agent reports the exit of the
/// command before that container ends.
fn assert_succeeds(scene: &Scene, job: &str, restarts: u64) {
    let (outcome, proxy) = outcome(scene, job);
    let pods = kubectl_json(&["-n", &scene.namespace, "get", "pods", "-l", &format!("job={job}")]);
    let statuses = pods["items"][0]["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    let status = |name: &str| statuses.iter().find(|status| status["name"] == name).cloned().unwrap_or_default();
    let (app, counts) = (status("app"), ["app", "proxy"].map(|name| status(name)["restartCount"].as_u64()));
    scene.report(&format!("{job}: {outcome}; restarts of app and proxy: {counts:?}"));
    assert_eq!((outcome.as_str(), counts), ("Complete", [Some(restarts), Some(0)]), "{job}: {statuses:#?}");
    let (last_start, end) = (&app["state"]["terminated"]["startedAt"], &proxy["finishedAt"]);
    assert!(last_start.as_str().expect("a time") <= end.as_str().expect("a time"), "{job}: {statuses:#?}");
}

/// `proxy` keeps running while `app` is in back-off (0, 10, 20 and 40 s), with and without the API. The sidecar knows
/// from the policy, the rules and the exit code that the kubelet restarts `app`.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn proxy_of_a_job_runs_during_the_back_offs_of_its_app() {
    let (granted, denied) = (Scene::shared("job-backoff"), Scene::shared("job-backoff-denied"));
    granted.grant_pod_access();
    let fails_four_times = "n=$(cat /state/n || echo 0); echo $((n + 1)) >/state/n; exit $((n < 4 ? 3 : 0))";
    let is_killed_twice = "n=$(cat /state/n || echo 0); echo $((n + 1)) >/state/n; [ $n = 2 ] || exec sleep 600";
    let without = json!({"podgate.io/publish": "none"});
    let rule = json!({"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}});
    let never = json!({"restartPolicy": "Never", "restartPolicyRules": [rule]});
    let mut jobs = vec![
        (&granted, "with-role", json!({}), json!({}), fails_four_times, 4),
        (&granted, "no-token", without, json!({}), fails_four_times, 4),
        (&denied, "without-role", json!({}), json!({}), fails_four_times, 4),
    ];
    if minor_version() >= 35 {
        jobs.push((&denied, "rules", json!({}), never, fails_four_times, 4));
    }
    let kills = Scene::can_inject_faults("job-backoff");
    if kills {
        jobs.push((&denied, "killed", json!({}), json!({}), is_killed_twice, 2));
    }
    for (scene, name, annotations, app, script, _) in &jobs {
        let pod_policy = if app["restartPolicy"].is_null() { "OnFailure" } else { "Never" };
        create_job(scene, name, annotations.clone(), app.clone(), json!({"restartPolicy": pod_policy}), script);
    }
    if kills {
        let pod = pod_with_running(&denied, "killed", "app");
        for count in ["1", "2"] {
            let counted = ["-n", &denied.namespace, "exec", &pod, "-c", "app", "--", "grep", "-qx", count, "/state/n"];
            eventually("the script of app counts its run", 90, || try_kubectl(&counted).ok());
            run_script(&["kill-container", &denied.namespace, &pod, "app"]);
        }
    }
    for (scene, name, .., restarts) in jobs {
        assert_succeeds(scene, name, restarts);
    }
}

/// The kubelet pulls the image for the restart of `app`, and the registry does not answer. The kubelet pulls one image
/// after the other, so this scenario runs alone.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn proxy_of_a_job_runs_during_a_slow_pull_alone() {
    const IMAGE: &str = "localhost:5999/podgate-test/app:1";
    let Some(scene) = Scene::exclusive("job-pull") else { return };
    scene.grant_pod_access();
    let tag = || run_script(&["ctr", "images", "tag", "--force", BUSYBOX_IMAGE, IMAGE]);
    tag();
    let registry = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "registry"},
        "spec": {"hostNetwork": true, "terminationGracePeriodSeconds": 0, "containers": [{"name": "registry",
            "image": BUSYBOX_IMAGE, "command": ["nc", "-lk", "-p", "5999", "-e", "sleep", "600"]}]}});
    crate::cluster::create(&scene.namespace, &registry.to_string());
    let script = "[ -e /state/go ] && exit 0; until [ -e /state/go ]; do sleep 0.1; done; exit 3";
    create_job(&scene, "pull", json!({}), json!({"image": IMAGE}), json!({}), script);
    let pod = pod_with_running(&scene, "pull", "app");
    run_script(&["ctr", "images", "rm", IMAGE]);
    kubectl(&["-n", &scene.namespace, "exec", &pod, "-c", "app", "--", "touch", "/state/go"]);
    eventually("the kubelet pulls the image", 30, || {
        let filter = format!("reason=Pulling,involvedObject.name={pod}");
        let events = kubectl_json(&["-n", &scene.namespace, "get", "events", "--field-selector", &filter]);
        events["items"].as_array().is_some_and(|events| !events.is_empty()).then_some(())
    });
    // Nothing happens while the registry does not answer. Wait longer than the agent does if it does not know the
    // restart policy: 10 s (`RESTART_WINDOW`).
    std::thread::sleep(Duration::from_secs(12));
    tag();
    kubectl(&["-n", &scene.namespace, "delete", "pod", "registry", "--wait=false"]);
    assert_succeeds(&scene, "pull", 1);
    run_script(&["ctr", "images", "rm", IMAGE]);
}
