//! Tests `check --server` against a fake API server.

use super::{check, file, program};
use crate::api_server::{Answer, FakeApiServer, Request, error_status, kubeconfig};
use crate::free_port::free_address;
use podgate::order::inject::{Options, inject, without_nulls};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Starts an API server of this minor version and returns its address. Access reviews report the verbs in `allowed` as
/// allowed. If `denies` is true, the server denies the reviews themselves.
fn serve(minor: &'static str, allowed: &'static [&'static str], denies: bool) -> String {
    serve_with(minor, allowed, denies, json!([]))
}

/// Starts a server like [`serve`] that also has these MutatingWebhookConfigurations.
fn serve_with(minor: &'static str, allowed: &'static [&'static str], denies: bool, configurations: Value) -> String {
    serve_policies(minor, allowed, denies, configurations, shipped_policy)
}

/// Returns the object of podgate's manifests at this path: `policies/NAME` or `policybindings/NAME`.
pub(crate) fn shipped_policy(path: &str) -> Option<Value> {
    let (kind, name) = path.split_once('/').unwrap();
    let texts = ["policy.yaml", "injector/unknown-containers.yaml"]
        .map(|file| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests").join(file)).unwrap());
    let objects = texts.iter().flat_map(|text| text.split("\n---\n")).map(|text| serde_saphyr::from_str(text).unwrap());
    let is_wanted = |object: &Value| {
        let plural = object["kind"].as_str().unwrap().to_lowercase().replace("policy", "policies");
        let plural = plural.replace("policiesbinding", "policybindings");
        plural == format!("validatingadmission{kind}") && object["metadata"]["name"] == name
    };
    objects.into_iter().find(is_wanted)
}

/// Starts a server like [`serve_with`] with other policies.
fn serve_policies(
    minor: &'static str,
    allowed: &'static [&'static str],
    denies: bool,
    configurations: Value,
    policies: impl Fn(&str) -> Option<Value> + Send + 'static,
) -> String {
    let has_webhook = configurations.to_string().contains("pods.podgate.io")
        || configurations.to_string().contains("\"app.kubernetes.io/component\":\"webhook\"");
    let admit = move |pod: Value| Answer::Json(201, if has_webhook { injected(&pod) } else { with_defaults(pod) });
    serve_api(minor, allowed, denies, configurations, policies, admit).address
}

/// Returns the Pod as podgate's webhook leaves it in a cluster. The webhook has other settings than the tool.
pub(crate) fn injected(pod: &Value) -> Value {
    let options = Options { is_from_api: true, has_fixed_user: false, ..Options::new("registry.example/podgate:1") };
    with_defaults(inject(&with_defaults(pod.clone()), &options, &KnownFacts::default()).unwrap().value)
}

/// Adds default values to a Pod and removes empty fields, as the API server does.
pub(crate) fn with_defaults(pod: Value) -> Value {
    let mut pod = without_nulls(&pod);
    let set = |value: &mut Value, key: &str, default: Value| {
        if let Some(fields) = value.as_object_mut() {
            fields.entry(key).or_insert(default);
        }
    };
    let probe = |value: &mut Value| {
        let fields = value.as_object_mut().unwrap();
        fields.retain(|_, value| *value != json!(0));
        for (key, default) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            fields.entry(key).or_insert(json!(default));
        }
        if let Some(get) = fields.get_mut("httpGet") {
            get.as_object_mut().unwrap().entry("scheme").or_insert(json!("HTTP"));
            get.as_object_mut().unwrap().entry("path").or_insert(json!("/"));
        }
    };
    for list in ["initContainers", "containers"] {
        for own in pod["spec"][list].as_array_mut().into_iter().flatten() {
            set(own, "terminationMessagePath", json!("/dev/termination-log"));
            set(own, "imagePullPolicy", json!("IfNotPresent"));
            set(own, "resources", json!({}));
            for field in ["startupProbe", "readinessProbe", "livenessProbe"] {
                own.get_mut(field).into_iter().for_each(probe);
            }
            for variable in own.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
                variable
                    .pointer_mut("/valueFrom/fieldRef")
                    .into_iter()
                    .for_each(|it| set(it, "apiVersion", json!("v1")));
            }
        }
    }
    for volume in pod["spec"]["volumes"].as_array_mut().into_iter().flatten() {
        volume.get_mut("downwardAPI").into_iter().for_each(|it| set(it, "defaultMode", json!(420)));
    }
    for (key, default) in
        [("restartPolicy", "Always"), ("dnsPolicy", "ClusterFirst"), ("serviceAccountName", "default")]
    {
        set(&mut pod["spec"], key, json!(default));
    }
    set(&mut pod["spec"], "terminationGracePeriodSeconds", json!(30));
    pod["metadata"]["name"] = format!("{}x7k2p", pod["metadata"]["generateName"].as_str().unwrap()).into();
    pod["status"] = json!({"phase": "Pending"});
    pod
}

