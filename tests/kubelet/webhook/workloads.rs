//! Workloads with one label and one annotation, and nothing else of podgate's.

use crate::clock::eventually;
use crate::cluster::{self, IMAGE, TESTSERVER_IMAGE, kubectl_json};
use crate::scene::Scene;
use podgate::order::finding::{Finding, Level};
use podgate::order::inject::{Options, inject};
use podgate::order::plan::KnownImages;
use serde_json::{Value, json};

/// The test server, ready `after`.
fn container(name: &str, port: u16, after: &str) -> Value {
    json!({
        "name": name, "image": TESTSERVER_IMAGE, "command": ["/testserver"],
        "args": ["--http", port.to_string(), "--ready-after", after],
        "readinessProbe": {"httpGet": {"path": "/", "port": port}, "periodSeconds": 1},
    })
}

fn template(name: &str, order: &str) -> Value {
    json!({
        "metadata": {
            "labels": {"app": name, "podgate.io/inject": "enabled"},
            "annotations": {"podgate.io/order": order},
        },
        // In the reverse of the order, which is podgate's affair.
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [container("web", 8003, "0s"), container("api", 8002, "500ms"), container("db", 8001, "1s")],
        },
    })
}

fn pod(name: &str, template: Value) -> Value {
    let mut pod = template;
    (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
    pod["metadata"]["name"] = name.into();
    pod
}

/// A Pod that asks for an order.
pub(crate) fn labeled_pod(name: &str) -> Value {
    pod(name, template(name, "db, api, web"))
}

/// One whose order can't be.
pub(crate) fn pod_with_bad_order() -> Value {
    pod("bad", template("bad", "db, apii, web"))
}

/// One that has nothing to do with podgate.
pub(crate) fn plain_pod(name: &str) -> Value {
    let mut pod = labeled_pod(name);
    pod["metadata"] = json!({"name": name});
    pod
}

/// What the function under `check`, `inject` and the webhook says of `pod`.
pub(crate) fn inject_errors(pod: &Value) -> String {
    let findings = inject(pod, &Options::new(IMAGE), &KnownImages::default()).expect_err("it must not be possible");
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).map(Finding::to_string);
    errors.collect::<Vec<_>>().join("\n")
}

pub(crate) struct Workload {
    name: &'static str,
    manifest: Value,
    /// In the order of their start.
    order: &'static [&'static str],
    /// It ends by itself.
    is_job: bool,
}

pub(crate) fn deployment() -> Workload {
    let (name, template) = ("deployed", template("deployed", "db, api, web"));
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template});
    workload(name, json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}))
}

fn stateful_set() -> Workload {
    let (name, template) = ("stateful", template("stateful", "db, api, web"));
    let spec = json!({"serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": template});
    workload(name, json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}))
}

fn workload(name: &'static str, manifest: Value) -> Workload {
    Workload { name, manifest, order: &["db", "api", "web"], is_job: false }
}

/// `app` when the proxy is ready; the proxy, which would run for ever, is ended when `app` has exited.
fn job() -> Workload {
    let name = "batch";
    let mut template = template(name, "proxy, app");
    template["metadata"]["annotations"]["podgate.io/sidecars"] = "proxy".into();
    let mut app = container("app", 8002, "0s");
    app["args"] = json!(["--exit-after", "2s"]);
    app.as_object_mut().expect("an object").remove("readinessProbe");
    template["spec"]["containers"] = json!([app, container("proxy", 8001, "1s")]);
    template["spec"]["restartPolicy"] = "Never".into();
    let spec = json!({"backoffLimit": 0, "template": template});
    let manifest = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
    Workload { name, manifest, order: &["proxy", "app"], is_job: true }
}

pub(crate) fn all() -> [Workload; 3] {
    [deployment(), stateful_set(), job()]
}

impl Workload {
    pub(crate) fn assert_starts_in_order(&self, scene: &Scene) {
        cluster::create(&scene.namespace, &self.manifest.to_string());
        let list = ["-n", &scene.namespace, "get", "pods", "-l", &format!("app={}", self.name)];
        let pod = eventually("its pod is there", 60, || {
            kubectl_json(&list)["items"][0]["metadata"]["name"].as_str().map(str::to_owned)
        });
        let run = scene.follow(&pod);
        if self.is_job {
            run.watch.wait_until("the job's pod is done", 120, |seen| seen.pod["status"]["phase"] == "Succeeded");
        } else {
            run.wait_until_up();
        }
        run.assert_order(self.order);
        if self.is_job {
            eventually("the Job is complete", 60, || {
                let job = kubectl_json(&["-n", &scene.namespace, "get", "job", self.name]);
                (job["status"]["succeeded"] == 1).then_some(())
            });
        }
    }
}
