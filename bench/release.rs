//! Measures on a real kubelet the time from Ready to the first instruction of the waiting container: podgate's two
//! modes and common alternatives, interleaved. The predecessor becomes Ready 1 to 4 s after its start, at a random
//! moment in each round.
//!
//! ```text
//! tests/kubelet/prepare && cargo bench --bench release [-- [--awake] ROUNDS [WORDS...]]
//! ```
//!
//! WORDS limit the benchmark to ways whose label contains one of these words. `--awake` keeps processors from halting.
//! Use this option if the hypervisor gives halted processors to other machines.

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
mod steal;

/// Prints messages of the cluster's helpers to standard error.
mod scene {
    pub(crate) fn print_line(line: &str) {
        eprintln!("{line}");
    }
}

use clock::{eventually, wall_ms};
use cluster::{BUSYBOX_IMAGE, TESTSERVER_IMAGE, kubectl, run_script, try_kubectl};
use pod::{Container, Pod, server};
use serde_json::{Value, json};
use std::time::Duration;

const NAMESPACE: &str = "bench-release";
const PORT: u16 = 8001;

/// Maximum share of processor time that the hypervisor may take during one start. Above this share, the start is
/// repeated.
const MAX_STOLEN: f64 = 0.02;
/// Maximum number of tries for one start.
const TRIES: usize = 10;

/// Time within which a Pod without any wait starts.
const START_TIME: Duration = Duration::from_millis(2500);

/// One way to make `app` wait for `db`.
struct Way {
    label: &'static str,
    /// Creates the Pod. The argument is the time from the start of `db` until `db` is Ready, in milliseconds.
    pod: fn(u64) -> Value,
}

const WAYS: [Way; 8] = [
    Way { label: "podgate, entrypoint: server is Ready as soon as it listens", pod: |ms| gates(ready_on_listen(ms)) },
    Way { label: "podgate, entrypoint: server answers 503 first", pod: |ms| gates(answers_503_first(ms)) },
    Way { label: "podgate, post-start: server is Ready as soon as it listens", pod: |ms| hooks(ready_on_listen(ms)) },
    Way { label: "postStart hook that returns when the server writes a file", pod: file_hook },
    Way { label: "inotify wrapper, waits for a file that the server writes", pod: inotify_wrapper },
    Way { label: "wrapper that looks every second for a file that the server writes", pod: polling_wrapper },
    Way { label: "postStart hook that asks the server every 0.5 s (as service meshes do)", pod: polling_hook },
    Way { label: "native sidecar with a startupProbe every second", pod: native_sidecar },
];

fn main() {
    let Some(awake) = awake::Awake::keep() else { return };
    // Ignore the argument --bench, which cargo adds.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let rounds = words.first().map_or(30, |word| word.parse().expect("a number of rounds"));
    let wanted = words.get(1..).unwrap_or_default();
    let is_wanted = |way: &&Way| wanted.is_empty() || wanted.iter().any(|word| way.label.contains(word));
    let ways: Vec<&Way> = WAYS.iter().filter(is_wanted).collect();
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=true"]);
    cluster::install_manifests();
    run_script(&["namespace", NAMESPACE]);
    let group = format!("--group=system:serviceaccounts:{NAMESPACE}");
    kubectl(&["-n", NAMESPACE, "create", "rolebinding", "podgate", "--clusterrole=podgate-sidecar", &group]);
    let mut times: Vec<Vec<f64>> = ways.iter().map(|_| Vec::new()).collect();
    let mut pods = 0..;
    let (mut repeated, mut disturbed) = (0, 0);
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for (way, times) in ways.iter().zip(&mut times) {
            for attempt in 1..=TRIES {
                let (time, stolen) = ready_to_first_instruction(way, pods.next().expect("a number"), random_delay());
                if stolen > MAX_STOLEN && attempt < TRIES {
                    repeated += 1;
                    continue;
                }
                disturbed += usize::from(stolen > MAX_STOLEN);
                times.push(time);
                break;
            }
        }
    }
    println!(
        "Kubernetes 1.{}, {rounds} rounds, interleaved; from Ready to the first instruction, ms",
        cluster::minor_version()
    );
    if repeated > 0 {
        let share = MAX_STOLEN * 100.0;
        println!(
            "repeated, because the hypervisor took more than {share} % of the processors: {repeated}; counted nevertheless: {disturbed}"
        );
    }
    drop(awake);
    println!("{:<72} {:>8} {:>8} {:>8}", "", "median", "95th", "longest");
    for (way, times) in ways.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
        println!("{:<72} {:>8.1} {:>8.1} {:>8.1}", way.label, at(0.5), at(0.95), at(1.0));
    }
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]);
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

fn gates(db: Container) -> Value {
    Pod::new("pod", [db.gate(&[]), server("app").gate(&["--until", "db"])]).json()
}

fn hooks(db: Container) -> Value {
    // `app` has no hook and no gate, so it needs no volumes from podgate.
    Pod::new("pod", [db.hook(&[]), server("app").with(json!({"volumeMounts": []}))]).json()
}

const POLLING: &str = "until [ -e /shared/ready ]; do /tools/busybox sleep 1; done; exec /testserver";

/// Creates a Pod without podgate, but with the same security context. The Pod has a volume for files. An init container
/// copies busybox for the scripts.
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
    plain(json!([db(ms, &["--touch", "/shared/ready"]), app]), Value::Null)
}

fn inotify_wrapper(ms: u64) -> Value {
    plain(json!([db(ms, &["--touch", "/shared/ready"]), program("app", &["await", "/shared/ready"])]), Value::Null)
}

/// Creates a Pod whose hook waits for a file. The hook does not use podgate, so the result is the time that every hook
/// needs for the kubelet and the runtime.
fn file_hook(ms: u64) -> Value {
    const FILE: &str = "/shared/ready";
    let mut db = db(ms, &["--touch", FILE]);
    db["lifecycle"] = json!({"postStart": {"exec": {"command": ["/testserver", "await", FILE, "check", FILE]}}});
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

fn native_sidecar(ms: u64) -> Value {
    let mut db = db(ms, &[]);
    db["restartPolicy"] = "Always".into();
    db["startupProbe"] = json!({"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1, "failureThreshold": 60});
    plain(json!([program("app", &[])]), json!([db]))
}

/// Returns the time from Ready to the first instruction in milliseconds, and the share of processor time that was
/// stolen during the start.
fn ready_to_first_instruction(way: &Way, number: usize, ms: u64) -> (f64, f64) {
    let name = format!("pod-{number}");
    let mut pod = (way.pod)(ms);
    pod["metadata"]["name"] = name.as_str().into();
    let before = steal::Time::now();
    cluster::create(NAMESPACE, &pod.to_string());
    // Do not poll before the start is over, because each kubectl call uses a processor for longer than the measured
    // time.
    std::thread::sleep(Duration::from_millis(ms) + START_TIME);
    let stolen = before.stolen_since();
    let start = eventually("the application's first line", 60, || event(&name, "app", "start"));
    let ready = eventually("the predecessor's line", 10, || event(&name, "db", "ready"));
    // Wait for the deletion, because its work would slow down the next start.
    kubectl(&["-n", NAMESPACE, "delete", "pod", &name, "--wait=true", "--grace-period=1"]);
    (start - ready, stolen)
}

fn event(pod: &str, container: &str, event: &str) -> Option<f64> {
    let log = try_kubectl(&["-n", NAMESPACE, "logs", pod, "-c", container]).ok()?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["event"] == event).find_map(|line| line["ms"].as_f64())
}