/// Starts a server like [`serve_with`] that answers the creation of a Pod in a dry run with `admit`.
pub(crate) fn serve_pods(
    minor: &'static str,
    allowed: &'static [&'static str],
    denies: bool,
    configurations: Value,
    admit: impl FnMut(Value) -> Answer + Send + 'static,
) -> FakeApiServer {
    serve_api(minor, allowed, denies, configurations, shipped_policy, admit)
}

fn serve_api(
    minor: &'static str,
    allowed: &'static [&'static str],
    denies: bool,
    configurations: Value,
    policies: impl Fn(&str) -> Option<Value> + Send + 'static,
    mut admit: impl FnMut(Value) -> Answer + Send + 'static,
) -> FakeApiServer {
    let list = json!({"kind": "MutatingWebhookConfigurationList", "apiVersion": "admissionregistration.k8s.io/v1", "metadata": {}, "items": configurations});
    let answer = move |request: &Request| {
        let of = |method: &str, path: &str| request.method == method && request.path.starts_with(path);
        if of("GET", "/version") {
            return Answer::Json(
                200,
                json!({"major": "1", "minor": minor, "gitVersion": "v1", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                       "goVersion": "", "compiler": "", "platform": ""}),
            );
        }
        if of("POST", "/api/v1/namespaces/shop/pods") {
            assert_eq!(request.path, "/api/v1/namespaces/shop/pods?&dryRun=All", "a real Pod must never be created");
            if denies {
                let why = "pods is forbidden: User \"me\" cannot create resource \"pods\" in API group \"\" in the namespace \"shop\"";
                return error_status(403, "Forbidden", why);
            }
            return admit(serde_json::from_str(&request.body).unwrap());
        }
        if denies {
            return error_status(403, "Forbidden", "you may not ask");
        }
        if of("GET", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations") {
            return Answer::Json(200, list.clone());
        }
        if let Some(object) = request.path.strip_prefix("/apis/admissionregistration.k8s.io/v1/validatingadmission") {
            return policies(object).map_or(error_status(404, "NotFound", "not found"), |it| Answer::Json(200, it));
        }
        let is_review = of("POST", "/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews");
        assert!(is_review, "{request:?}");
        let has = |text: &str| request.body.contains(text);
        assert!(has("\"system:serviceaccount:shop:worker\"") && has("\"system:serviceaccounts:shop\""), "{request:?}");
        let is_allowed = allowed.iter().any(|verb| has(&format!("\"verb\":\"{verb}\"")));
        Answer::Json(
            201,
            json!({"kind": "LocalSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {},
                   "status": {"allowed": is_allowed}}),
        )
    };
    FakeApiServer::new(answer)
}

pub(crate) const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations: {podgate.io/order: 'db & cache, api', mode.podgate.io/db: entrypoint}
spec:
  serviceAccountName: worker
  containers:
  - {name: db, command: [db], readinessProbe: {tcpSocket: {port: 1}}}
  - {name: cache, command: [cache], readinessProbe: {tcpSocket: {port: 3}}}
  - {name: api, command: [api], readinessProbe: {tcpSocket: {port: 2}}}
