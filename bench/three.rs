//! Pods of three containers in several orders, and the processor time of the node. Shared by benchmarks.

use crate::pod::{Container, Pod, server};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

/// File that `db` creates when `db` is Ready.
const READY_FILE: &str = "/podgate-self/ready";

/// Returns Pods with the containers `db`, `api` and `web`, each Pod with its label: the Pods whose label contains one of
/// `words`. Without words, returns all Pods except those with tokens or livenessProbes, so that a run stays short.
/// `after` is the time from the start of `db` until `db` is Ready.
pub(crate) fn pods(after: &str, words: &[String]) -> Vec<(&'static str, Value)> {
    let others = |with: fn(Container, &[&str]) -> Container| {
        let others = [("api", 8002, &["--until", "db"][..]), ("web", 8003, &["--until", "db", "--until", "api"])];
        others.map(|(name, port, until)| with(server(name).http(port), until)).to_vec()
    };
    let db = || server("db").http(8001).ready_after(after);
    let exec = |db: fn(Container, &[&str]) -> Container| {
        let server = server("db").args(&["--touch", READY_FILE]).ready_after(after);
        db(server, &["/testserver", "check", READY_FILE]).with(json!({"readinessProbe": {"periodSeconds": 10}}))
    };
    let pod = |db: Container, others: Vec<Container>| Pod::new("pod", [vec![db], others].concat()).json();
    let without_sidecar = |mut pod: Value| {
        pod["spec"]["initContainers"] = json!([]);
        pod
    };
    let plain = |pod: Value| {
        let mut pod = without_sidecar(pod);
        remove_unused_volumes(&mut pod["spec"]);
        pod
    };
    let unordered = |container, _: &[&str]| container;
    let live = |container: Container, _: &[&str]| container.live();
    let alone = |probed: fn(Container) -> Container| {
        let (first, second) = (db(), probed(server("api").http(8002)));
        let last = probed(server("web").http(8003)).asking(&[&first, &second], &[]);
        pod(first.clone(), vec![second.asking(&[&first], &[]), last])
    };
    let native = natives(plain(pod(db(), others(unordered))));
    let unwrapped = |db: Container, command: &[&str]| db.probe(json!({"exec": {"command": command}}));
    let hooked = [server("api").http(8002).hook(&[]), server("web").http(8003)].to_vec();
    let gated = pod(db(), others(|container, until| container.gate(until)));
    let mut rows = vec![
        ("the same Pods without an order", plain(pod(db(), others(unordered)))),
        ("without an order, with an idle native sidecar", idle(plain(pod(db(), others(unordered))))),
        ("without an order, exec probe every 10 s", plain(pod(exec(unwrapped), others(unordered)))),
        ("db and api as native sidecars", native.clone()),
        ("db and api as native sidecars, with an idle one", idle(native.clone())),
        ("native sidecars, podgate's volumes", idle(natives(without_sidecar(pod(db(), others(unordered)))))),
        ("podgate, entrypoint", gated.clone()),
        ("podgate, no sidecar", alone(|own| own)),
        // With a livenessProbe, a gate needs a startupProbe.
        ("with livenessProbes: db and api as native sidecars", natives(plain(pod(db(), others(live))))),
        ("with livenessProbes: the same and an idle one", idle(natives(plain(pod(db(), others(live)))))),
        ("with livenessProbes: entrypoint", pod(db(), others(|own, until| own.live().gate(until)))),
        ("with livenessProbes: no sidecar", alone(Container::live)),
        // These labels contain no word that selects one of the other rows in bench/RESULTS.md.
        ("with tokens: native sidecars and an idle one", with_tokens(idle(native))),
        ("with tokens: entrypoint", with_tokens(gated)),
        ("podgate, hold", pod(db(), others(|container, until| container.held(until)))),
        ("podgate, hold, exec probe every 10 s", {
            pod(exec(|db, command| db.wrapped_probe(command)), others(|container, until| container.held(until)))
        }),
        ("podgate, post-start", pod(db().hook(&[]), hooked)),
    ];
    rows.retain(|(label, _)| match words {
        [] => !label.starts_with("with "),
        words => words.iter().any(|word| label.contains(word)),
    });
    rows
}

/// Makes the first two containers native sidecars, so that the kubelet starts the containers in order.
fn natives(mut pod: Value) -> Value {
    let spec = pod["spec"].as_object_mut().expect("a spec");
    let mut early: Vec<Value> = spec["containers"].as_array_mut().expect("containers").drain(..2).collect();
    for container in &mut early {
        container["restartPolicy"] = "Always".into();
        container["startupProbe"] = container["readinessProbe"].clone();
        container["startupProbe"]["failureThreshold"] = 3600.into();
    }
    spec["initContainers"] = early.into();
    pod
}

/// Lets Kubernetes mount a token into each container, as it does by default.
fn with_tokens(mut pod: Value) -> Value {
    pod["spec"]["automountServiceAccountToken"] = true.into();
    pod
}

/// Removes podgate's volumes, except the volume of a container that creates [`READY_FILE`].
fn remove_unused_volumes(spec: &mut Value) {
    let mut has_ready_file = false;
    for container in spec["containers"].as_array_mut().expect("a list") {
        let uses_file = container["args"].as_array().is_some_and(|args| args.contains(&READY_FILE.into()));
        has_ready_file |= uses_file;
        let mounts = container["volumeMounts"].as_array_mut().expect("a list");
        mounts.retain(|mount| uses_file && mount["name"] == "podgate-self");
    }
    let volumes = spec["volumes"].as_array_mut().expect("a list");
    volumes.retain(|volume| has_ready_file && volume["name"] == "podgate-self");
}

/// Adds an idle native sidecar in place of podgate's.
fn idle(mut pod: Value) -> Value {
    let idle = server("idle").with(json!({"volumeMounts": [], "restartPolicy": "Always"}));
    let idle = Pod::new("pod", [idle]).json()["spec"]["containers"][0].take();
    pod["spec"]["initContainers"].as_array_mut().expect("a list").insert(0, idle);
    pod
}

/// Returns the processor time that each part of the node has used so far, in milliseconds. This includes ended
/// children.
pub(crate) fn processor_time() -> BTreeMap<&'static str, f64> {
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((start, rest)) = stat.rsplit_once(") ") else { continue };
        let name = start.split_once('(').map_or("", |(_, name)| name).to_owned();
        let fields: Vec<u64> = rest.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
        // utime, stime, cutime and cstime are in hundredths of a second.
        processes.insert(pid, (name, fields[1], fields[11..15].iter().sum::<u64>() as f64 * 10.0));
    }
    let mut sums = BTreeMap::new();
    for (pid, (name, _, ms)) in &processes {
        let parents = std::iter::successors(Some(*pid), |pid| {
            processes.get(pid).and_then(|(_, parent, _)| u32::try_from(*parent).ok()).filter(|parent| *parent > 1)
        });
        let is_in_container = parents.skip(1).any(|pid| processes.get(&pid).is_some_and(|(name, ..)| is_shim(name)));
        let kind = match name.as_str() {
            "kube-apiserver" => "API server",
            "etcd" => "etcd",
            "kubelet" => "kubelet",
            "containerd" => "containerd",
            name if is_shim(name) => "shim",
            name if is_in_container && name.starts_with("podgate") => "podgate",
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
