//! The recipes of `docs/recipes.md`, with real programs from Debian's packages. In most recipes, the container that
//! waits exits with an error if it starts too early.

use crate::clock::{eventually, wall_ms};
use crate::cluster::{self, ROOT, kubectl, kubectl_json, minor_version};
use crate::injected::inject_manifest;
use crate::node_logs::NodeLogs;
use crate::scenario_view::{row, run_podgate, time_in_row};
use crate::scene::{FollowedPod, Scene, print_line};
use crate::watch::ObservedPod;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

const DEBIAN_IMAGE: &str = "docker.io/podgate/debian:dev";

/// Creates a scene, unless the cluster is too old for hold mode.
fn recipe_scene(name: &str) -> Option<Scene> {
    if minor_version() < 35 {
        print_line(&format!("{name}: skipped, because the recipe needs Kubernetes 1.35"));
        return None;
    }
    Some(Scene::shared(&format!("recipe-{name}")))
}

/// Injects and creates the objects of `docs/recipes/FILE`. Replaces addresses that do not exist in this cluster.
fn apply_recipe(scene: &Scene, file: &str, replacement: Option<(&str, &str)>) {
    scene.grant_pod_access();
    let mut text = fs::read_to_string(format!("{ROOT}/docs/recipes/{file}")).expect("a recipe");
    if let Some((from, to)) = replacement {
        assert!(text.contains(from), "{file}: no {from}");
        text = text.replace(from, to);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(file);
    fs::write(&path, text).expect("a file");
    let injected = inject_manifest(path.to_str().expect("a path"), &[]).unwrap_or_else(|error| panic!("{error}"));
    cluster::create(&scene.namespace, &injected);
}

/// Returns when `container` started its own program, in milliseconds since 1970.
fn start_time(run: &FollowedPod, row: &Value, container: &str) -> f64 {
    // A held container starts when the runtime starts it.
    if row["mode"] == "hold" && cluster::is_test_cluster() {
        return run.wait_for_start(container, 1);
    }
    time_in_row(row, "started")
}

/// Waits until the Pod has started. Asserts that no container restarted, and that each container of `order` started
/// only after the previous one was Ready.
fn assert_started_in_order(run: &FollowedPod, order: &[&str]) {
    let up = run.wait_until_up();
    for name in order {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}: {:#}", up.pod["status"]);
    }
    let (code, text) = run_podgate(run, &["timeline", "-o", "json"]);
    assert_eq!(code, 0, "{text}");
    let timeline: Value = serde_json::from_str(&text).expect("JSON");
    let mut waits = Vec::new();
    for pair in order.windows(2) {
        let late = start_time(run, row(&timeline, pair[1]), pair[1]) - time_in_row(row(&timeline, pair[0]), "ready");
        assert!(late >= 0.0, "order broken: {} started {:.1} ms before {} was Ready", pair[1], -late, pair[0]);
        waits.push(format!("{} {late:.0} ms after {}", pair[1], pair[0]));
    }
    run.scene.report(&waits.join(", "));
}

/// Deletes the Pod, and asserts that no container uses up its grace period.
fn delete_in_time(run: &FollowedPod) {
    let begin = wall_ms();
    kubectl(&["-n", &run.scene.namespace, "delete", "pod", &run.pod, "--wait=true", "--timeout=60s"]);
    let took = wall_ms() - begin;
    assert!(took < 20_000.0, "the Pod stopped after {took:.0} ms: a container used up its grace period");
}

/// Starts, checks and stops the Pod `shop` of a recipe.
fn run_recipe(name: &str, replacement: Option<(&str, &str)>, order: &[&str]) {
    let Some(scene) = recipe_scene(name) else { return };
    run_in(&scene, name, replacement, order);
}

fn run_in(scene: &Scene, name: &str, replacement: Option<(&str, &str)>, order: &[&str]) {
    apply_recipe(scene, &format!("{name}.yaml"), replacement);
    let run = scene.follow("shop");
    assert_started_in_order(&run, order);
    delete_in_time(&run);
}

/// Starts a Pod outside the recipe that serves `port` with `script`, and returns its IP address.
fn serve(scene: &Scene, script: &str, port: u16) -> String {
    let probe = json!({"tcpSocket": {"port": port}, "periodSeconds": 1});
    let volumes = json!([{"name": "tls", "secret": {"secretName": "server-tls", "optional": true}}]);
    let container = json!({"name": "server", "image": DEBIAN_IMAGE, "command": ["bash", "-euc", script],
        "readinessProbe": probe, "volumeMounts": [{"name": "tls", "mountPath": "/tls"}]});
    let spec = json!({"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 1});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "server"}, "spec": spec});
    cluster::create(&scene.namespace, &pod.to_string());
    let up = scene.follow("server").watch.wait_until("the server is Ready", 60, ObservedPod::is_ready);
    up.pod["status"]["podIP"].as_str().expect("an address").to_owned()
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_postgres_with_pgbouncer() {
    run_recipe("pgbouncer", None, &["postgres", "pgbouncer", "app"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_nginx_with_php_fpm() {
    run_recipe("php-fpm", None, &["php-fpm", "nginx"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_haproxy() {
    run_recipe("haproxy", None, &["app", "haproxy"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_redis() {
    run_recipe("redis", None, &["redis", "app"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_a_certificate() {
    run_recipe("certificate", None, &["certs", "nginx"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_git_sync() {
    let Some(scene) = recipe_scene("git-sync") else { return };
    let script = "git init --quiet /srv/site.git && cd /srv/site.git && echo hello >index.html && git add . \
        && git -c user.name=test -c user.email=test@example.com commit --quiet --message test \
        && exec git daemon --export-all --base-path=/srv --reuseaddr";
    let server = format!("git://{}", serve(&scene, script, 9418));
    run_in(&scene, "git-sync", Some(("https://git.example.com", &server)), &["git", "nginx"]);
}

/// `app` needs 2 s to stop. Without a stop order, `rsyslogd` would exit before the last line.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_a_log_shipper() {
    let Some(scene) = recipe_scene("log-shipper") else { return };
    apply_recipe(&scene, "log-shipper.yaml", None);
    let run = scene.follow("shop");
    assert_started_in_order(&run, &["rsyslog", "app"]);
    if !cluster::is_test_cluster() {
        return;
    }
    let logs = NodeLogs::follow(&scene.namespace, "shop");
    eventually("the log of rsyslog is found", 20, || logs.text_of("rsyslog").contains(" app").then_some(()));
    delete_in_time(&run);
    let shipped = logs.text_of("rsyslog");
    for line in ["serving on port 8080", "finishing", "stopped"] {
        let is_shipped = shipped.lines().any(|shipped| shipped.contains(" app") && shipped.ends_with(line));
        assert!(is_shipped, "not shipped: {line:?}\n{shipped}");
    }
}

/// The report reads a page through the tunnel once. A failure would fail the Job, which must also end.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_stunnel_in_a_job() {
    let Some(scene) = recipe_scene("stunnel-job") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (key, certificate) = (at("tls.key"), at("tls.crt"));
    let host = "subjectAltName=DNS:files.example.com";
    let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=files.example.com"];
    let mut openssl = Command::new("openssl");
    openssl.args(request).args(["-addext", host, "-keyout", &key, "-out", &certificate]);
    let output = openssl.output().expect("openssl runs");
    assert!(output.status.success(), "{output:?}");
    let create = |name: &str, files: &[String]| {
        let arguments = ["-n", &scene.namespace, "create", "secret", "generic", name];
        kubectl(&[&arguments[..], &files.iter().map(String::as_str).collect::<Vec<_>>()].concat());
    };
    create("server-tls", &[format!("--from-file={key}"), format!("--from-file={certificate}")]);
    create("files-ca", &[format!("--from-file=ca.crt={certificate}")]);
    let server = serve(&scene, "exec openssl s_server -accept 443 -cert /tls/tls.crt -key /tls/tls.key -www", 443);

    apply_recipe(&scene, "stunnel-job.yaml", Some(("files.example.com:443", &format!("{server}:443"))));
    eventually("the Job is complete", 90, || {
        let job = kubectl_json(&["-n", &scene.namespace, "get", "job", "report"]);
        let conditions = job["status"]["conditions"].as_array()?;
        let holds = |what| conditions.iter().any(|c| c["type"] == what && c["status"] == "True");
        assert!(!holds("Failed"), "{:#}", job["status"]);
        holds("Complete").then_some(())
    });
    let page = kubectl(&["-n", &scene.namespace, "logs", "job/report", "-c", "report"]);
    assert!(page.contains("s_server"), "{page}");
}
