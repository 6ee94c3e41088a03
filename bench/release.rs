//! Measures on a real kubelet the time from Ready to the first instruction of the waiting container. Compares podgate's
//! modes with common alternatives. Each round measures all of them. The predecessor becomes Ready 1 to 4 s after its
//! start, at a random moment in each round.
//!
//! ```text
//! tests/kubelet/prepare && cargo bench --bench release [-- [--awake] [--pods=N] [--cpu-limit=QUANTITY] ROUNDS [WORDS...]]
//! ```
//!
//! WORDS limit the benchmark to rows whose label contains one of these words. `--awake` keeps processors from halting.
//! Use this option if the hypervisor gives halted processors to other machines. `--pods` creates several Pods at the
//! same time. `--cpu-limit` adds rows with a sidecar that has this CPU request and limit.
//!
//! The second group of columns is podgate's share. It begins when the predecessor is Ready and the gate or hook waits.
//! It ends when the gate or hook releases the container. The rest is the time of the kubelet and the runtime.

mod awake;
#[allow(dead_code, reason = "shared with the scenarios")]
#[path = "../tests/kubelet/clock.rs"]
mod clock;
#[allow(dead_code, reason = "shared with the scenarios")]
#[path = "../tests/kubelet/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with the scenarios")]
#[path = "../tests/kubelet/pod.rs"]
mod pod;
mod quantile;
mod steal;

/// Replaces the tests' module `scene`, through which the module `cluster` prints messages. Prints to standard error.
mod scene {
    pub(crate) fn print_line(line: &str) {
        eprintln!("{line}");
    }
}

use clock::{eventually, wall_ms};
use cluster::{BUSYBOX_IMAGE, TESTSERVER_IMAGE, kubectl, run_script, try_kubectl};
use pod::{Container, Pod, server};
use quantile::{median, quantile};
use serde_json::{Value, json};
use std::time::Duration;

const NAMESPACE: &str = "bench-release";
const PORT: u16 = 8001;

/// Maximum share of processor time that the hypervisor may take during one start. Above this share, the benchmark
/// repeats the start.
const MAX_STOLEN: f64 = 0.02;
/// Maximum number of tries for one start.
const TRIES: usize = 10;

/// Time within which a Pod without any wait starts.
const START_TIME: Duration = Duration::from_millis(2500);

/// One way to make `app` wait for `db`.
struct Way {
    label: &'static str,
    /// Container whose log has the lines of podgate's gate or hook.
    agent: Option<&'static str>,
    /// Creates the Pod. The argument is the time from the start of `db` until `db` is Ready, in milliseconds.
    pod: fn(u64) -> Value,
    /// Longest pause of the kubelet between two probes of `db`, if `app` waits for the kubelet's probe; otherwise zero.
    probe_period: Duration,
}

impl Way {
    const fn podgate(label: &'static str, agent: &'static str, pod: fn(u64) -> Value) -> Way {
        Way { label, agent: Some(agent), pod, probe_period: Duration::ZERO }
    }

    /// Creates a way in which `app` waits for the kubelet's probe of `db`. The kubelet runs this probe every `seconds`.
    const fn probed(label: &'static str, seconds: u64, pod: fn(u64) -> Value) -> Way {
        Way { label, agent: None, pod, probe_period: Duration::from_secs(seconds) }
    }

    const fn other(label: &'static str, pod: fn(u64) -> Value) -> Way {
        Way { label, agent: None, pod, probe_period: Duration::ZERO }
    }
}

/// One row of the table.
struct Row {
    way: &'static Way,
    /// CPU request and limit of the sidecar; `None` for the default.
    cpu_limit: Option<String>,
    times: Vec<Times>,
}

impl Row {
    fn label(&self) -> String {
        let limit = self.cpu_limit.as_ref().map(|limit| format!(" (CPU limit {limit})"));
        format!("{}{}", self.way.label, limit.unwrap_or_default())
    }
}

/// Times of one Pod, in milliseconds.
struct Times {
    /// From Ready to the first instruction of the waiting container.
    total: f64,
    /// Podgate's share of `total`. `None` for other tools, or if the log lacks the agent's lines.
    own: Option<f64>,
}

