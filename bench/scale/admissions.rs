//! Creates Pods with an order on nodes that KWOK simulates. Creates them in four forms: without a webhook, with a
//! webhook that does nothing, and with podgate's webhook, which adds a sidecar or none.

use crate::api::{self, Api, Request, processor_ms};
use crate::cluster::{ROOT, kubectl, kubectl_json, run_script, script_command, try_kubectl, try_script};
use crate::quantile::{median, quantile};
use crate::{Results, allow_all, clock, shop};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Number of rounds. In each round, the benchmark creates some Pods of each form, so that the cluster has the same size
/// for all forms.
const ROUNDS: usize = 5;
const NODES: usize = 10;
/// Names of the forms, and of their namespaces.
const FORMS: [&str; 4] = ["scale-plain", "scale-empty", "scale-podgate", WITHOUT_SIDECAR];
const WITHOUT_SIDECAR: &str = "scale-no-sidecar";
/// Namespace and name of the webhook.
const NAMESPACE: &str = "podgate";
const WEBHOOK: &str = "podgate-webhook";
const CONFIGURATION: &str = "zz-podgate-webhook";
const INJECTOR: &str = "manifests/injector";
/// Addresses of the cluster's node and of the API, in the test cluster.
const NODE_IP: &str = "10.95.0.1";
pub(crate) const API_IP: &str = "10.96.0.1";

/// Process of a webhook, which is killed on drop.
struct Webhook(Child);

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Times of one form, in milliseconds: the request time of each Pod, and in each round the processor time per Pod of
/// the API server, etcd and the webhook.
#[derive(Default)]
struct Form {
    api_server: Vec<f64>,
    etcd: Vec<f64>,
    webhook: Vec<f64>,
    requests: Vec<f64>,
    /// Sizes of the API server's answers, in bytes.
    sizes: Vec<f64>,
}

