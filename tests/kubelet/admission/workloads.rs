//! Workloads with podgate's annotations only, so that the webhook must inject them.

use crate::clock::eventually;
use crate::cluster::{self, IMAGE, TESTSERVER_IMAGE, kubectl_json};
use crate::scene::Scene;
use podgate::order::finding::{Finding, Level};
use podgate::order::inject::{Options, inject};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

/// Creates a container with a test server that becomes ready `after` this time.
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
            "labels": {"app": name},
            "annotations": {"podgate.io/order": order},
        },
        // The list is the reverse of the start order, because the webhook must not depend on the list order.
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

/// Returns a Pod with an order, and without podgate's label.
pub(crate) fn ordered_pod(name: &str) -> Value {
    pod(name, template(name, "db, api, web"))
}

/// Creates a Pod whose order has a syntax error.
pub(crate) fn pod_with_bad_order() -> Value {
    pod("bad", template("bad", "db, api=ready, web"))
}

/// Creates a Pod whose order names an unknown container. A later webhook could add this container.
pub(crate) fn pod_with_unknown_container() -> Value {
    pod("unknown", template("unknown", "db, apii, web"))
}

/// Returns a Pod with an order, and with podgate's label set to `value`.
pub(crate) fn labeled_pod(name: &str, value: &str) -> Value {
    let mut pod = ordered_pod(name);
    pod["metadata"]["labels"]["podgate.io/inject"] = value.into();
    pod
}

/// Returns a Pod without podgate's keys.
pub(crate) fn plain_pod(name: &str) -> Value {
    let mut pod = ordered_pod(name);
    pod["metadata"] = json!({"name": name});
    pod
}

/// Returns a Pod with a single podgate key, which is mistyped.
pub(crate) fn mistyped_pod(name: &str) -> Value {
    let mut pod = plain_pod(name);
    pod["metadata"]["annotations"] = json!({"afer.podgate.io/api": "db"});
    pod
}

/// Returns the errors for `pod` from the library function that `check`, `inject` and the webhook share.
pub(crate) fn inject_errors(pod: &Value) -> String {
    let findings = inject(pod, &Options::new(IMAGE), &KnownFacts::default()).expect_err("the order must be rejected");
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).map(Finding::to_string);
    errors.collect::<Vec<_>>().join("\n")
}

pub(crate) struct Workload {
    name: &'static str,
    manifest: Value,
    /// Containers in their start order.
    order: &'static [&'static str],
    /// True if the workload is a Job, so that its Pods complete.
    is_job: bool,
}

/// Creates a Deployment whose containers have no `command`, as in most Helm charts. The kubelet holds its containers.
pub(crate) fn deployment() -> Workload {
    let (name, mut template) = ("deployed", template("deployed", "db, api, web"));
    if cluster::minor_version() >= 35 {
        for container in template["spec"]["containers"].as_array_mut().expect("a list") {
            container.as_object_mut().expect("an object").remove("command");
        }
    }
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template});
    workload(name, json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}))
}

/// Returns a Deployment without any key of podgate, which gets its order from the webhook's file.
pub(crate) fn deployment_without_order(name: &'static str) -> Workload {
    let mut template = template(name, "");
    template["metadata"].as_object_mut().expect("an object").remove("annotations");
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

/// Creates a Job. `app` starts when `proxy` is ready. `proxy` would run forever, so podgate terminates `proxy` when
/// `app` has exited.
fn job() -> Workload {
    let name = "batch";
    let mut template = template(name, "proxy, app");
    template["metadata"]["annotations"]["podgate.io/job-sidecars"] = "proxy".into();
    let mut app = container("app", 8002, "0s");
    app["args"] = json!(["--exit-after", "2s"]);
    app.as_object_mut().expect("an object").remove("readinessProbe");
    template["spec"]["containers"] = json!([app, container("proxy", 8001, "1s")]);
    template["spec"]["restartPolicy"] = "Never".into();
    let spec = json!({"backoffLimit": 0, "template": template});
    let manifest = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
    Workload { name, manifest, order: &["proxy", "app"], is_job: true }
}

/// Creates a Deployment in which `db` waits for a native sidecar with a readinessProbe, and whose order names a
/// container that is missing.
fn meshed() -> Workload {
    let (name, mut template) = ("meshed", template("meshed", "mesh, missing?, db, api, web"));
    let mut mesh = container("mesh", 8010, "2s");
    mesh["restartPolicy"] = "Always".into();
    template["spec"]["initContainers"] = json!([mesh]);
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template});
    let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec});
    Workload { name, manifest, order: &["mesh", "db", "api", "web"], is_job: false }
}

pub(crate) fn all() -> [Workload; 4] {
    [deployment(), stateful_set(), job(), meshed()]
}

impl Workload {
    pub(crate) fn assert_starts_in_order(&self, scene: &Scene) {
        cluster::create(&scene.namespace, &self.manifest.to_string());
        let list = ["-n", &scene.namespace, "get", "pods", "-l", &format!("app={}", self.name)];
        let pod = eventually("the workload's Pod exists", 60, || {
            kubectl_json(&list)["items"][0]["metadata"]["name"].as_str().map(str::to_owned)
        });
        let run = scene.follow(&pod);
        if self.is_job {
            run.watch.wait_until("the Job's Pod succeeds", 120, |seen| seen.pod["status"]["phase"] == "Succeeded");
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