static WAYS: [Way; 20] = [
    Way::podgate("podgate, entrypoint: the server is Ready when it listens", "app", |ms| gates(ready_on_listen(ms))),
    Way::podgate("podgate, entrypoint: the server answers 503 at first", "app", |ms| gates(answers_503_first(ms))),
    Way::other("podgate, no sidecar: the server is Ready when it listens", |ms| asks(ready_on_listen(ms))),
    Way::other("podgate, no sidecar: the server answers 503 at first", |ms| asks(answers_503_first(ms))),
    Way::podgate("podgate, entrypoint: the server answers each request after 200 ms", "app", |ms| {
        gates(ready_on_listen(ms).args(&["--answer-after", "200ms"]))
    }),
    Way::podgate("podgate, entrypoint: exec probe every 10 s (default)", "app", gates_with_exec_probe),
    Way::podgate("podgate, post-start: the server is Ready when it listens", "db", |ms| hooks(ready_on_listen(ms))),
    Way::podgate("podgate, hold: the server is Ready when it listens", "podgate", |ms| holds(ready_on_listen(ms))),
    Way::podgate("podgate, hold: exec probe every second", "podgate", |ms| holds(exec_probe(ms, 1))),
    Way::podgate("podgate, hold: exec probe every 10 s (default)", "podgate", |ms| holds(exec_probe(ms, 10))),
    Way::other("podgate, hold without the API: HTTP probe every second", |ms| without_api(ready_on_listen(ms))),
    Way::other("podgate, hold without the API: HTTP probe every 10 s", |ms| {
        without_api(ready_on_listen(ms).with(json!({"readinessProbe": {"periodSeconds": 10}})))
    }),
    Way::other("podgate, hold without the API: exec probe every 10 s", |ms| without_api(exec_probe(ms, 10))),
    Way::other("hold by hand: a readinessProbe that waits and then writes the file", hold_by_probe),
    Way::other("postStart hook that waits for a file (inotify)", file_hook),
    Way::other("wrapper that waits for a file (inotify)", inotify_wrapper),
    Way::other("wrapper that checks for a file every second", polling_wrapper),
    Way::other("postStart hook that polls the server every 0.5 s (as service meshes do)", polling_hook),
    Way::other("native sidecar with a startupProbe every second", |ms| native_sidecar(db(ms, &[]), http_check())),
    Way::probed("native sidecar with an exec startupProbe every second", 1, |ms| {
        native_sidecar(db(ms, &["--touch", READY_FILE]), exec_check(READY_FILE))
    }),
];

