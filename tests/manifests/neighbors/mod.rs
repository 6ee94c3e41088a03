//! Tests of Pods that other products inject too. `pods/` has such Pods before and after the injection by each product.
//! `README.md` lists the sources.

mod istio;
mod originals;
mod sequence;

use assert_cmd::Command;
use podgate::order::finding::Finding;
use podgate::order::inject::{Injected, Options, inject, uninject};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};
use std::fs;

/// A Pod in `pods/` and an order of its containers.
struct Case {
    before: &'static str,
    after: &'static str,
    order: &'static str,
    /// Rules of the findings in `after`.
    rules: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case { before: "istio.before", after: "istio-default.after", order: "db, api", rules: &[] },
    Case { before: "istio.before", after: "istio-hold.after", order: "db, api", rules: &[] },
    Case { before: "istio.before", after: "istio-native.after", order: "db, api", rules: &[] },
    Case { before: "linkerd.before", after: "linkerd-await.after", order: "db, web", rules: &[] },
    Case { before: "linkerd.before", after: "linkerd-native.after", order: "db, web", rules: &[] },
    Case { before: "vault-agent.before", after: "vault-agent.after", order: "db, app", rules: &[] },
    Case { before: "bank-vaults.before", after: "bank-vaults.after", order: "db, app", rules: &[] },
    Case { before: "dapr.before", after: "dapr.after", order: "cache, app", rules: &[] },
    Case { before: "opentelemetry.before", after: "opentelemetry.after", order: "db, app", rules: &[] },
];

/// Orders that name an injected regular container. They are valid only after the product's injection.
const NAMED: &[Case] = &[
    Case { before: "", after: "istio-hold.after", order: "istio-proxy, db, api", rules: &[] },
    Case { before: "", after: "istio-default.after", order: "istio-proxy, db, api", rules: &[] },
    Case { before: "", after: "linkerd-await.after", order: "linkerd-proxy, db, web", rules: &[] },
    Case { before: "", after: "vault-agent.after", order: "vault-agent=Started, app", rules: &[] },
    Case { before: "", after: "dapr.after", order: "daprd=Started, app", rules: &[] },
    Case { before: "", after: "opentelemetry.after", order: "otc-container, app", rules: &[] },
];

/// Reads a Pod of `pods/` and adds `annotations`.
fn pod(name: &str, annotations: &[(&str, &str)]) -> Value {
    let path = format!("{}/tests/manifests/neighbors/pods/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut pod: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    for (key, value) in annotations {
        pod["metadata"]["annotations"][key] = json!(value);
    }
    pod
}

fn ordered(name: &str, order: &str) -> Value {
    pod(name, &[("podgate.io/order", order)])
}

fn options() -> Options {
    Options { is_from_api: true, ..Options::new("ghcr.io/podgate/podgate:test") }
}

/// Injects a Pod like podgate's webhook.
fn webhook(pod: &Value) -> Injected {
    inject(pod, &options(), &KnownFacts::default()).unwrap_or_else(|found| panic!("{}\n{pod:#}", lines(&found)))
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{}: {finding}\n", finding.rule)).collect()
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let containers = pod["spec"]["containers"].as_array().expect("containers");
    containers.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no container {name}"))
}

fn names(pod: &Value) -> Vec<&str> {
    let containers = pod["spec"]["containers"].as_array().expect("containers");
    containers.iter().map(|one| one["name"].as_str().expect("a name")).collect()
}

/// Returns the entry of a container in the sidecar's list.
fn listed(pod: &Value, name: &str) -> Value {
    let sidecar = pod["spec"]["initContainers"].as_array().expect("init containers");
    let sidecar = sidecar.iter().find(|one| one["name"] == "podgate").expect("the sidecar");
    let list: Value = serde_json::from_str(sidecar["env"][0]["value"].as_str().expect("a list")).expect("JSON");
    list.as_array().expect("a list").iter().find(|one| one["name"] == name).expect("an entry").clone()
}