pub(crate) fn measure(count: usize) -> Results {
    remove();
    run_script(&["start-kwok", &NODES.to_string()]);
    let (empty, certificate) = allow_all::start();
    let (empty, podgate) = (Webhook(empty), install());
    configure(&certificate);
    let webhooks = [None, Some(empty.0.id()), Some(podgate.0.id()), Some(podgate.0.id())];
    let (api, mut forms, mut injected) = (Api::new(), <[Form; 4]>::default(), 0);
    let mut bundles = vec![bundle()];
    let (api_server, etcd, kwok) = (api::component("kube-apiserver"), api::component("etcd"), api::component("kwok"));
    let size = count / ROUNDS;
    for round in 0..ROUNDS {
        for (n, form) in forms.iter_mut().enumerate() {
            let used = || {
                let webhook = webhooks[n].map_or(0.0, processor_ms);
                [processor_ms(api_server), processor_ms(etcd), webhook]
            };
            let requests: Vec<Request> = (0..size).map(|at| create(FORMS[n], round * size + at)).collect();
            api::wait_until_idle(&[api_server, etcd, kwok]);
            let before = used();
            let answers = api.send(&requests);
            for answer in &answers {
                assert!(answer.status == 201, "{}: {}", answer.status, answer.body);
                let sign = [None, None, Some("/bin/podgate-controller"), Some("--ask")][n];
                injected += usize::from(sign.is_some_and(|sign| answer.body.contains(sign)));
            }
            form.sizes.extend(answers.iter().map(|answer| answer.body.len() as f64));
            form.requests.extend(answers.iter().map(|answer| answer.took.as_secs_f64() * 1000.0));
            // Wait for KWOK too, because its requests are part of a Pod's cost for the API server. While KWOK waits for
            // the API server, it can seem idle. So first wait for one of the last Pods.
            wait_until_running(&api, FORMS[n], (round + 1) * size - 1);
            api::wait_until_idle(&[kwok]);
            let per_pod: Vec<f64> =
                used().into_iter().zip(before).map(|(after, before)| (after - before) / size as f64).collect();
            form.api_server.push(per_pod[0]);
            form.etcd.push(per_pod[1]);
            form.webhook.push(per_pod[2]);
        }
        bundles.push(bundle());
    }
    bundles.dedup();
    for (name, form) in FORMS.iter().zip(&forms) {
        eprintln!(
            "{name}: median {:.1} ms, 99 % {:.1} ms, {:.0} bytes; per Pod: API server {:.2} ms (rounds: {:.1?}), etcd {:.2} ms, \
             webhook {:.2} ms",
            median(&form.requests),
            quantile(&form.requests, 0.99),
            median(&form.sizes),
            median(&form.api_server),
            form.api_server,
            median(&form.etcd),
            median(&form.webhook)
        );
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", podgate.0.id())).expect("the webhook runs");
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    drop((empty, podgate));
    remove();
    let [plain, empty, podgate, alone] = forms;
    let ratio = |a: &Form, b: &Form, of: fn(&Form) -> f64| of(a) / of(b);
    let api_server = |form: &Form| median(&form.api_server);
    let etcd = |form: &Form| median(&form.etcd);
    let request = |form: &Form| median(&form.requests);
    let slowest = |form: &Form| quantile(&form.requests, 0.99);
    vec![
        ("podgate-to-plain-api-server", ratio(&podgate, &plain, api_server)),
        ("podgate-to-plain-etcd", ratio(&podgate, &plain, etcd)),
        ("podgate-to-plain-request", ratio(&podgate, &plain, request)),
        ("podgate-to-plain-slowest-request", ratio(&podgate, &plain, slowest)),
        ("podgate-to-empty-api-server", ratio(&podgate, &empty, api_server)),
        ("podgate-to-empty-request", ratio(&podgate, &empty, request)),
        ("no-sidecar-to-plain-api-server", ratio(&alone, &plain, api_server)),
        ("no-sidecar-to-plain-request", ratio(&alone, &plain, request)),
        ("no-sidecar-to-plain-size", ratio(&alone, &plain, |form| median(&form.sizes))),
        ("podgate-to-plain-size", ratio(&podgate, &plain, |form| median(&form.sizes))),
        ("podgate-webhook-to-api-server", median(&podgate.webhook) / median(&podgate.api_server)),
        ("podgate-webhook-peak-memory", peak.expect("VmHWM") / 1024.0),
        ("podgate-webhook-certificates", bundles.len() as f64),
        ("podgate-injected", injected as f64 / (2 * size * ROUNDS) as f64),
    ]
}

/// Returns the request that creates Pod `number` on a node of KWOK.
fn create(namespace: &str, number: usize) -> Request {
    let mut pod = shop::pod();
    pod["metadata"]["name"] = format!("shop-{number}").into();
    pod["metadata"]["namespace"] = namespace.into();
    if namespace == WITHOUT_SIDECAR {
        pod["metadata"]["annotations"]["podgate.io/sidecar"] = "none".into();
    }
    // Remove the owner, because the garbage collector would delete a Pod whose owner does not exist.
    pod["metadata"]["ownerReferences"].take();
    pod["spec"]["nodeName"] = format!("kwok-{}", number % NODES).into();
    Request { method: "POST", path: format!("/api/v1/namespaces/{namespace}/pods"), body: pod.to_string() }
}

/// Waits until KWOK has made Pod `number` Running. KWOK handles the Pods roughly in the order of their creation.
fn wait_until_running(api: &Api, namespace: &str, number: usize) {
    let path = format!("/api/v1/namespaces/{namespace}/pods/shop-{number}");
    let get = [Request { method: "GET", path, body: String::new() }];
    clock::eventually("the last Pod is Running", 600, || {
        std::thread::sleep(Duration::from_secs(1));
        api.send(&get)[0].body.contains(r#""phase":"Running""#).then_some(())
    });
}

/// Writes a kubeconfig with a token of the service account, for use in the cluster's network. Returns the file's path.
fn write_kubeconfig() -> String {
    let config = run_script(&["kubeconfig"]);
    let path = Path::new(config.trim()).with_file_name("webhook-kubeconfig").display().to_string();
    let ca = kubectl_json(&["config", "view", "--raw"])["clusters"][0]["cluster"]["certificate-authority"].take();
    let token = kubectl(&["-n", NAMESPACE, "create", "token", WEBHOOK]);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x", "namespace": NAMESPACE}}],
        "clusters": [{"name": "x", "cluster": {"server": format!("https://{API_IP}"), "certificate-authority": ca}}],
        "users": [{"name": "x", "user": {"token": token.trim()}}],
    });
    std::fs::write(&path, config.to_string()).expect("to write a kubeconfig");
    path
}