fn main() {
    let Some(awake) = awake::Awake::keep() else { return };
    // Ignore the argument --bench, which cargo adds.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let rounds = words.first().map_or(30, |word| word.parse().expect("a number of rounds"));
    let wanted = words.get(1..).unwrap_or_default();
    let is_wanted = |way: &&Way| wanted.is_empty() || wanted.iter().any(|word| way.label.contains(word));
    let mut limits = vec![None];
    limits.extend(option("--cpu-limit").map(Some));
    let rows = |way: &'static Way| {
        let limits = limits.iter().filter(|limit| limit.is_none() || way.agent.is_some());
        limits.map(move |limit| Row { way, cpu_limit: limit.clone(), times: Vec::new() })
    };
    let mut rows: Vec<Row> = WAYS.iter().filter(is_wanted).flat_map(rows).collect();
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=true"]);
    cluster::install_manifests();
    run_script(&["namespace", NAMESPACE]);
    let group = format!("--group=system:serviceaccounts:{NAMESPACE}");
    kubectl(&["-n", NAMESPACE, "create", "rolebinding", "podgate", "--clusterrole=podgate-sidecar", &group]);
    let count = option("--pods").map_or(1, |n| n.parse().expect("a number of Pods"));
    let mut pods = 0..;
    let (mut repeated, mut disturbed) = (0, 0);
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for row in &mut rows {
            for attempt in 1..=TRIES {
                let names: Vec<String> = pods.by_ref().take(count).map(|n: u32| format!("pod-{n}")).collect();
                let (started, stolen) = start_pods(row, &names);
                if stolen > MAX_STOLEN && attempt < TRIES {
                    repeated += 1;
                    continue;
                }
                disturbed += usize::from(stolen > MAX_STOLEN);
                row.times.extend(started);
                break;
            }
        }
    }
    println!(
        "Kubernetes 1.{}, {rounds} rounds of {count} Pods, interleaved; from Ready to the first instruction, ms",
        cluster::minor_version()
    );
    if repeated > 0 {
        let share = MAX_STOLEN * 100.0;
        println!(
            "repeated, because the hypervisor took more than {share} % of the processors: {repeated}; counted nevertheless: {disturbed}"
        );
    }
    drop(awake);
    println!("{:<72} {:>8} {:>8} {:>8}   podgate: {:>8} {:>8}", "", "median", "95th", "longest", "median", "95th");
    for row in &rows {
        let all: Vec<f64> = row.times.iter().map(|times| times.total).collect();
        let own: Vec<f64> = row.times.iter().filter_map(|times| times.own).collect();
        let own =
            if own.is_empty() { String::new() } else { format!("{:>8.1} {:>8.1}", median(&own), quantile(&own, 0.95)) };
        println!(
            "{:<72} {:>8.1} {:>8.1} {:>8.1}            {own}",
            row.label(),
            median(&all),
            quantile(&all, 0.95),
            quantile(&all, 1.0)
        );
    }
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]);
}

