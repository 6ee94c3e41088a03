//! Tests the example manifests that users copy. Only the images are replaced.

use crate::clock::eventually;
use crate::cluster::{BUSYBOX_IMAGE, IMAGE, ROOT, create, incarnations, is_test_cluster, kubectl, kubectl_json};
use crate::node_logs::NodeLogs;
use crate::scene::{FollowedPod, Scene};
use podgate::order::release;
use std::time::UNIX_EPOCH;

/// Creates a namespace that admits only "restricted" Pods, and returns the text of the example with the images of this
/// build.
fn prepare(file: &str) -> (Scene, String) {
    let scene = Scene::shared(file.trim_end_matches(".yaml"));
    scene.grant_pod_access();
    kubectl(&["label", "namespace", &scene.namespace, "pod-security.kubernetes.io/enforce=restricted"]);
    let path = format!("{ROOT}/manifests/{file}");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let text = text.replace(&release::sidecar_image(), IMAGE).replace("docker.io/library/busybox:1.37", BUSYBOX_IMAGE);
    (scene, text)
}

fn assert_example_starts(file: &str, pod: &str) {
    let (scene, text) = prepare(file);
    let run = scene.follow(pod);
    create(&scene.namespace, &text);
    let up = run.wait_until_up();
    for name in ["podgate", "db", "api", "web"] {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
    }
    if !is_test_cluster() {
        return;
    }
    let all = incarnations(&scene.namespace, pod);
    let start = |name: &str| {
        let found = all.iter().find(|i| i.container == name).and_then(|i| i.started);
        found.unwrap_or_else(|| panic!("{name} never started: {all:?}"))
    };
    let (db, api, web) = (start("db"), start("api"), start("web"));
    // db listens 4 s after its start, and api listens 2 s after its start. containerd records a start some ms after the
    // program's first instruction.
    assert!(api - db > 3950.0, "api started {:.0} ms after db", api - db);
    assert!(web - api > 1950.0, "web started {:.0} ms after api", web - api);
    let from = |at: f64| (at - start("podgate")) / 1000.0;
    scene.report(&format!("podgate +0.00 | db {:+.2} | api {:+.2} | web {:+.2}", from(db), from(api), from(web)));
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn example_pod_starts_in_order() {
    assert_example_starts("pod.yaml", "ordered");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn example_pod_in_hold_mode_starts_in_order() {
    assert_example_starts("pod-hold.yaml", "ordered-hold");
}

/// Returns the time at which the program behind the gate created its first directory, in milliseconds since 1970. The
/// container's start time is too early, because the container counts as running while its gate waits.
fn first_directory_time(run: &FollowedPod<'_>, container: &str) -> f64 {
    let pid = run.pid(container).unwrap_or_else(|| panic!("{container} does not run"));
    let path = format!("/proc/{pid}/root/tmp/www");
    let made = std::fs::metadata(&path).and_then(|found| found.modified());
    let made = made.unwrap_or_else(|error| panic!("{path}: {error}"));
    made.duration_since(UNIX_EPOCH).expect("a time after 1970").as_micros() as f64 / 1000.0
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn example_pod_with_gates_starts_in_order() {
    let (scene, text) = prepare("pod-entrypoint.yaml");
    let pod = "ordered-entrypoint";
    let run = scene.follow(pod);
    create(&scene.namespace, &text);
    let up = run.wait_until_up();
    let names = ["db", "api", "web"];
    for name in ["podgate"].iter().chain(&names) {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
    }
    if is_test_cluster() {
        let [db, api, web] = names.map(|name| first_directory_time(&run, name));
        // db listens 4 s after its start, and api listens 2 s after its start. The start is the timestamp of a
        // directory, which can be one clock tick early. The limits are therefore 50 ms shorter.
        assert!(api - db > 3950.0, "api started {:.0} ms after db", api - db);
        assert!(web - api > 1950.0, "web started {:.0} ms after api", web - api);
        scene.report(&format!("api {:+.2} and web {:+.2} s after db", (api - db) / 1000.0, (web - db) / 1000.0));
    }
    let logs = is_test_cluster().then(|| NodeLogs::follow(&scene.namespace, pod));
    let took = run.delete();
    scene.report(&format!("gone {:.2} s after its deletion", took / 1000.0));
    assert_eq!(run.killed(), "", "SIGTERM was ignored");
    if let Some(logs) = logs {
        for name in ["db", "api"] {
            let text = logs.text_of(name);
            assert!(text.contains("released: ") && !text.contains("timed out"), "{name}: {text}");
        }
    }
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn example_job_completes() {
    let (scene, text) = prepare("job.yaml");
    create(&scene.namespace, &text);
    eventually("the Job is complete", 120, || {
        let job = kubectl_json(&["-n", &scene.namespace, "get", "job", "ordered-job"]);
        let conditions = job["status"]["conditions"].as_array()?;
        let holds = |what| conditions.iter().any(|c| c["type"] == what && c["status"] == "True");
        assert!(!holds("Failed"), "{:#}", job["status"]);
        holds("Complete").then_some(())
    });
    let label = "batch.kubernetes.io/job-name=ordered-job";
    let pods = kubectl_json(&["-n", &scene.namespace, "get", "pods", "-l", label]);
    let pods = pods["items"].as_array().expect("a list");
    assert_eq!(pods.len(), 1, "the first Pod must succeed");
    let statuses = pods[0]["status"]["containerStatuses"].as_array().expect("a list");
    let terminated = |name: &str| &statuses.iter().find(|s| s["name"] == name).expect(name)["state"]["terminated"];
    for name in ["app", "proxy"] {
        assert_eq!(terminated(name)["exitCode"], 0, "{name}: {:#}", terminated(name));
    }
    scene.report(&format!(
        "app ended at {}, proxy at {}",
        terminated("app")["finishedAt"],
        terminated("proxy")["finishedAt"]
    ));
}
