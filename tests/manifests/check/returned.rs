//! Tests `check` with Pods that the API server returns: the output of `kubectl create --dry-run=server -o yaml` and of
//! `kubectl get pod -o yaml`.

use super::server::{injected, with_defaults};
use super::{check, file};
use podgate::order::finding::Level;
use podgate::order::inject::{Options, inject, is_injected, outdated};
use podgate::order::plan::KnownFacts;
use podgate::order::pod_templates::templates;
use serde_json::{Value, json};

/// Change of a Pod by another webhook.
type Change = fn(&mut Value);

/// Returns a Pod as podgate's webhook and the API server leave it, in these modes.
fn returned(order: &str, mode: &str) -> Value {
    let probe = |port: u16| json!({"httpGet": {"port": port, "path": ""}, "initialDelaySeconds": 0});
    let container =
        |name: &str, port| json!({"name": name, "image": name, "command": [name], "readinessProbe": probe(port)});
    injected(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "p-", "annotations": {"podgate.io/order": order, "podgate.io/mode": mode}},
        "spec": {"containers": [container("db", 1), container("api", 2), container("web", 3)]},
    }))
}

/// Runs `check` on a Pod. Returns the exit code and the output.
fn checked(pod: &Value) -> (i32, String) {
    let (directory, _) = file(&pod.to_string());
    let (code, out, err) = check(&directory, &["pod.yaml"]);
    assert_eq!(err, "", "{out}");
    (code, out)
}

#[test]
fn injected_pod_of_the_api_server_has_no_findings() {
    let mut running = returned("db, api, web", "entrypoint");
    running["metadata"]["uid"] = json!("0");
    running["spec"]["nodeName"] = json!("node");
    running["status"] = json!({"phase": "Running", "containerStatuses": [{"name": "db", "ready": true}]});
    running["metadata"]["annotations"]["status.podgate.io/db"] = json!("Ready");
    // The webhook's settings, with the requests that the API server derives from the limits.
    let sidecar = &mut running["spec"]["initContainers"][0];
    sidecar["resources"] = json!({"limits": {"memory": "32Mi"}, "requests": {"cpu": "50m", "memory": "32Mi"}});
    let gate = running["spec"]["containers"][1]["command"].as_array_mut().unwrap();
    gate.splice(2..2, [json!("--log-level"), json!("debug")]);
    for pod in [returned("db, api, web", "entrypoint"), returned("db & api, web", "auto"), running] {
        let (code, out) = checked(&pod);
        assert!(code == 0 && out.contains("starts   db"), "{out}");
        assert!(out.contains("1 template checked: 0 errors, 0 warnings"), "{out}");
    }
    // If no webhook has injected the Pod, `check` checks the order of the manifest.
    let plain = with_defaults(json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "p-", "annotations": {"podgate.io/order": "db, apii"}},
        "spec": {"containers": [{"name": "db", "image": "db", "command": ["db"]}]}}));
    let (code, out) = checked(&plain);
    assert!(code == 1 && out.contains("error[unknown-container]"), "{out}");
}

/// States of podgate's sidecar in annotations belong to the running Pod. A manifest must not have them.
#[test]
fn states_of_a_running_pod_are_warnings() {
    let mut pod = returned("db, api, web", "entrypoint");
    pod["metadata"]["annotations"]["status.podgate.io/db"] = json!("Ready");
    let (code, out) = checked(&pod);
    assert!(code == 0 && out.contains("warning[copied-state]") && out.contains("0 errors, 1 warning"), "{out}");
}