";

/// Runs `check --server` on a Pod. Returns exit code, standard output and standard error.
pub(crate) fn with_server(server: &str, pod: &str) -> (i32, String, String) {
    let (directory, _) = file(pod);
    kubeconfig(directory.path(), server);
    check(&directory, &["pod.yaml", "--server", "--kubeconfig", "kubeconfig", "--request-timeout", "5s", "-q"])
}

#[test]
fn service_account_needs_the_sidecars_permissions() {
    let (code, out, err) = with_server(&serve_with("36", ALL, false, json!([configuration()])), POD);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("0 errors, 0 warnings, 0 notes"), "{out}");
    let (code, out, _) = with_server(&serve("36", &["get"], false), POD);
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains(
            "warning[missing-rbac]: the service account worker in shop lacks permissions for Pods (watch, patch)"
        ),
        "{out}"
    );
    assert!(out.contains("pod.yaml:7:3"), "{out}");
    let (_, out, _) = with_server(&serve("36", &["get"], false), &format!("{POD}---\n{POD}"));
    assert!(
        out.contains("pod.yaml:7:3") && out.contains("pod.yaml:19:3"),
        "check must report both Pods with the same name: {out}"
    );
    let (_, out, _) = with_server(&serve("36", &[], true), POD);
    assert!(out.contains("note[missing-rbac]") && out.contains("podgate's sidecar: you may not ask"), "{out}");
    // Without the role, podgate never sees that db has exited. With the role, there is nothing to report.
    let exits = POD.replace("db & cache", "db=Exited & cache").replace("command: [db], ", "");
    let exits = exits.replace(", mode.podgate.io/db: entrypoint", "");
    for (verbs, code) in [(&["patch"][..], 1), (ALL, 0)] {
        let (found, out, _) = with_server(&serve("36", verbs, false), &exits);
        assert_eq!((found, out.contains("known-by-kubelet")), (code, false), "{out}");
        let error = "error[missing-rbac]: the service account worker in shop lacks permissions for Pods (watch), so \
                     podgate never sees db=Exited";
        assert_eq!(out.contains(error), code == 1, "{out}");
    }
    let without = POD.replace("podgate.io/order", "podgate.io/publish: none, podgate.io/order");
    let (code, out, _) = with_server(&serve("36", &[], false), &without);
    assert!(code == 0 && !out.contains("missing-rbac"), "without the API no permissions are needed: {out}");
}

/// All verbs of the sidecar's role.
pub(crate) const ALL: &[&str] = &["watch", "patch"];

