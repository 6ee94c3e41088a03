//! Tests of forged Pods. Each Pod claims to be injected, so that the webhook parses and undoes as much as possible.

use crate::answers::patched;
use crate::client::{Reply, pod, review};
use crate::hang_guard::HANG_GUARD;
use crate::program::{Files, Webhook, now};
use serde_json::{Value, json};

const MEMORY_LIMIT_KIB: u64 = 64 << 10;

/// Forges one injected Pod of each size with `forge`, and sends each Pod to a new webhook. Returns the replies.
fn answers<const N: usize>(forge: impl Fn(&mut Value, usize), sizes: [usize; N]) -> [Reply; N] {
    sizes.map(|size| {
        let files = Files::new();
        let mut webhook = Webhook::with_files(&files, &["--log-level", "info"]);
        let client = webhook.client(&files.ca);
        let mut plain = pod("db, api");
        plain["metadata"]["annotations"]["podgate.io/stop-order"] = json!("reverse");
        let mut forged = patched(&plain, &client.review(&review("plain", &plain)));
        forge(&mut forged, size);
        let body = review("forged", &forged).to_string();
        let since = now();
        let reply = client.post(body.as_bytes());
        let (time, memory) = (since.elapsed(), webhook.peak_memory_kib());
        eprintln!("{size}: {} bytes, status {} after {time:?}, {memory} KiB", body.len(), reply.status);
        assert!(time < HANG_GUARD, "{size}: {time:?}");
        assert!(memory < MEMORY_LIMIT_KIB, "{size}: {memory} KiB");
        assert!([200, 400].contains(&reply.status), "{size}: {reply:?}");
        assert!(webhook.is_alive() && webhook.is_ready());
        reply
    })
}

/// Asserts that the reply denies the Pod or rejects the whole review, and that the reason contains `why`.
fn assert_refused(reply: &Reply, why: &str) {
    let reason = match reply.status {
        200 => reply.json()["response"]["status"]["message"].to_string(),
        _ => reply.body.clone(),
    };
    assert!(reason.contains(why), "{why:?} is not in {reason:?}");
}

fn set_list(pod: &mut Value, containers: &[Value]) {
    let env = pod["spec"]["initContainers"][0]["env"].as_array_mut().unwrap();
    let list = env.iter_mut().find(|variable| variable["name"] == "PODGATE_CONTAINERS").unwrap();
    list["value"] = json!(containers).to_string().into();
}

fn set_record(pod: &mut Value, field: &str, value: Value) {
    let annotation = &mut pod["metadata"]["annotations"]["podgate.io/injected"];
    let mut record: Value = serde_json::from_str(annotation.as_str().unwrap()).unwrap();
    record[field] = value;
    *annotation = record.to_string().into();
}

#[test]
fn long_chain_of_containers_is_rejected() {
    let chain = |pod: &mut Value, size| {
        let gate =
            |n| json!({"name": format!("c{n}"), "mode": "entrypoint", "until": [format!("c{}", (n + 1) % size)]});
        set_list(pod, &(0..size).map(gate).collect::<Vec<_>>());
    };
    // The webhook parses only the last list, because the others are too long.
    let [largest, large, small] = answers(chain, [40_000, 8_000, 2_000]);
    assert_refused(&largest, "bytes as JSON, but podgate supports at most 1048576");
    assert_refused(&large, "no valid PODGATE_CONTAINERS");
    assert_refused(&small, "no valid PODGATE_CONTAINERS");
}

#[test]
fn large_record_is_rejected() {
    let values = |pod: &mut Value, size| set_record(pod, "was", json!({"volumes": vec![0; size]}));
    let [large, larger, many] = answers(values, [500_000, 1_450_000, 120_000]);
    assert_refused(&large, "the annotations have 1000");
    assert_refused(&larger, "the annotations have 2900");
    assert_refused(&many, "the injected Pod has 120");
    let unknown = |pod: &mut Value, size| set_record(pod, "was", json!({"x": vec![0; size]}));
    assert_refused(&answers(unknown, [1])[0], "unknown field \\\"x\\\"");
}

#[test]
fn gate_with_many_words_gets_an_answer() {
    let words = |pod: &mut Value, size| {
        let command = &mut pod["spec"]["containers"][1]["command"];
        let start = [&command[0], &command[1]].map(Value::clone);
        *command = start.into_iter().chain(vec![json!("x"); size]).chain([json!("--"), json!("/db")]).collect();
    };
    let [a, b, c] = answers(words, [150_000, 240_000, 30_000]);
    assert_refused(&a, "values");
    assert_refused(&b, "values");
    assert_eq!(c.status, 200);
}

#[test]
fn long_user_command_is_allowed() {
    let words = |pod: &mut Value, size| {
        let command = pod["spec"]["containers"][1]["command"].as_array_mut().unwrap();
        command.splice(2..2, vec![json!("x"); 900]);
        command.extend(vec![json!("x"); size]);
    };
    let [allowed, too_long] = answers(words, [999, 1000]);
    assert_eq!(allowed.json()["response"]["allowed"], true);
    assert_refused(&too_long, "command of api has 1001 items, but podgate supports at most 1000");
}

