//! Tests of the Pods with gates, and of the Job.

use super::{GATED, agent, documents, gate, hook, named, parts, pod, pre_stop, strings, values};
use serde_json::Value;
use std::time::Duration;

#[test]
fn gates_name_their_container_and_need_no_startup_probe() {
    for file in GATED {
        let pod = pod(file);
        let (_, applications) = parts(&pod);
        let known: Vec<&str> = applications.iter().filter_map(|container| container["name"].as_str()).collect();
        for container in applications {
            let name = container["name"].as_str().expect("a name");
            let command = gate(container);
            assert_eq!(command[..4], [agent().as_str(), "entrypoint", "--container", name], "{file}");
            assert_eq!(command.last(), Some(&"--"), "{file}: {name}");
            assert!(hook(container).is_empty(), "{file}: {name} has a gate and a hook");
            assert!(strings(&container["args"]).len() > 1, "{file}: {name} has no command of its own");
            for other in values(&command, "--until").into_iter().chain(values(&command, "--stop-after")) {
                assert!(known.contains(&other) && other != name, "{file}: {name} and {other}");
            }
            // While a gate waits, the kubelet must neither restart the container nor report it as Ready. An `httpGet`
            // readinessProbe fails during that time. The Job's app has no probes: nothing asks whether it is Ready.
            let (ready, live) = (&container["readinessProbe"], &container["livenessProbe"]);
            let http = &ready["httpGet"];
            let fails = http.is_object() && http["host"].is_null() && ready["initialDelaySeconds"].is_null();
            let is_safe = live.is_null() && (ready.is_null() || fails);
            let waits = ["--until", "--check"].iter().any(|flag| !values(&command, flag).is_empty());
            assert!(is_safe || !waits, "{file}: {name} would need a startupProbe");
            assert!(container["startupProbe"].is_null(), "{file}: {name} has a startupProbe");
        }
    }
}

#[test]
fn stop_order_fits_the_grace_period() {
    let file = "pod-entrypoint.yaml";
    let pod = pod(file);
    let (_, applications) = parts(&pod);
    let grace = Duration::from_secs(pod["spec"]["terminationGracePeriodSeconds"].as_u64().expect("a number"));
    let mut longest = grace;
    for container in &applications {
        let name = container["name"].as_str().expect("a name");
        let waits_for_it = |other: &&&Value| values(&gate(other), "--until").contains(&name);
        let users: Vec<&str> = applications.iter().filter(waits_for_it).filter_map(|c| c["name"].as_str()).collect();
        let command = pre_stop(container);
        assert_eq!(values(&command, "--until"), users, "{file}: {name} must outlive the containers that wait for it");
        // The hook of a container without dependents tells the other hooks that the Pod stops.
        assert_eq!(command[..4], [agent().as_str(), "pre-stop", "--container", name], "{file}");
        assert_eq!(values(&command, "--log-to"), ["/proc/1/fd/2"], "{file}: {name}");
        if users.is_empty() {
            continue;
        }
        let text = values(&command, "--grace").first().copied().unwrap_or("25s");
        let grace = humantime::parse_duration(text).unwrap_or_else(|error| panic!("{file}: {name}: {text}: {error}"));
        assert!(grace < longest, "{file}: {name} has --grace {grace:?}, which must be below {longest:?}");
        longest = grace;
    }
}

#[test]
fn job_stops_its_proxy_after_the_app() {
    let job = &documents("job.yaml")[0];
    let spec = &job["spec"]["template"]["spec"];
    assert_eq!(spec["restartPolicy"], "Never");
    let [proxy, app] = ["proxy", "app"].map(|name| named(spec, "containers", name));
    assert_eq!(values(&gate(proxy), "--stop-after"), ["app"]);
    assert_eq!(values(&gate(app), "--until"), ["proxy"]);
}

#[test]
fn hooked_and_gated_pods_run_the_same_programs() {
    let [hooked, gated] = ["pod.yaml", "pod-entrypoint.yaml"].map(pod);
    let ((hooked_sidecar, hooked_apps), (gated_sidecar, gated_apps)) = (parts(&hooked), parts(&gated));
    for (hooked, gated) in hooked_apps.iter().zip(&gated_apps) {
        assert_eq!(hooked["command"], gated["args"]);
        for field in ["name", "image", "ports", "readinessProbe", "securityContext"] {
            assert_eq!(hooked[field], gated[field], "{field}");
        }
    }
    assert_eq!(hooked_apps.len(), gated_apps.len());
    assert_eq!(hooked["spec"]["volumes"], gated["spec"]["volumes"]);
    // The sidecars differ only in PODGATE_CONTAINERS.
    let without_list = |sidecar: &Value| {
        let mut sidecar = sidecar.clone();
        sidecar["env"].as_array_mut().expect("an environment").retain(|entry| entry["name"] != "PODGATE_CONTAINERS");
        sidecar
    };
    let job = pod("job.yaml");
    assert_eq!(without_list(hooked_sidecar), without_list(gated_sidecar));
    assert_eq!(without_list(hooked_sidecar), without_list(parts(&job).0));
}
