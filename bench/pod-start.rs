//! Measures on a real kubelet the time and resources that podgate adds to a Pod's start. Each round measures all
//! variants of the Pod. The benchmark measures:
//!
//! - the time from the request that creates the Pod to the application's first instruction
//! - the time from Ready to the next container's first instruction behind a postStart hook
//! - the memory and processor time of an idle sidecar
//!
//! ```text
//! tests/kubelet/prepare && cargo bench --bench pod-start [-- ROUNDS]
//! ```

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

/// Replaces the tests' module `scene`, through which the module `cluster` prints messages. Prints to standard error.
mod scene {
    pub(crate) fn print_line(line: &str) {
        eprintln!("{line}");
    }
}

use clock::{eventually, wall_ms};
use cluster::{kubectl, run_script, try_kubectl};
use pod::{Pod, server};
use quantile::{median, quantile};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

const NAMESPACE: &str = "bench-pod-start";
/// Label of the Pod with which the others are compared.
const PLAIN: &str = "the Pod without podgate, with a volume";
const NEXT: &str = "Ready to the next container's first instruction";
const IDLE_PERIOD: Duration = Duration::from_secs(20);

fn main() {
    // Ignore the argument --bench, which cargo adds.
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(15);
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=true"]);
    cluster::install_manifests();
    run_script(&["namespace", NAMESPACE]);
    let group = format!("--group=system:serviceaccounts:{NAMESPACE}");
    kubectl(&["-n", NAMESPACE, "create", "rolebinding", "podgate", "--clusterrole=podgate-sidecar", &group]);
    println!(
        "Kubernetes 1.{}, {rounds} rounds, interleaved; milliseconds, median (smallest .. 95th percentile)\n",
        cluster::minor_version()
    );

    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut chain: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for (label, pod) in variants() {
            times.entry(label).or_default().push(first_instruction(&pod));
        }
        let (hook, sidecar) = hooked_chain(round + 1 == rounds);
        for (label, value) in hook {
            chain.entry(label).or_default().push(value);
        }
        if let Some(text) = sidecar {
            println!("{text}");
        }
    }
    println!("{:<64} {:>8} {:>20}", "from `create` to the application's first instruction", "median", "");
    let base = median(&times[PLAIN]);
    for (label, values) in &times {
        println!("  {label:<62} {} {:>+8.0}", figures(values), median(values) - base);
    }
    println!("behind a postStart hook");
    for (label, values) in &chain {
        println!("  {label:<62} {}", figures(values));
    }
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]);
}