#[test]
fn recorded_order_with_many_names_is_rejected() {
    let names = |pod: &mut Value, size| {
        set_record(pod, "order", (0..size).map(|n| format!("c{}", size - n)).collect());
        let other = |n| json!({"name": format!("c{n}"), "image": "x"});
        pod["spec"]["containers"].as_array_mut().unwrap().extend((0..size).map(other));
    };
    let [many, allowed] = answers(names, [40_000, 5_000]);
    assert_refused(&many, "values");
    assert_refused(&allowed, "5002 containers, but podgate supports at most 200");
    let [order] = answers(|pod, size| set_record(pod, "order", vec!["c"; size].into()), [30_000]);
    assert_refused(&order, "more than 200 containers");
}

#[test]
fn long_list_for_many_containers_is_rejected() {
    let names = |pod: &mut Value, size| {
        let named = |n| json!({"name": format!("c{n}")});
        set_list(pod, &(0..size).map(named).collect::<Vec<_>>());
        pod["spec"]["containers"].as_array_mut().unwrap().extend((0..size).map(named));
    };
    let [many, fewer] = answers(names, [40_000, 7_000]);
    assert_refused(&many, "values");
    assert_refused(&fewer, "7002 containers, but podgate supports at most 200");
}

/// The webhook must not compare each item of one long list with each item of another.
#[test]
fn many_checks_of_many_mounts_are_rejected() {
    let mounts = |pod: &mut Value, size: usize| {
        *pod = crate::client::pod("db, api");
        pod["metadata"]["annotations"]["check.podgate.io/api"] = vec!["file:///x"; size].join(",").into();
        let paths = (0..size).map(|_| json!({"mountPath": "/a///////////////"}));
        pod["spec"]["containers"][1]["volumeMounts"] = paths.collect();
    };
    let [many, fewer] = answers(mounts, [17_000, 1_000]);
    assert_refused(&many, "volumeMounts of api has 17000 items");
    assert_refused(&fewer, "more than 64 checks");
}

/// Covers volumes, hooks and declared orders. Other tests cover the record and the list of containers.
#[test]
fn other_large_parts_are_rejected() {
    let volumes = |pod: &mut Value, size| {
        let named = |name| move |_| json!({"name": name});
        let list = pod["spec"]["volumes"].as_array_mut().unwrap();
        list.extend((0..size).map(named("podgate-board")).chain((0..size).map(named("x"))));
    };
    assert_refused(&answers(volumes, [5_000])[0], "the Pod has too many podgate volumes");
    let hook = |pod: &mut Value, size| {
        let words = vec!["a"; size];
        let hook = &mut pod["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"];
        hook.as_array_mut().unwrap().extend([json!("--then"), json!(words).to_string().into()]);
    };
    let [large, allowed] = answers(hook, [500_000, 60_000]);
    assert_refused(&large, "bytes as JSON, but podgate supports at most 1048576");
    assert_eq!(allowed.status, 200);
    let order = |pod: &mut Value, size| pod["metadata"]["annotations"]["podgate.io/order"] = ",".repeat(size).into();
    assert_refused(&answers(order, [15_000])[0], "more than 200 containers");
    let unknown = |pod: &mut Value, size| {
        for n in 0..50 {
            let names: Vec<String> = (0..size).map(|m| format!("x{m}")).collect();
            pod["metadata"]["annotations"][format!("after.podgate.io/c{n}")] = names.join(",").into();
        }
        // Add another error. Without that error, podgate would only mark the Pod, because a later webhook could still
        // add the containers.
        pod["metadata"]["annotations"]["a.podgate.io/c"] = json!("x");
        let init = |n| json!({"name": format!("i{n}")});
        pod["spec"]["initContainers"].as_array_mut().unwrap().extend((0..200).map(init));
        pod["spec"]["containers"].as_array_mut().unwrap().extend((0..198).map(|n| json!({"name": format!("c{n}")})));
    };
    assert_refused(&answers(unknown, [199])[0], "there is no container x0");
}

/// Each container waits for all previous ones.
#[test]
fn legitimate_large_pods_are_injected_up_to_a_limit() {
    let dense = |prefix: &str, pod: &mut Value, size: usize| {
        let container = |n| json!({"name": format!("{prefix}{n}"), "image": "x", "command": ["x"]});
        *pod = crate::client::pod("c0");
        pod["spec"]["containers"] = (0..size).map(container).collect();
        pod["metadata"]["annotations"] = json!({});
        for n in 1..size {
            let names: Vec<String> = (0..n).map(|m| format!("{prefix}{m}")).collect();
            pod["metadata"]["annotations"][format!("after.podgate.io/{prefix}{n}")] = names.join(",").into();
        }
    };
    let [fits, too_large] = answers(|pod, size| dense("c", pod, size), [71, 72]);
    assert_eq!(fits.json()["response"]["allowed"], true, "{fits:?}");
    assert_refused(&too_large, "more than 2500 waits");
    // The list of containers must fit into an environment variable.
    let [long_names] = answers(|pod, size| dense(&"x".repeat(61), pod, size), [71]);
    assert_refused(&long_names, "the sidecar's list of containers has");
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &["--log-level", "info"]);
    let client = webhook.client(&files.ca);
    let mut plain = Value::Null;
    dense("c", &mut plain, 71);
    let injected = patched(&plain, &client.review(&review("one", &plain)));
    let again = client.review(&review("again", &injected));
    assert!(again["allowed"] == true && again.get("patch").is_none(), "{again}");
    eprintln!("review of the injected Pod: {} KiB", webhook.peak_memory_kib());
}
