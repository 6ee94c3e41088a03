//! Tests Pods and Jobs that complete.

use crate::clock::eventually;
use crate::cluster::{TESTSERVER_IMAGE, kubectl, kubectl_json, minor_version};
use crate::injected::inject_manifest;
use crate::pod::{Container, Pod, server};
use crate::scene::Scene;
use serde_json::{Value, json};

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
    let outcome = eventually("the Job ends", 90, || {
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