/// Runs `kubectl podgate check` on a Pod. Returns the exit code and the findings without notes.
fn check(pod: &Value) -> (Option<i32>, Vec<Value>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-podgate"));
    let output = command.env_clear().args(["check", "-", "-o", "json"]).write_stdin(pod.to_string()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let findings = report["findings"].as_array().expect("findings").iter();
    (output.status.code(), findings.filter(|one| one["level"] != "note").cloned().collect())
}

/// Injects twice, checks the Pod before and after, and removes the injection.
fn round_trip(case: &Case) {
    let Case { after, order, rules, .. } = case;
    let template = ordered(after, order);
    let once = webhook(&template);
    let twice = webhook(&once.value);
    assert_eq!((twice.edits.len(), &twice.value), (0, &once.value), "{after}: a second call must change nothing");
    assert!(!once.edits.is_empty(), "{after}");
    let back = uninject(&once.value).unwrap_or_else(|found| panic!("{after}: {}", lines(&found)));
    assert_eq!(back.value, template, "{after}: uninject must restore the Pod");
    for pod in [&template, &once.value] {
        let (code, findings) = check(pod);
        let found: Vec<&str> = findings.iter().map(|one| one["rule"].as_str().expect("a rule")).collect();
        assert_eq!((code, found.as_slice()), (Some(0), *rules), "{after}: {findings:#?}");
    }
}

#[test]
fn order_of_the_application_is_kept_beside_each_product() {
    CASES.iter().for_each(round_trip);
}

#[test]
fn injected_regular_containers_can_be_named() {
    NAMED.iter().for_each(round_trip);
}

#[test]
fn dapr_that_waits_for_the_application_cannot_be_waited_for() {
    let with = |order: &str, more: &[(&str, &str)]| {
        let (_, findings) = check(&pod("dapr.after", &[&[("podgate.io/order", order)], more].concat()));
        let text = |one: &Value, field: &str| one[field].as_str().expect("a text").to_owned();
        findings.iter().map(|one| text(one, "rule") + ": " + &text(one, "level")).collect::<Vec<_>>()
    };
    let rules = |order: &str, port: &str| with(order, &[("dapr.io/app-port", port)]);
    for order in ["daprd, app", "daprd, cache, app", "daprd, cache=Started, app"] {
        assert_eq!(rules(order, "3000"), ["readiness-needs-later: error"], "{order}");
    }
    for order in ["app, daprd", "daprd=Started, app", "daprd, cache"] {
        assert_eq!(rules(order, "3000"), [""; 0], "{order}");
    }
    // A port that no container declares can belong to any container.
    assert_eq!(rules("daprd, cache", "4000"), ["readiness-needs-later: warning"]);
    assert_eq!(rules("daprd, app", "0"), [""; 0]);
    let elsewhere = [("dapr.io/app-port", "3000"), ("dapr.io/app-channel-address", "10.0.0.1")];
    assert_eq!(with("daprd, app", &elsewhere), ["readiness-needs-later: warning"]);
    let mut unprobed = ordered("dapr.after", "daprd, app");
    unprobed["spec"]["containers"][2]["readinessProbe"] = Value::Null;
    assert_eq!(check(&unprobed).0, Some(0), "daprd without a probe is Ready at once");
    let outbound = "http://127.0.0.1:3500/v1.0/healthz/outbound";
    let annotations = [("podgate.io/order", "daprd?, app"), ("ready.podgate.io/daprd", outbound)];
    assert_eq!(check(&pod("dapr.before", &annotations)).1.len(), 0, "the annotations are valid before the injection");
    let checked = check(&pod("dapr.after", &annotations));
    assert_eq!((checked.0, checked.1.len()), (Some(0), 0), "a check replaces the probe: {checked:#?}");
    // The result is the same if Dapr's sidecar is a native sidecar.
    let mut native = ordered("dapr.after", "daprd, app");
    let mut sidecar = native["spec"]["containers"].as_array_mut().expect("containers").remove(2);
    sidecar["restartPolicy"] = json!("Always");
    native["spec"]["initContainers"] = json!([sidecar]);
    assert_eq!(check(&native).1[0]["rule"], "readiness-needs-later");
}

#[test]
fn native_proxies_can_be_named() {
    round_trip(&Case { before: "", after: "istio-native.after", order: "istio-proxy, db, api", rules: &[] });
    round_trip(&Case { before: "", after: "linkerd-native.after", order: "linkerd-proxy, db, web", rules: &[] });
}

/// Tests the order of docs/recipes.md for hooks, and the annotations for a Job.
#[test]
fn annotations_for_istio_are_valid_in_all_of_its_modes() {
    let job = ("podgate.io/job-sidecars", "istio-proxy?");
    let command = ("command.podgate.io/istio-proxy", "[\"/usr/local/bin/pilot-agent\"]");
    for after in ["istio.before", "istio-default.after", "istio-hold.after", "istio-native.after"] {
        let hooks = [("podgate.io/order", "istio-proxy?=Started, db, api"), ("podgate.io/mode", "post-start")];
        let mut of_job = pod(after, &[("podgate.io/order", "istio-proxy?, db, api"), job, command]);
        of_job["spec"]["restartPolicy"] = json!("Never");
        for pod in [pod(after, &hooks), of_job] {
            assert!(!webhook(&pod).edits.is_empty(), "{after}");
        }
    }
}

#[test]
fn proxy_that_may_be_missing_can_be_named_before_its_injection() {
    for after in ["istio-default.after", "istio-hold.after", "istio-native.after"] {
        sequence::run(&Case { before: "istio.before", after, order: "istio-proxy?, db, api", rules: &[] }, "auto");
    }
}