/// Installs podgate's webhook as a process of this machine in the cluster's network. The webhook's certificates expire
/// in a minute, so that the webhook renews them during the run.
fn install() -> Webhook {
    kubectl(&["apply", "-k", &format!("{ROOT}/{INJECTOR}")]);
    kubectl(&["-n", NAMESPACE, "delete", "deployment", WEBHOOK]);
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "scale", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": WEBHOOK}},
        "endpoints": [{"addresses": [NODE_IP], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": 8443, "protocol": "TCP"}],
    });
    apply(&slice);
    let program = std::process::Command::new(format!("{ROOT}/tools/build")).arg(WEBHOOK).output().expect("tools/build");
    let program = String::from_utf8(program.stdout).expect("a path");
    let log = std::fs::File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("scale-webhook.log")).expect("a log");
    let (config, listen) = (write_kubeconfig(), format!("{NODE_IP}:8443"));
    let mut command = script_command();
    command.args(["run", program.trim(), "--kubeconfig", &config, "--listen", &listen, "--certificate-life", "1m"]);
    command.args(["--status-listen", "127.0.0.1:0"]).stdout(Stdio::null()).stderr(log);
    let webhook = Webhook(command.spawn().expect("the webhook"));
    clock::eventually("the webhook has written its CA", 60, || Some(()).filter(|()| !bundle().is_empty()));
    webhook
}

/// Creates the namespaces and the configuration of the empty webhook. The API server calls the empty webhook for the
/// same Pods as podgate's webhook.
fn configure(certificate: &str) {
    for form in FORMS {
        run_script(&["namespace", form]);
    }
    for form in &FORMS[..2] {
        kubectl(&["label", "namespace", form, "podgate.io/inject=disabled"]);
    }
    let configuration = kubectl_json(&["get", "mutatingwebhookconfiguration", CONFIGURATION]);
    let mut webhook = configuration["webhooks"][0].clone();
    webhook["name"] = "empty.podgate.io".into();
    let bundle = BASE64_STANDARD.encode(certificate);
    webhook["clientConfig"] = json!({"url": format!("https://{}/", allow_all::ADDRESS), "caBundle": bundle});
    webhook["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": FORMS[1]}});
    let kind = "MutatingWebhookConfiguration";
    apply(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "scale-empty"},
        "webhooks": [webhook],
    }));
    // API servers read a changed configuration within a second.
    std::thread::sleep(Duration::from_secs(2));
}

fn apply(object: &Value) {
    try_script(&["kubectl", "apply", "-f", "-"], &object.to_string()).unwrap_or_else(|error| panic!("apply: {error}"));
}

/// Returns the CAs in the webhook's configuration.
fn bundle() -> String {
    let path = "jsonpath={.webhooks[0].clientConfig.caBundle}";
    kubectl(&["get", "mutatingwebhookconfiguration", CONFIGURATION, "-o", path])
}

fn remove() {
    let _ = try_kubectl(&["delete", "mutatingwebhookconfiguration", "scale-empty", "--ignore-not-found"]);
    let _ = try_kubectl(&["delete", "-k", &format!("{ROOT}/{INJECTOR}"), "--ignore-not-found"]);
    for form in FORMS {
        // Send a single request, because `kubectl delete pods` would send one for each Pod.
        let delete = ["kubectl", "delete", "--raw", &format!("/api/v1/namespaces/{form}/pods"), "-f", "-"];
        let _ = try_script(&delete, r#"{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}"#);
    }
    let _ = try_kubectl(&[&["delete", "namespace", "--ignore-not-found"], &FORMS[..]].concat());
    let _ = try_script(&["stop-kwok"], "");
}