#[test]
fn changes_by_other_webhooks_are_found() {
    let cases: [(&str, Change, &str, i32); 5] = [
        (
            "entrypoint",
            |pod| pod["spec"]["containers"][1]["command"] = json!(["/wrap", "api"]),
            "error[injected-changed]: podgate's gate in the command of api is missing or was changed",
            1,
        ),
        (
            "post-start",
            |pod| pod["spec"]["containers"][0]["lifecycle"]["postStart"] = json!({"exec": {"command": ["mine"]}}),
            "error[injected-changed]: podgate's postStart hook of db is missing or was changed",
            1,
        ),
        (
            "entrypoint",
            |pod| pod["spec"]["initContainers"] = json!([]),
            "error[injected-changed]: the Pod has the annotation of an injection, but podgate's sidecar is missing",
            1,
        ),
        (
            "entrypoint",
            |pod| pod["spec"]["initContainers"][0]["restartPolicy"] = Value::Null,
            "warning[injected-changed]: inject writes the restartPolicy of podgate's sidecar again",
            0,
        ),
        (
            "entrypoint",
            |pod| {
                let proxy = json!({"name": "istio-proxy", "image": "i", "restartPolicy": "Always"});
                pod["spec"]["initContainers"].as_array_mut().unwrap().insert(0, proxy);
            },
            "warning[sidecar-not-first]: istio-proxy comes before podgate's sidecar",
            0,
        ),
    ];
    for (mode, change, finding, expected) in cases {
        let mut pod = returned("db, api, web", mode);
        pod["metadata"]["uid"] = json!("0");
        change(&mut pod);
        let (code, out) = checked(&pod);
        assert!(code == expected && out.contains(finding), "{finding}: {out}");
    }
}

/// The manifest lacks `daprd`, which another webhook adds before podgate's webhook injects the Pod.
#[test]
fn order_with_containers_of_other_webhooks_is_checked() {
    let pod = |order: &str| {
        injected(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"generateName": "p-", "annotations": {"podgate.io/order": order, "dapr.io/app-port": "3000"}},
            "spec": {"containers": [
                {"name": "app", "image": "app", "command": ["app"], "ports": [{"containerPort": 3000}]},
                {"name": "daprd", "image": "daprd", "readinessProbe": {"httpGet": {"path": "/v1.0/healthz", "port": 3501}}},
            ]},
        }))
    };
    let (code, out) = checked(&pod("daprd?=Started, app"));
    assert!(code == 0 && out.contains("0 errors, 0 warnings"), "{out}");
    let (code, out) = checked(&pod("daprd?, app"));
    assert!(code == 1 && out.contains("error[readiness-needs-later]: app starts only when daprd"), "{out}");
}

/// The API server sorts the keys of the parts that `inject` has written.
#[test]
fn changed_order_of_a_returned_workload_is_not_a_change_by_hand() {
    let own = |name: &str| json!({"name": name, "image": name, "command": [name], "readinessProbe": {"tcpSocket": {"port": 1}}});
    let template = json!({"metadata": {"annotations": {"podgate.io/order": "db, api"}},
        "spec": {"containers": [own("db"), own("api")]}});
    let mut injected = inject(&template, &Options::new("podgate"), &KnownFacts::default()).unwrap().value;
    injected["metadata"]["annotations"]["podgate.io/timeout"] = json!("1m");
    let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": injected}});
    deployment.sort_all_objects();
    let (code, out) = checked(&deployment);
    assert!(code == 1 && out.contains("error[injection-outdated]") && !out.contains("by hand"), "{out}");
}

/// Podgate recognizes its own parts with the API server's default values.
#[test]
fn no_manifest_of_the_corpus_counts_as_changed() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manifests/inject/corpus");
    let (mut compared, options) = (0, Options::new("podgate"));
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let yaml = serde_saphyr::options! { legacy_octal_numbers: true };
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, yaml).unwrap_or_default();
        for document in &documents {
            for found in templates(document) {
                let mut pod = found.place.of(document).unwrap().clone();
                pod["metadata"]["generateName"] = "p-".into();
                let Ok(by_tool) = inject(&pod, &options, &KnownFacts::default()) else { continue };
                if !is_injected(&by_tool.value) || is_injected(&pod) {
                    continue;
                }
                for returned in [injected(&pod), with_defaults(by_tool.value)] {
                    let again = inject(&returned, &options, &KnownFacts::default()).unwrap();
                    let changed = again.findings.iter().find(|finding| finding.rule == "injected-changed");
                    assert_eq!(changed, None, "{}", path.display());
                    let stale = outdated(&returned, &again.value).filter(|finding| finding.level == Level::Error);
                    assert_eq!(stale, None, "{}", path.display());
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "only {compared} templates");
}
