//! Tests the recipes of `docs/recipes.md`, with real programs from Debian's packages. The programs' own logs and files
//! show the order.

use self::Sign::{Container, File, Log};
use crate::clock::eventually;
use crate::cluster::{self, DEBIAN_IMAGE, ROOT, kubectl, kubectl_json, minor_version};
use crate::injected::inject_manifest;
use crate::node_logs::NodeLogs;
use crate::scene::{FollowedPod, Scene, skip};
use crate::watch::ObservedPod;
use serde_json::json;
use std::fs;
use std::process::Command;
use std::time::UNIX_EPOCH;

/// Creates a scene, unless the cluster is too old for hold mode.
fn recipe_scene(name: &str) -> Option<Scene> {
    if minor_version() < 35 {
        skip(name, "the recipe needs Kubernetes 1.35");
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

/// Sign of a moment in a container's run. The sign comes from the program or from the runtime, never from podgate.
#[derive(Clone, Copy)]
enum Sign {
    /// First line of the program's log that contains this text.
    Log(&'static str),
    /// Last change of a file that the program writes.
    File(&'static str),
    /// Start of the container. The kubelet holds the container, so the container's first process is its own program.
    Container,
}

impl Sign {
    /// Returns the time in milliseconds since 1970.
    fn time(self, run: &FollowedPod, container: &str) -> f64 {
        let place = ["-n", &run.scene.namespace, &run.pod, "-c", container];
        match self {
            Sign::Container if cluster::is_test_cluster() => run.wait_for_start(container, 1),
            Sign::Container => {
                let pod = kubectl_json(&["-n", &run.scene.namespace, "get", "pod", &run.pod]);
                let mut statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
                let status = statuses.find(|status| status["name"] == container).expect("a status");
                // The kubelet reports whole seconds.
                parse_time(status["state"]["running"]["startedAt"].as_str().expect("a running container")) + 999.0
            }
            Sign::Log(text) => {
                let log = kubectl(&[&["logs", "--timestamps"], &place[..]].concat());
                let line = log.lines().find(|line| line.contains(text));
                time_of_line(line.unwrap_or_else(|| panic!("{container} did not log {text:?}: {log}")))
            }
            Sign::File(path) => {
                let stat = kubectl(&[&["exec"], &place[..], &["--", "stat", "-c", "%.9Z", path]].concat());
                stat.trim().parse::<f64>().expect("seconds") * 1000.0
            }
        }
    }
}

/// Parses an RFC 3339 time to milliseconds since 1970.
fn parse_time(text: &str) -> f64 {
    let at = humantime::parse_rfc3339(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    at.duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs_f64() * 1000.0
}

/// Returns the time at which the program wrote the line, from the line's own time of day. If the line has no such time,
/// or only whole seconds, returns the time at which the runtime read the line. On a busy node, that time may be late.
/// Both times are in UTC.
fn time_of_line(line: &str) -> f64 {
    const DAY_MS: f64 = 86_400_000.0;
    let (stamp, text) = line.split_once(' ').expect("a time and a message");
    let read = parse_time(stamp);
    let time_of_day = |word: &str| {
        let fields: Vec<f64> = word.split(':').filter_map(|field| field.parse().ok()).collect();
        let &[hours, minutes, seconds] = &fields[..] else { return None };
        Some((hours * 3600.0 + minutes * 60.0 + seconds) * 1000.0)
    };
    let Some(written) = text.split(' ').filter(|word| word.contains('.')).find_map(time_of_day) else { return read };
    let at = read - read % DAY_MS + written;
    // The program may have written the line before midnight.
    if at > read + DAY_MS / 2.0 { at - DAY_MS } else { at }
}

#[test]
fn line_has_the_time_of_its_program() {
    let seconds = |line: &str| (time_of_line(line) - parse_time("2026-11-24T00:00:00Z")) / 1000.0;
    for (line, expected) in [
        ("2026-11-24T00:00:09.5Z 2026-11-24 00:00:09.250 UTC [1] LOG listening on 0.0.0.0:6432", 9.25),
        ("2026-11-24T00:00:09.5Z [24-Nov-2026 00:00:09] NOTICE: ready to handle connections", 9.5),
        ("2026-11-24T00:00:09.5Z 8:M 24 Nov 2026 00:00:09.125 * Ready to accept connections", 9.125),
        ("2026-11-24T00:00:09.5Z 00:00:09.375 serving on port 8080", 9.375),
        ("2026-11-24T00:00:00.5Z 23:59:59.500 serving on port 8080", -0.5),
        ("2026-11-24T00:00:09.5Z [NOTICE]   (1) : New worker (14) forked", 9.5),
    ] {
        assert_eq!(seconds(line), expected, "{line}");
    }
}

/// A container, the sign of its start, and the sign that the container meets the condition of the next one.
type Step = (&'static str, Sign, Sign);

/// Returns each container's delay in milliseconds: from the time when its condition was met to its start. Omits the
/// first container.
fn delays(run: &FollowedPod, order: &[Step]) -> Vec<f64> {
    let delay = |pair: &[Step]| pair[1].1.time(run, pair[1].0) - pair[0].2.time(run, pair[0].0);
    order.windows(2).map(delay).collect()
}

/// Waits until the Pod has started. Asserts that no container restarted, and that each container of `order` started
/// only after the previous one met its condition.
fn assert_started_in_order(run: &FollowedPod, order: &[Step]) {
    assert_in_order(run, &run.wait_until_up(), order);
}

/// Asserts the same in a Pod that has started or ended.
fn assert_in_order(run: &FollowedPod, seen: &ObservedPod, order: &[Step]) {
    let mut report = Vec::new();
    for (name, ..) in order {
        assert_eq!(seen.kubelet_status(name)["restartCount"], 0, "{name}: {:#}", seen.pod["status"]);
    }
    for (delay, pair) in delays(run, order).into_iter().zip(order.windows(2)) {
        let ((before, ..), (after, ..)) = (pair[0], pair[1]);
        assert!(delay >= 0.0, "order broken: {after} started {:.1} ms before {before} met its condition", -delay);
        report.push(format!("{after} {delay:.0} ms after {before}"));
    }
    run.scene.report(&report.join(", "));
}

/// Deletes the Pod when `container` has logged `first`. Asserts that no container was killed, and returns the whole log
/// of `container`.
fn delete_and_read_log(run: &FollowedPod, container: &str, first: &str) -> String {
    let logs = NodeLogs::follow(&run.scene.namespace, &run.pod);
    let is_found = || logs.text_of(container).contains(first).then_some(());
    eventually(&format!("the log of {container} is found"), 20, is_found);
    run.delete();
    assert_eq!(run.killed(), "");
    logs.text_of(container)
}

const APP: Step = ("app", Container, Log("serving on port 8080"));
const NGINX: Step = ("nginx", Container, File("/run/nginx.pid"));
const PHP_FPM: Step = ("php-fpm", Container, Log("ready to handle connections"));

/// Returns the step of a container that runs HAProxy. HAProxy listens when it has started its worker.
const fn haproxy(container: &'static str) -> Step {
    (container, Log("New worker"), Log("New worker"))
}

/// Returns the step of a container that runs Redis.
const fn redis(container: &'static str) -> Step {
    (container, Log("Redis is starting"), Log("Ready to accept connections"))
}

/// Starts, checks and stops the Pod `shop` of a recipe.
fn run_recipe(name: &str, replacement: Option<(&str, &str)>, order: &[Step]) {
    let Some(scene) = recipe_scene(name) else { return };
    run_in(&scene, name, replacement, order);
}

fn run_in(scene: &Scene, name: &str, replacement: Option<(&str, &str)>, order: &[Step]) {
    apply_recipe(scene, &format!("{name}.yaml"), replacement);
    let run = scene.follow("shop");
    assert_started_in_order(&run, order);
    run.delete();
    assert_eq!(run.killed(), "");
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
    let postgres = ("postgres", Container, Log("listening on IPv4 address"));
    let pgbouncer = ("pgbouncer", Container, Log("listening on 0.0.0.0:6432"));
    run_recipe("pgbouncer", None, &[postgres, pgbouncer, APP]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_nginx_with_php_fpm() {
    run_recipe("php-fpm", None, &[PHP_FPM, NGINX]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_haproxy() {
    run_recipe("haproxy", None, &[APP, haproxy("haproxy")]);
}

/// Creates two recipes without podgate. Both list the waiting container first, so the signs must show a broken order.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn signs_of_the_recipes_show_a_broken_order() {
    if !Scene::can_inject_faults("recipe-without") {
        return;
    }
    for (name, order) in [("php-fpm", [PHP_FPM, NGINX]), ("haproxy", [APP, haproxy("haproxy")])] {
        let scene = Scene::shared(&format!("recipe-without-{name}"));
        kubectl(&["-n", &scene.namespace, "create", "-f", &format!("{ROOT}/docs/recipes/{name}.yaml")]);
        let run = scene.follow("shop");
        run.watch.wait_until("the Pod is Ready", 90, ObservedPod::is_ready);
        let late = delays(&run, &order)[0];
        assert!(late < 0.0, "{name}: the dependent started {late:.0} ms after its dependency");
    }
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_redis() {
    run_recipe("redis", None, &[redis("redis"), APP]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_a_cache() {
    run_recipe("cache", None, &[redis("redis"), APP]);
}

/// Redis never becomes Ready. `app` starts at its time limit, but `worker` keeps waiting.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_a_cache_that_is_missing() {
    let Some(scene) = recipe_scene("cache-missing") else { return };
    apply_recipe(&scene, "cache.yaml", Some((r#"redis-server, --save, """#, "sleep, infinity")));
    let run = scene.follow("shop");
    let up = run.watch.wait_until("app is Ready", 60, |seen| seen.kubelet_status("app")["ready"] == true);
    assert_eq!(up.podgate_state("worker"), Some("Waiting"));
    assert_eq!(up.kubelet_status("app")["restartCount"], 0);
    let waited = APP.2.time(&run, "app") - run.wait_for_start("redis", 1);
    scene.report(&format!("app {waited:.0} ms after the start of redis"));
    assert!(waited >= 8000.0, "app must wait for its time limit: {waited:.0} ms");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_a_certificate() {
    let certificate = File("/certs/tls.crt");
    run_recipe("certificate", None, &[("certs", certificate, certificate), NGINX]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_git_sync() {
    let Some(scene) = recipe_scene("git-sync") else { return };
    let script = "git init --quiet /srv/site.git && cd /srv/site.git && echo hello >index.html && git add . \
        && git -c user.name=test -c user.email=test@example.com commit --quiet --message test \
        && exec git daemon --export-all --base-path=/srv --reuseaddr";
    let server = format!("git://{}", serve(&scene, script, 9418));
    let page = File("/site/index.html");
    run_in(&scene, "git-sync", Some(("https://git.example.com", &server)), &[("git", page, page), NGINX]);
}

/// `app` needs 2 s to stop. Without a stop order, `rsyslogd` would exit before `app` writes its last line.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_a_log_shipper() {
    let Some(scene) = recipe_scene("log-shipper") else { return };
    apply_recipe(&scene, "log-shipper.yaml", None);
    let run = scene.follow("shop");
    let running = Log("running as pid 1");
    // Before the Pod stops, app writes only the first line of its log.
    let first_line = File("/logs/app.log");
    assert_started_in_order(&run, &[("rsyslog", running, running), ("app", first_line, first_line)]);
    if !cluster::is_test_cluster() {
        return;
    }
    let shipped = delete_and_read_log(&run, "rsyslog", " app");
    for line in ["serving on port 8080", "finishing", "stopped"] {
        let is_shipped = shipped.lines().any(|shipped| shipped.contains(" app") && shipped.ends_with(line));
        assert!(is_shipped, "not shipped: {line:?}\n{shipped}");
    }
}

/// `report` reads a page through the tunnel once. If `report` failed, the Job would fail. The Job must also end.
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

/// `router` exits with an error if the model does not answer.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_a_router_with_its_model() {
    let listening = File("/run/nginx.pid");
    run_recipe("inference", None, &[("model", listening, listening), ("router", Log("connected"), APP.2)]);
}

/// Answers only requests with the credentials.
const GATEWAY: &str = r#"exec python3 -c '
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.headers["Authorization"] == "Bearer secret" else 401)
        self.end_headers()
HTTPServer(("", 8080), Handler).serve_forever()
'"#;

/// `sandbox` exits with an error if its first request fails, for example because it has no credentials.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_a_sandbox_with_a_credential_proxy() {
    let Some(scene) = recipe_scene("credential-proxy") else { return };
    let secret = ["create", "secret", "generic", "gateway", "--from-literal=token=secret"];
    kubectl(&[&["-n", &scene.namespace], &secret[..]].concat());
    let gateway = format!("{}:8080", serve(&scene, GATEWAY, 8080));
    let order = [haproxy("proxy"), ("sandbox", APP.1, APP.2)];
    run_in(&scene, "credential-proxy", Some(("gateway.example.com:8080", &gateway)), &order);
}

/// No kubelet probe can reach the proxy. `app` exits with an error if the database does not answer.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_a_proxy_on_the_loopback_address() {
    let Some(scene) = recipe_scene("loopback") else { return };
    let database = format!("{}:5432", serve(&scene, "exec docker-entrypoint.sh postgres", 5432));
    run_in(&scene, "loopback", Some(("db.example.com:5432", &database)), &[haproxy("proxy"), APP]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_consul_dataplane() {
    run_recipe("consul", None, &[haproxy("consul-dataplane"), APP]);
}

/// `app` sends its last span 2 s after SIGTERM. Without a stop order, the collector would have exited by then.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_a_collector() {
    let Some(scene) = recipe_scene("collector") else { return };
    apply_recipe(&scene, "collector.yaml", None);
    let run = scene.follow("shop");
    let (listening, sent) = (File("/run/nginx.pid"), Log("sent the first span"));
    assert_started_in_order(&run, &[("collector", listening, listening), ("app", sent, sent)]);
    if !cluster::is_test_cluster() {
        return;
    }
    let received = delete_and_read_log(&run, "collector", "traces?started");
    assert!(received.contains("traces?stopped"), "the last span is missing\n{received}");
}

/// `app` waits for the four conditions of ECS. It exits with an error if the migration has not run.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn recipe_of_the_conditions_of_ecs() {
    let Some(scene) = recipe_scene("ecs") else { return };
    apply_recipe(&scene, "ecs.yaml", None);
    let run = scene.follow("shop");
    let ended = run.watch.wait_until("the Pod has succeeded", 90, |seen| seen.pod["status"]["phase"] == "Succeeded");
    let app = ("app", Log("starting"), Log("starting"));
    let migrate = ("migrate", Log("starting"), Log("migrated"));
    let (agent, warmup) = (("agent", Log("running"), Log("running")), ("warmup", Log("warm"), Log("warm")));
    for order in [&[redis("db"), migrate, app][..], &[agent, app], &[warmup, app]] {
        assert_in_order(&run, &ended, order);
    }
}