fn variants() -> Vec<(&'static str, Value)> {
    let native = Pod::new("app", [server("app")]).json();
    let mut plain = native.clone();
    plain["spec"]["initContainers"] = json!([]);
    plain["spec"]["volumes"] = json!([{"name": "podgate-board", "emptyDir": {"medium": "Memory"}}]);
    plain["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "podgate-board", "mountPath": "/podgate"}]);
    let mut with_token = plain.clone();
    with_token["spec"]["automountServiceAccountToken"] = true.into();
    let mut idle = plain.clone();
    let mut sidecar = idle["spec"]["containers"][0].clone();
    (sidecar["name"], sidecar["restartPolicy"]) = ("idle".into(), "Always".into());
    idle["spec"]["initContainers"] = json!([sidecar]);
    let mut hooked = idle.clone();
    hooked["spec"]["initContainers"][0]["lifecycle"] =
        json!({"postStart": {"exec": {"command": ["/testserver", "check", "/testserver"]}}});
    let by_image = Pod::new("app", [server("app").asking(&[], &[])]).json();
    let mut without_hook = native.clone();
    without_hook["spec"]["initContainers"][0]["lifecycle"].take();
    vec![
        (PLAIN, plain),
        ("the same with a token volume", with_token),
        ("with an idle native sidecar", idle),
        ("with an idle native sidecar that has an exec postStart hook", hooked),
        ("with podgate's sidecar as a native sidecar", native),
        ("the same without its hook", without_hook),
        ("without a sidecar: an image volume and a gate that waits for nothing", by_image),
    ]
}

/// Returns the time from the request to the application's first instruction, in milliseconds.
fn first_instruction(pod: &Value) -> f64 {
    let before = wall_ms();
    cluster::create(NAMESPACE, &pod.to_string());
    let start = eventually("the application's first line", 60, || event("app", "app", "start"));
    remove("app");
    start - before
}

/// Starts a chain of three containers with hooks. `db` answers 503 before it is ready, and `api` is ready as soon as it
/// listens. With `with_sidecar`, also measures the idle sidecar.
fn hooked_chain(with_sidecar: bool) -> (Vec<(&'static str, f64)>, Option<String>) {
    let db = server("db").http(8001).ready_after("1500ms").hook(&[]);
    let api = server("api").http(8002).args(&["--listen-after", "500ms"]).hook(&[]);
    let pod = Pod::new("chain", [db, api, server("web").http(8003)]).json();
    cluster::create(NAMESPACE, &pod.to_string());
    eventually("web's first line", 60, || event("chain", "web", "start"));
    let at = |container, name| eventually(name, 10, || event("chain", container, name));
    let released_at = |container| eventually("the hook's last line", 10, || release_time("chain", container));
    let steps = vec![
        ("Ready to the hook's release, the server answers 503 at first", released_at("db") - at("db", "ready")),
        ("Ready to the hook's release, the server is Ready when it listens", released_at("api") - at("api", "ready")),
        (NEXT, at("api", "start") - at("db", "ready")),
        (NEXT, at("web", "start") - at("api", "ready")),
    ];
    let cost = with_sidecar.then(|| idle_sidecar("chain"));
    remove("chain");
    (steps, cost)
}

/// Returns the time at which the hook of `container` released the container, in milliseconds since 1970. The time is
/// from the hook's log.
fn release_time(pod: &str, container: &str) -> Option<f64> {
    let log = try_kubectl(&["-n", NAMESPACE, "logs", pod, "-c", container]).ok()?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = lines.into_iter().find(|line| line["msg"].as_str().is_some_and(|text| text.starts_with("released")))?;
    let at = humantime::parse_rfc3339_weak(line["ts"].as_str()?).ok()?;
    Some(at.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64() * 1000.0)
}

fn event(pod: &str, container: &str, event: &str) -> Option<f64> {
    let log = try_kubectl(&["-n", NAMESPACE, "logs", pod, "-c", container]).ok()?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["event"] == event).find_map(|line| line["ms"].as_f64())
}

fn remove(pod: &str) {
    kubectl(&["-n", NAMESPACE, "delete", "pod", pod, "--wait=true"]);
}

/// Returns a description of the memory and processor time of an idle sidecar.
fn idle_sidecar(pod: &str) -> String {
    eventually("the pod has started", 30, || {
        let stage = kubectl(&[
            "-n",
            NAMESPACE,
            "get",
            "pod",
            pod,
            "-o",
            "jsonpath={.metadata.annotations.sandbox\\.podgate\\.io/stage}",
        ]);
        (stage == "started").then_some(())
    });
    let Some(pid) = cluster::pid(NAMESPACE, pod, "podgate") else {
        return "the sidecar's pid is unknown".to_owned();
    };
    std::thread::sleep(Duration::from_secs(3));
    let (ticks_before, wakes_before) = (ticks(pid), field(pid, "voluntary_ctxt_switches"));
    std::thread::sleep(IDLE_PERIOD);
    let used = (ticks(pid) - ticks_before) as f64 / 100.0;
    let wakes = field(pid, "voluntary_ctxt_switches") - wakes_before;
    format!(
        "the idle sidecar of a chain of three: {} kB resident ({} kB anonymous, peak {} kB), {} thread(s); in {} s {used:.2} s of processor time and {wakes} wake-ups\n",
        field(pid, "VmRSS"),
        field(pid, "RssAnon"),
        field(pid, "VmHWM"),
        field(pid, "Threads"),
        IDLE_PERIOD.as_secs(),
    )
}

fn field(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Returns the processor time that the process has used so far, in hundredths of a second.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or("");
    after.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum()
}

fn figures(values: &[f64]) -> String {
    let [least, p95] = [0.0, 0.95].map(|part| quantile(values, part));
    format!("{:>8.0} ({least:.0} .. {p95:.0})", median(values))
}
