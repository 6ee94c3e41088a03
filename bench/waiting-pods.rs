//! Measures on a real kubelet what waiting Pods cost the node: the processor time of the kubelet, containerd, the shims
//! and all containers, in milliseconds per second and Pod. Each Pod has the containers `db`, `api` and `web`, and `db`
//! never becomes Ready.
//!
//! ```text
//! tests/kubelet/prepare && cargo bench --bench waiting-pods [-- SECONDS]
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

/// Prints messages of the cluster's helpers to standard error.
mod scene {
    pub(crate) fn print_line(line: &str) {
        eprintln!("{line}");
    }
}

use clock::eventually;
use cluster::{kubectl, run_script, try_kubectl};
use pod::{Container, Pod, server};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

const NAMESPACE: &str = "bench-waiting";
const PODS: usize = 8;
/// Time after the last container's start until the node is quiet.
const SETTLE_TIME: Duration = Duration::from_secs(15);

fn main() {
    // Ignore the argument --bench, which cargo adds.
    let seconds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(60);
    cluster::install_manifests();
    println!(
        "Kubernetes 1.{}, {PODS} Pods, {seconds} s; ms of processor time per second and Pod",
        cluster::minor_version()
    );
    let idle = measure(&Value::Null, seconds);
    for (label, pod) in variants() {
        let cost = measure(&pod, seconds);
        let part = |kind: &str| (cost.get(kind).unwrap_or(&0.0) - idle.get(kind).unwrap_or(&0.0)) / PODS as f64;
        let [kubelet, containerd, shims, containers] = ["kubelet", "containerd", "shim", "container"].map(part);
        println!(
            "  {label:<48} {:>6.1}   kubelet {kubelet:.1}, containerd {containerd:.1}, shims and runc {shims:.1}, containers {containers:.1}",
            kubelet + containerd + shims + containers
        );
    }
}

fn variants() -> [(&'static str, Value); 5] {
    let three = |with: fn(Container, &[&str]) -> Container| {
        let db = server("db").http(8001).ready_after("1h");
        let others = [("api", 8002, &["--until", "db"][..]), ("web", 8003, &["--until", "db", "--until", "api"])];
        let others = others.map(|(name, port, until)| with(server(name).http(port), until));
        [vec![db], others.to_vec()].concat()
    };
    let ordered = |with| Pod::new("pod", three(with)).json();
    let mut plain = ordered(|container, _| container);
    plain["spec"]["initContainers"] = json!([]);
    let mut native = plain.clone();
    let spec = native["spec"].as_object_mut().expect("a spec");
    let mut early: Vec<Value> = spec["containers"].as_array_mut().expect("containers").drain(..2).collect();
    for container in &mut early {
        container["restartPolicy"] = "Always".into();
        container["startupProbe"] = container["readinessProbe"].clone();
        container["startupProbe"]["failureThreshold"] = 3600.into();
    }
    spec["initContainers"] = early.into();
    [
        ("the same Pods without an order", plain),
        ("db and api as native sidecars", native),
        ("podgate, entrypoint", ordered(|container, until| container.gate(until))),
        ("podgate, hold", ordered(|container, until| container.held(until))),
        ("podgate, post-start", {
            let [db, api] = [("db", 8001), ("api", 8002)].map(|(name, port)| server(name).http(port).hook(&[]));
            Pod::new("pod", [db.ready_after("1h"), api, server("web").http(8003)]).json()
        }),
    ]
}

/// Creates the Pods, and returns the processor time of each kind of process, in milliseconds per second.
fn measure(pod: &Value, seconds: u64) -> BTreeMap<&'static str, f64> {
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=true"]);
    run_script(&["namespace", NAMESPACE]);
    let group = format!("--group=system:serviceaccounts:{NAMESPACE}");
    kubectl(&["-n", NAMESPACE, "create", "rolebinding", "podgate", "--clusterrole=podgate-sidecar", &group]);
    for number in (0..PODS).filter(|_| !pod.is_null()) {
        let mut pod = pod.clone();
        pod["metadata"]["name"] = format!("pod-{number}").into();
        cluster::create(NAMESPACE, &pod.to_string());
    }
    for number in (0..PODS).filter(|_| !pod.is_null()) {
        eventually("db runs", 120, || cluster::pid(NAMESPACE, &format!("pod-{number}"), "db"));
    }
    std::thread::sleep(SETTLE_TIME);
    let before = processor_time();
    std::thread::sleep(Duration::from_secs(seconds));
    let after = processor_time();
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=true"]);
    after.into_iter().map(|(kind, ms)| (kind, (ms - before.get(kind).unwrap_or(&0.0)) / seconds as f64)).collect()
}

/// Returns the processor time that the node's processes have used so far, with their ended children, in milliseconds.
fn processor_time() -> BTreeMap<&'static str, f64> {
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((start, rest)) = stat.rsplit_once(") ") else { continue };
        let name = start.split_once('(').map_or("", |(_, name)| name).to_owned();
        let fields: Vec<u64> = rest.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
        // Hundredths of a second: utime, stime, cutime and cstime.
        processes.insert(pid, (name, fields[1], fields[11..15].iter().sum::<u64>() as f64 * 10.0));
    }
    let mut sums = BTreeMap::new();
    for (pid, (name, _, ms)) in &processes {
        let parents = std::iter::successors(Some(*pid), |pid| {
            processes.get(pid).and_then(|(_, parent, _)| u32::try_from(*parent).ok()).filter(|parent| *parent > 1)
        });
        let is_in_container = parents.skip(1).any(|pid| processes.get(&pid).is_some_and(|(name, ..)| is_shim(name)));
        let kind = match name.as_str() {
            "kubelet" => "kubelet",
            "containerd" => "containerd",
            name if is_shim(name) => "shim",
            _ if is_in_container => "container",
            _ => continue,
        };
        *sums.entry(kind).or_default() += ms;
    }
    sums
}

fn is_shim(name: &str) -> bool {
    name.starts_with("containerd-shim")
}