/// Reads the webhook configuration of podgate's manifests.
pub(crate) fn configuration() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/injector/webhook.yaml");
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_pod_that_is_not_injected_needs_the_webhook() {
    let other = json!({"metadata": {"name": "podgate-webhook"}, "webhooks": [{
        "name": "sidecars.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {}}]});
    let mut emptied = configuration();
    emptied["webhooks"] = json!([]);
    for without in [json!([]), json!([other]), json!([emptied])] {
        let (code, out, err) = with_server(&serve_with("36", ALL, false, without), POD);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(out.contains("note[missing-webhook]: the cluster does not have podgate's webhook"), "{out}");
        assert!(out.contains("pod.yaml:5:3") && out.contains("install the webhook"), "{out}");
        assert!(out.contains("0 errors, 0 warnings, 1 note"), "{out}");
    }
    let disabled = POD.replace("metadata:\n", "metadata:\n  labels: {podgate.io/inject: disabled}\n");
    let (_, out, _) = with_server(&serve("36", ALL, false), &disabled);
    assert!(!out.contains("missing-webhook"), "{out}");
    let without = POD.replace("podgate.io/order", "podgate.io/publish: none, podgate.io/order");
    let (_, out, _) = with_server(&serve("36", &[], false), &without);
    assert!(out.contains("missing-webhook") && !out.contains("missing-rbac"), "{out}");
}

#[test]
fn webhook_is_found_by_name_or_label() {
    let mut by_name = configuration();
    by_name["metadata"] = json!({"name": "prefixed"});
    let mut by_label = configuration();
    by_label["metadata"]["name"] = json!("prefixed");
    by_label["webhooks"][0]["name"] = json!("pods.example.com");
    for present in [configuration(), by_name, by_label] {
        let (code, out, err) = with_server(&serve_with("36", ALL, false, json!([present])), POD);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(out.contains("0 errors, 0 warnings, 0 notes"), "{present}: {out}");
    }
}

/// Change of an object: a field of its spec with a new value, or `None` to remove the object.
type Change = Option<(&'static str, Value)>;

/// Returns the shipped policies with `change` in the object at `path`.
fn changed(path: &'static str, change: Change) -> impl Fn(&str) -> Option<Value> + Send + 'static {
    move |asked| {
        let mut object = shipped_policy(asked)?;
        if asked == path {
            let (field, value) = change.clone()?;
            object["spec"][field] = value;
        }
        Some(object)
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
    for ([policy, binding], level, code, effect, fix) in [
        (unknown_containers, "warning", 0, "a Pod whose order names an unknown container", "manifests/injector again"),
        (
            own_pod,
            "error",
            1,
            "worker in shop may change every Pod of the namespace",
            "manifests/policy.yaml, or upgrade",
        ),
    ] {
        let changes = of_policy.iter().map(|it| (policy, it)).chain(of_binding.iter().map(|it| (binding, it)));
        for (path, (change, expected)) in changes {
            let policies = changed(path, change.clone());
            let server = serve_policies("36", ALL, false, json!([configuration()]), policies);
            let (exit, out, err) = with_server(&server, POD);
            assert_eq!((exit, err.as_str()), (code, ""), "{path}: {out}");
            let expected = expected.replace("NAME", path.split_once('/').unwrap().1);
            assert_eq!(out.matches("[missing-policy]").count(), 1, "{out}");
            for text in [&format!("{level}[missing-policy]"), expected.as_str(), effect, fix] {
                assert!(out.contains(text), "{path}: {text:?} is missing in {out}");
            }
        }
    }
}

/// Without the verb `patch`, the policy has nothing to limit.
#[test]
fn policy_is_needed_only_for_the_right_that_it_limits() {
    let missing = changed("policies/podgate-own-pod", None);
    let server = serve_policies("36", &["watch"], false, json!([configuration()]), missing);
    let (code, out, _) = with_server(&server, POD);
    assert!(code == 0 && !out.contains("missing-policy"), "{out}");
}

#[test]
fn missing_permission_to_list_webhooks_gives_a_note() {
    let (code, out, err) = with_server(&serve("36", ALL, true), POD);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let note = "note[missing-webhook]: cannot check whether the cluster has podgate's webhook: you may not ask";
    assert!(out.contains(note), "{out}");
}

#[test]
fn injected_pod_needs_no_webhook() {
    let (directory, _) = file(POD);
    let output = program(directory.path()).current_dir(directory.path()).args(["inject", "pod.yaml"]).output().unwrap();
    let injected = String::from_utf8(output.stdout).unwrap();
    assert!(injected.contains("podgate.io/injected"), "{injected}");
    let (code, out, err) = with_server(&serve("36", ALL, false), &injected);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("0 errors, 0 warnings, 0 notes"), "{out}");
}

#[test]
fn old_cluster_version_is_rejected() {
    let (code, out, err) = with_server(&serve("29+", ALL, false), POD);
    assert_eq!((code, out.as_str(), err.matches('\n').count()), (1, "", 1), "{err}");
    assert!(err.contains("podgate needs Kubernetes 1.30 or newer, not 1.29"), "{err}");
}

#[test]
fn unreachable_server_gives_one_line() {
    let free = free_address();
    let (code, out, err) = with_server(&format!("http://{free}"), POD);
    assert_eq!((code, out.as_str(), err.matches('\n').count()), (1, "", 1), "{err}");
    assert!(err.contains("request to http://127.0.0.1"), "{err}");
}