/// Returns the value of an argument `NAME=VALUE`.
fn option(name: &str) -> Option<String> {
    std::env::args().find_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// Returns a random time from 1000 to 4000 ms, which is independent of all polling periods.
fn random_delay() -> u64 {
    let noise = (wall_ms() * 1000.0) as u64;
    1000 + noise.wrapping_mul(6_364_136_223_846_793_005).rotate_left(24) % 3000
}

fn ready_on_listen(ms: u64) -> Container {
    server("db").http(PORT).args(&["--listen-after", &format!("{ms}ms")])
}

fn answers_503_first(ms: u64) -> Container {
    server("db").http(PORT).ready_after(&format!("{ms}ms"))
}

/// File that `db` creates when `db` is Ready, in a Pod with podgate.
const SELF_READY_FILE: &str = "/podgate-self/ready";

/// Returns a server with the image's own command, and with a readiness probe that only the kubelet can run.
fn exec_probe(ms: u64, period: u32) -> Container {
    let db = server("db").ready_after(&format!("{ms}ms")).args(&["--touch", SELF_READY_FILE]);
    db.wrapped_probe(&["/testserver", "check", SELF_READY_FILE])
        .with(json!({"readinessProbe": {"periodSeconds": period}}))
}

fn asks(db: Container) -> Value {
    let app = server("app").asking(&[&db], &[]);
    Pod::new("pod", [db, app]).json()
}

fn gates(db: Container) -> Value {
    Pod::new("pod", [db.gate(&[]), server("app").gate(&["--until", "db"])]).json()
}

/// Returns a Pod with gates in which podgate, as the parent of `db`, runs the exec probe of `db`.
fn gates_with_exec_probe(ms: u64) -> Value {
    let db = server("db").ready_after(&format!("{ms}ms")).args(&["--touch", SELF_READY_FILE]);
    let db = db.probe(exec_check(SELF_READY_FILE)).with(json!({"readinessProbe": {"periodSeconds": 10}}));
    let check = format!(r#"exec:["/testserver","check","{SELF_READY_FILE}"]"#);
    Pod::new("pod", [db.gate(&["--tether", "parent", "--ready-check", &check]), server("app").gate(&["--until", "db"])])
        .json()
}

fn hooks(db: Container) -> Value {
    // `app` has no hook and no gate, so it needs no volumes from podgate.
    Pod::new("pod", [db.hook(&[]), server("app").with(json!({"volumeMounts": []}))]).json()
}

fn holds(db: Container) -> Value {
    let pod = Pod::new("pod", [db, server("app").held(&["--until", "db"])]);
    pod.sidecar_args(&["--log-format", "json"]).json()
}

fn without_api(db: Container) -> Value {
    let pod = Pod::new("pod", [db, server("app").held(&["--until", "db"])]);
    pod.sidecar_args(&["--publish", "none"]).without_token().json()
}

/// Returns a Pod without podgate in which the probe of `db` opens the gate of `app`. The kubelet syncs the Pod when the
/// probe passes, and then creates `app`.
fn hold_by_probe(ms: u64) -> Value {
    let mut db = db(ms, &["--touch", READY_FILE]);
    let command = json!({"command": ["/tools/busybox", "sh", "-c", WRITE_GATE]});
    db["readinessProbe"] = json!({"exec": command, "periodSeconds": 10, "timeoutSeconds": 300});
    plain(json!([db, held_by_hand()]), Value::Null)
}

/// Script that waits until `db` is Ready, and then writes the gate file.
const WRITE_GATE: &str = "until [ -e /shared/ready ]; do /tools/busybox sleep 0.01; done; \
                          echo \"OPEN='yes'\" > /shared/.gate; /tools/busybox mv /shared/.gate /shared/gate";

fn held_by_hand() -> Value {
    let mut app = program("app", &[]);
    let from = json!({"volumeName": "shared", "path": "gate", "key": "OPEN"});
    app["env"] = json!([{"name": "GATE", "valueFrom": {"fileKeyRef": from}}]);
    app
}

/// File that `db` creates when `db` is Ready, in a Pod without podgate.
const READY_FILE: &str = "/shared/ready";

const POLLING: &str = "until [ -e /shared/ready ]; do /tools/busybox sleep 1; done; exec /testserver";

/// Creates a Pod without podgate. Its security context is the same as in the Pods with podgate. The Pod has a volume
/// for files, and an init container that copies busybox for the scripts.
fn plain(containers: Value, native_sidecars: Value) -> Value {
    let mounts = json!([{"name": "tools", "mountPath": "/tools"}, {"name": "shared", "mountPath": "/shared"}]);
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "initContainers": [{"name": "tools", "image": BUSYBOX_IMAGE, "command": ["cp", "/bin/busybox", "/tools/"]}],
            "containers": containers,
            "volumes": [{"name": "tools", "emptyDir": {"medium": "Memory"}}, {"name": "shared", "emptyDir": {"medium": "Memory"}}],
        },
    });
    if let Some(native_sidecars) = native_sidecars.as_array() {
        pod["spec"]["initContainers"].as_array_mut().expect("a list").extend(native_sidecars.iter().cloned());
    }
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().expect("a list") {
            container["volumeMounts"] = mounts.clone();
        }
    }
    pod
}

fn program(name: &str, arguments: &[&str]) -> Value {
    json!({"name": name, "image": TESTSERVER_IMAGE, "args": arguments})
}

fn db(ms: u64, more: &[&str]) -> Value {
    let (port, after) = (PORT.to_string(), format!("{ms}ms"));
    program("db", &[&["--http", port.as_str(), "--ready-after", after.as_str()], more].concat())
}

fn polling_wrapper(ms: u64) -> Value {
    let mut app = program("app", &[]);
    app["command"] = json!(["/tools/busybox", "sh", "-c", POLLING]);
    plain(json!([db(ms, &["--touch", READY_FILE]), app]), Value::Null)
}

fn inotify_wrapper(ms: u64) -> Value {
    plain(json!([db(ms, &["--touch", READY_FILE]), program("app", &["await", READY_FILE])]), Value::Null)
}

/// Creates a Pod whose hook waits for a file. The hook does not use podgate, so the result is the time that the kubelet
/// and the runtime need for any hook.
fn file_hook(ms: u64) -> Value {
    let mut db = db(ms, &["--touch", READY_FILE]);
    let command = json!(["/testserver", "await", READY_FILE, "check", READY_FILE]);
    db["lifecycle"] = json!({"postStart": {"exec": {"command": command}}});
    plain(json!([db, program("app", &[])]), Value::Null)
}

fn polling_hook(ms: u64) -> Value {
    let mut db = db(ms, &[]);
    let script = format!(
        "until /tools/busybox wget -q -O /dev/null http://127.0.0.1:{PORT}/; do /tools/busybox sleep 0.5; done"
    );
    db["lifecycle"] = json!({"postStart": {"exec": {"command": ["/tools/busybox", "sh", "-c", script]}}});
    plain(json!([db, program("app", &[])]), Value::Null)
}

fn http_check() -> Value {
    json!({"httpGet": {"path": "/", "port": PORT}})
}

fn exec_check(file: &str) -> Value {
    json!({"exec": {"command": ["/testserver", "check", file]}})
}

fn native_sidecar(mut db: Value, check: Value) -> Value {
    db["restartPolicy"] = "Always".into();
    db["startupProbe"] = check;
    pod::merge(&mut db["startupProbe"], json!({"periodSeconds": 1, "failureThreshold": 60}));
    plain(json!([program("app", &[])]), json!([db]))
}

/// Creates all Pods at the same time. Returns each Pod's times, and the share of processor time that the hypervisor
/// stole during the start.
fn start_pods(row: &Row, names: &[String]) -> (Vec<Times>, f64) {
    let mut longest = 0;
    let create = |name: &String| {
        let ms = random_delay();
        longest = longest.max(ms);
        let mut pod = (row.way.pod)(ms);
        pod["metadata"]["name"] = name.as_str().into();
        if let Some(limit) = &row.cpu_limit {
            let resources = json!({"cpu": limit, "memory": "32Mi"});
            pod["spec"]["initContainers"][0]["resources"] = json!({"requests": resources, "limits": resources});
        }
        pod
    };
    let items: Vec<Value> = names.iter().map(create).collect();
    let before = steal::Time::now();
    cluster::create(NAMESPACE, &json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    // Do not poll before the start is over, because each kubectl call uses a processor for longer than the measured
    // time.
    let start_time = START_TIME * names.len().div_ceil(2) as u32;
    std::thread::sleep(Duration::from_millis(longest) + row.way.probe_period + start_time);
    let stolen = before.stolen_since();
    let times = names.iter().map(|name| read_times(row.way, name)).collect();
    // Wait for the deletion, because its work would slow down the next start.
    let arguments = ["-n", NAMESPACE, "delete", "pod", "--wait=true", "--grace-period=1"];
    kubectl(&arguments.into_iter().chain(names.iter().map(String::as_str)).collect::<Vec<_>>());
    (times, stolen)
}

fn read_times(way: &Way, pod: &str) -> Times {
    let start = eventually("the application's first line", 120, || event(pod, "app", "start"));
    let ready = eventually("the predecessor's line", 10, || event(pod, "db", "ready"));
    // The log lacks the agent's lines if the hook started before the container's first process had opened the log.
    let line = |message| agent_time(pod, way.agent?, message);
    let released = line("released").zip(line("waiting")).map(|(released, waiting)| released - ready.max(waiting));
    // The sidecar of a held container logs the accepted patch.
    let own = released.or_else(|| Some(line("patched the Pod")? - ready));
    // The agent logs whole milliseconds, so rounding can make the difference negative.
    Times { total: start - ready, own: own.map(|own| own.max(0.0)) }
}

fn event(pod: &str, container: &str, event: &str) -> Option<f64> {
    log(pod, container)?.iter().filter(|line| line["event"] == event).find_map(|line| line["ms"].as_f64())
}

/// Returns the time of the agent's first line that begins with `message`, in milliseconds since 1970.
fn agent_time(pod: &str, container: &str, message: &str) -> Option<f64> {
    let log = log(pod, container)?;
    let line = log.iter().find(|line| line["msg"].as_str().is_some_and(|text| text.starts_with(message)))?;
    let at = humantime::parse_rfc3339_weak(line["ts"].as_str()?).ok()?;
    Some(at.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64() * 1000.0)
}

fn log(pod: &str, container: &str) -> Option<Vec<Value>> {
    let log = try_kubectl(&["-n", NAMESPACE, "logs", pod, "-c", container]).ok()?;
    Some(log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
