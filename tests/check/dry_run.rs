//! Tests the dry run of `check --server` against a fake API server, whose webhooks change or refuse the Pod.

use super::server::{ALL, POD, configuration, injected, serve_pods, with_defaults, with_server};
use crate::api_server::{Answer, FakeApiServer, error_status};
use podgate::order::inject::{Options, inject, inject_again, is_injected};
use podgate::order::lint::{check_refusal, check_returned};
use podgate::order::plan::KnownFacts;
use podgate::order::pod_templates::templates;
use serde_json::{Value, json};

/// Change of a Pod by a webhook.
type Change = fn(&mut Value);

/// Starts a server with podgate's webhook. `change` is another webhook, which runs afterwards.
fn serve(change: Change) -> FakeApiServer {
    let admit = move |pod: Value| {
        let mut pod = injected(&pod);
        change(&mut pod);
        Answer::Json(201, pod)
    };
    serve_pods("36", ALL, false, json!([configuration()]), admit)
}

/// Returns the bodies of the Pods that were sent.
fn sent(server: &FakeApiServer) -> Vec<Value> {
    let requests = server.requests().into_iter().filter(|request| request.path.starts_with("/api/v1/"));
    requests.map(|request| serde_json::from_str(&request.body).unwrap()).collect()
}

fn container<'a>(pod: &'a mut Value, name: &str) -> &'a mut Value {
    let (init, regular) = {
        let spec = pod["spec"].as_object_mut().unwrap();
        (spec.remove("initContainers"), spec.remove("containers"))
    };
    pod["spec"]["initContainers"] = init.unwrap_or(json!([]));
    pod["spec"]["containers"] = regular.unwrap();
    let list = if name == "podgate" || name == "proxy" { "initContainers" } else { "containers" };
    let all = pod["spec"][list].as_array_mut().unwrap();
    all.iter_mut().find(|own| own["name"] == name).unwrap()
}

const STATEFUL: &str = "\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: shop}
spec:
  selector: {matchLabels: {app: shop}}
  volumeClaimTemplates:
  - {metadata: {name: data}}
  template:
    metadata:
      labels: {app: shop}
      annotations: {podgate.io/order: 'db & api, web'}
    spec:
      serviceAccountName: worker
      containers:
      - {name: db, command: [db], readinessProbe: {tcpSocket: {port: 1}}, volumeMounts: [{name: data, mountPath: /data}]}
      - {name: api, command: [api], readinessProbe: {tcpSocket: {port: 2}}}
      - {name: web, command: [web]}
";

#[test]
fn template_is_sent_as_a_pod() {
    let server = serve(|_| ());
    let (code, out, err) = with_server(&server.address, STATEFUL);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("0 errors, 0 warnings, 0 notes"), "{out}");
    let [pod] = &sent(&server)[..] else { panic!("one Pod: {:?}", sent(&server)) };
    assert_eq!(pod["metadata"]["generateName"], "shop-");
    assert_eq!(pod["metadata"]["labels"], json!({"app": "shop"}));
    assert_eq!(pod["spec"]["volumes"], json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]));
    assert!(pod["spec"].get("initContainers").is_none(), "podgate's webhook must inject the Pod: {pod}");

    // If the cluster has no webhook, `check` injects the Pod itself and sends the result.
    let server = serve_pods("36", ALL, false, json!([]), |pod| Answer::Json(201, with_defaults(pod)));
    let (code, out, _) = with_server(&server.address, STATEFUL);
    assert!(code == 0 && out.contains("0 errors, 0 warnings, 1 note") && out.contains("missing-webhook"), "{out}");
    assert_eq!(sent(&server)[0]["spec"]["initContainers"][0]["name"], "podgate");
}

#[test]
fn namespace_cannot_change_the_request() {
    for namespace in ["shop/pods?x=1#", "shop#", "..", "Shop"] {
        let server = serve_pods("36", ALL, true, json!([]), |_| Answer::Disconnect);
        let pod = POD.replace("  name: p\n", &format!("  name: p\n  namespace: '{namespace}'\n"));
        with_server(&server.address, &pod);
        assert_eq!(sent(&server), [Value::Null; 0], "{namespace}");
    }
}

/// A Pod with a native sidecar, and a probe with default and zero values.
const WIDE: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations:
    podgate.io/order: 'db & api, web'
    podgate.io/mode: MODE
    mode.podgate.io/db: MODE
    mode.podgate.io/api: MODE
spec:
  serviceAccountName: worker
  initContainers:
  - {name: proxy, image: proxy, restartPolicy: Always}
  containers:
  - name: db
    image: db
    command: [db]
    readinessProbe: {initialDelaySeconds: 0, httpGet: {port: 1, path: ''}}
  - {name: api, image: api, command: [api], readinessProbe: {tcpSocket: {port: 2}}}
  - {name: web, image: web, command: [web], startupProbe: {httpGet: {port: 3}}}
";

/// Runs `check --server` with a webhook that changes the Pod. Returns the output.
fn checked(mode: &str, change: Change) -> (i32, String) {
    let (code, out, err) = with_server(&serve(change).address, &WIDE.replace("MODE", mode));
    assert_eq!(err, "", "{out}");
    (code, out)
}

#[test]
fn harmless_changes_are_not_reported() {
    let changes: [Change; 5] = [
        |_| (),
        |pod| {
            let injected = json!({"name": "istio-proxy", "image": "i", "restartPolicy": "Always"});
            pod["spec"]["initContainers"].as_array_mut().unwrap().push(injected);
            pod["spec"]["volumes"].as_array_mut().unwrap().insert(0, json!({"name": "istio", "emptyDir": {}}));
            container(pod, "db")["env"] = json!([{"name": "PROXY", "value": "1"}]);
        },
        // The gate is behind a wrapper.
        |pod| container(pod, "api")["command"].as_array_mut().unwrap().insert(0, json!("/wrap")),
        |pod| {
            let api = container(pod, "api");
            api["args"] = api["command"].take();
            api["command"] = json!(["/vault-env"]);
        },
        // Gates do not depend on the list order.
        |pod| pod["spec"]["containers"].as_array_mut().unwrap().reverse(),
    ];
    for change in changes {
        let (code, out) = checked("entrypoint", change);
        assert!(code == 0 && out.contains("0 errors, 0 warnings, 0 notes"), "{out}");
    }
    let (code, out) = checked("post-start", |_| ());
    assert!(
        code == 0 && out.contains("note[not-side-by-side]") && out.contains("0 errors, 0 warnings, 1 note"),
        "{out}"
    );
}

/// For each manifest, `check` and the webhook of the same version produce the same injection.
#[test]
fn no_manifest_of_the_corpus_is_reported() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/inject/corpus");
    let mut compared = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let text = std::fs::read_to_string(&path).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options).unwrap_or_default();
        for document in &documents {
            for found in templates(document) {
                let mut pod = found.place.of(document).unwrap().clone();
                pod["metadata"]["generateName"] = "p-".into();
                let Ok(by_tool) = inject(&pod, &Options::new("podgate"), &KnownFacts::default()) else { continue };
                if is_injected(&by_tool.value) && !is_injected(&pod) {
                    let known = KnownFacts::default();
                    let compare = |sent: &Value, returned: &Value| {
                        check_returned(&pod, sent, returned, &inject_again(returned, &known), &known)
                    };
                    let findings = compare(&pod, &injected(&pod));
                    assert_eq!(findings, [], "{}", path.display());
                    let returned = with_defaults(by_tool.value.clone());
                    let findings = compare(&by_tool.value, &returned);
                    assert_eq!(findings, [], "{}", path.display());
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 20, "only {compared} templates");
}

#[test]
fn harmful_changes_are_errors() {
    let cases: [(&str, Change, &str, &str); 10] = [
        (
            "entrypoint",
            |pod| drop(container(pod, "podgate").as_object_mut().unwrap().remove("restartPolicy")),
            "error[native-lost]: a webhook of the cluster removes restartPolicy: Always from podgate",
            "update that webhook to a version that supports native sidecars",
        ),
        (
            "entrypoint",
            |pod| drop(container(pod, "proxy").as_object_mut().unwrap().remove("restartPolicy")),
            "error[native-lost]: a webhook of the cluster removes restartPolicy: Always from proxy",
            "pod.yaml:13:5",
        ),
        (
            "post-start",
            |pod| pod["spec"]["containers"].as_array_mut().unwrap().swap(0, 2),
            "error[order-lost]",
            "db, api, web; the Pod has: web, api, db",
        ),
        (
            "post-start",
            |pod| pod["spec"]["containers"].as_array_mut().unwrap().swap(0, 1),
            "error[order-lost]",
            "db, api, web; the Pod has: api, db, web",
        ),
        (
            "entrypoint",
            |pod| container(pod, "api")["command"] = json!(["/wrap", "api"]),
            "error[part-lost]",
            "parts of podgate in api are missing or different, so the order is not kept: gate",
        ),
        (
            "entrypoint",
            |pod| {
                let db = container(pod, "db");
                db["volumeMounts"].as_array_mut().unwrap().retain(|mount| mount["name"] != "podgate-self");
                db["lifecycle"] = json!({});
            },
            "error[part-lost]",
            "podgate in db are missing or different, so the order is not kept: mount podgate-self",
        ),
        (
            "post-start",
            |pod| container(pod, "db")["lifecycle"]["postStart"] = json!({"exec": {"command": ["mine"]}}),
            "error[part-lost]",
            "podgate in db are missing or different, so the order is not kept: postStart",
        ),
        (
            "entrypoint",
            |pod| {
                container(pod, "podgate")["env"] = json!([]);
                pod["spec"]["volumes"].as_array_mut().unwrap().retain(|volume| volume["name"] != "podgate");
            },
            "error[part-lost]",
            "variable PODGATE_CONTAINERS, volume podgate",
        ),
        (
            "entrypoint",
            |pod| pod["spec"]["initContainers"].as_array_mut().unwrap().retain(|own| own["name"] != "podgate"),
            "error[part-lost]",
            "the whole sidecar",
        ),
        (
            "entrypoint",
            |pod| {
                *pod = json!({"metadata": {}, "spec": {"containers": [{"name": "db"}]}});
            },
            "error[not-injected]: the cluster's webhook of podgate does not inject this Pod",
            "the namespace's label podgate.io/inject",
        ),
    ];
    for (mode, change, error, detail) in cases {
        let (code, out) = checked(mode, change);
        assert!(code == 1 && out.contains("1 error, 0 warnings"), "{error}: {out}");
        assert!(out.contains(error) && out.contains(detail), "{error}, {detail}: {out}");
    }
}

#[test]
fn doubtful_changes_are_warnings_or_notes() {
    let other_probe = |pod: &mut Value| {
        container(pod, "db")["readinessProbe"]["httpGet"] = json!({"port": 15020, "path": "/healthz"});
    };
    let cases: [(Change, &str, &str); 4] = [
        (
            |pod| {
                let first = json!({"name": "istio-proxy", "image": "i", "restartPolicy": "Always"});
                pod["spec"]["initContainers"].as_array_mut().unwrap().insert(0, first);
            },
            "warning[sidecar-not-first]: istio-proxy comes before podgate's sidecar",
            "pod.yaml:5:3",
        ),
        (
            other_probe,
            "warning[probe-changed]: a webhook of the cluster changes the readinessProbe of db, but",
            "pod.yaml:15:5",
        ),
        (
            |pod| drop(container(pod, "api").as_object_mut().unwrap().remove("readinessProbe")),
            "warning[probe-changed]",
            "the readinessProbe of api",
        ),
        (
            |pod| {
                let record = pod["metadata"]["annotations"]["podgate.io/injected"].as_str().unwrap();
                let record = record.replace(env!("CARGO_PKG_VERSION"), "0.0.9");
                pod["metadata"]["annotations"]["podgate.io/injected"] = record.into();
                container(pod, "api")["command"] = json!(["other", "gate"]);
            },
            "note[part-lost]: podgate 0.0.9 has injected this Pod",
            "0 errors, 0 warnings, 1 note",
        ),
    ];
    for (change, found, detail) in cases {
        let (code, out) = checked("entrypoint", change);
        assert!(code == 0 && out.contains(found) && out.contains(detail), "{found}, {detail}: {out}");
    }

    // Podgate's webhook runs after the other webhook, so the kubelet and podgate's sidecar both use the new probe.
    let admit = move |pod: Value| {
        let mut pod = with_defaults(pod);
        other_probe(&mut pod);
        container(&mut pod, "web")["startupProbe"]["httpGet"]["port"] = json!(15021);
        Answer::Json(201, injected(&pod))
    };
    let server = serve_pods("36", ALL, false, json!([configuration()]), admit);
    let (code, out, _) = with_server(&server.address, &WIDE.replace("MODE", "entrypoint"));
    assert!(code == 0 && out.contains("note[probe-changed]") && out.contains("0 warnings, 1 note"), "{out}");
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
            "pods \"p-x7k2p\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true (pod or container \"db\" must set securityContext.runAsNonRoot=true)",
            "podgate's own parts meet the level",
        ),
        (
            403,
            "pods \"p-x7k2p\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true (containers \"db\", \"podgate\" must set securityContext.runAsNonRoot=true)",
            "another webhook has changed",
        ),
        (
            400,
            "admission webhook \"policy.example.com\" denied the request: no emptyDir",
            "let the policy accept podgate's sidecar",
        ),
        (
            422,
            "pods \"p-x7k2p\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            "let the policy accept podgate's sidecar",
        ),
        (
            500,
            "Internal error occurred: failed calling webhook \"pods.podgate.io\": connection refused",
            "does not answer",
        ),
        (
            422,
            "Pod \"p-x7k2p\" is invalid: spec.containers[1].env[0].valueFrom: Invalid value: \"\": must specify one of: \
             `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            "its feature gate EnvFiles is off",
        ),
        (
            422,
            "Pod \"p-x7k2p\" is invalid: spec.containers[0].image: Required value",
            "change the field that the message names",
        ),
    ];
    for (code, message, fix) in cases {
        let finding = check_refusal(code, message);
        assert_eq!((finding.rule, finding.level.as_str()), ("pod-rejected", "error"), "{message}");
        assert!(finding.message.ends_with(message) && finding.fix.contains(fix), "{finding}");
    }
    for (code, message) in [
        (
            403,
            "pods is forbidden: User \"me\" cannot create resource \"pods\" in API group \"\" in the namespace \"shop\"",
        ),
        (400, "admission webhook \"policy.example.com\" does not support dry run"),
        (
            403,
            "pods \"p-x7k2p\" is forbidden: error looking up service account shop/worker: serviceaccount \"worker\" not found",
        ),
        (404, "namespaces \"shop\" not found"),
        (503, "the server is currently unable to handle the request"),
    ] {
        let finding = check_refusal(code, message);
        assert_eq!((finding.rule, finding.level.as_str()), ("dry-run-skipped", "note"), "{message}");
        assert!(finding.message.ends_with(message), "{finding}");
    }
}

#[test]
fn other_checks_go_on_after_a_refusal() {
    let refuse = |_| error_status(403, "Forbidden", "pods \"p-1\" is forbidden: exceeded quota: small");
    let server = serve_pods("36", &[], false, json!([configuration()]), refuse);
    let (code, out, err) = with_server(&server.address, &format!("{POD}---\n{STATEFUL}"));
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    assert_eq!(
        out.matches("error[pod-rejected]: the API server refuses this Pod: pods \"p-1\" is forbidden").count(),
        2
    );
    assert_eq!(out.matches("warning[missing-rbac]").count(), 2, "{out}");

    let server = serve_pods("36", ALL, true, json!([]), |_| Answer::Disconnect);
    let (code, out, _) = with_server(&server.address, POD);
    assert!(code == 0 && out.contains("note[dry-run-skipped]: cannot create this Pod in a dry run"), "{out}");
}

/// Starts a server whose other webhook adds the container `daprd` before podgate's webhook injects the Pod.
fn serve_with_dapr() -> FakeApiServer {
    let admit = |mut pod: Value| {
        let sidecar = json!({"name": "daprd", "image": "daprd", "readinessProbe": {
            "httpGet": {"path": "/v1.0/healthz", "port": 3501}}});
        pod["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
        Answer::Json(201, injected(&pod))
    };
    serve_pods("36", ALL, false, json!([configuration()]), admit)
}

fn dapr_pod(order: &str) -> String {
    format!(
        "\
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations: {{podgate.io/order: '{order}', dapr.io/app-port: '3000'}}
spec:
  serviceAccountName: worker
  containers:
  - {{name: app, command: [app], ports: [{{containerPort: 3000}}]}}
"
    )
}

/// The manifest lacks `daprd`. Without the other webhook, an order with `daprd?` needs nothing from podgate, and an
/// order with `daprd` is an error.
#[test]
fn containers_of_other_webhooks_are_checked_in_the_returned_pod() {
    for order in ["daprd?=Started, app", "daprd=Started, app"] {
        let server = serve_with_dapr();
        let (code, out, err) = with_server(&server.address, &dapr_pod(order));
        assert_eq!((code, err.as_str(), sent(&server).len()), (0, "", 1), "{order}: {out}");
        assert!(out.contains("0 errors, 0 warnings"), "{order}: {out}");
    }
    for order in ["daprd?, app", "daprd, app"] {
        let (code, out, _) = with_server(&serve_with_dapr().address, &dapr_pod(order));
        let finding =
            "error[readiness-needs-later]: after all webhooks of the cluster have run: app starts only when daprd";
        assert!(out.contains(finding) && out.contains("pod.yaml:5:"), "{order}: {out}");
        assert!(code == 1 && out.contains("1 error, 0 warnings"), "{order}: {out}");
    }
    // The webhook that adds the container runs last, so podgate has not seen the container.
    let late = |pod: &mut Value| {
        let proxy = json!({"name": "daprd", "image": "daprd"});
        pod["spec"]["containers"].as_array_mut().unwrap().push(proxy);
    };
    let pod = POD.replace("'db &", "'daprd?=Started, db &");
    let (code, out, _) = with_server(&serve(late).address, &pod);
    assert!(code == 1 && out.contains("error[part-lost]") && out.contains("is not kept: gate"), "{out}");
    // Podgate's webhook skips the namespace.
    let skip = move |mut pod: Value| {
        late(&mut pod);
        Answer::Json(201, pod)
    };
    let server = serve_pods("36", ALL, false, json!([configuration()]), skip);
    let (code, out, _) = with_server(&server.address, &dapr_pod("daprd?=Started, app"));
    assert!(code == 1 && out.contains("error[not-injected]"), "{out}");
    // No webhook adds the container, so the Pod needs nothing from podgate.
    let (code, out, _) = with_server(&serve(|_| ()).address, &dapr_pod("daprd?=Started, app"));
    assert!(code == 0 && out.contains("0 errors, 0 warnings"), "{out}");
}

#[test]
fn unknown_containers_come_from_the_cluster() {
    let unknown = "error[unknown-container]: there is no container";
    let policy = "pods \"p-1\" is forbidden: ValidatingAdmissionPolicy 'podgate-unknown-containers' with binding \
                  'podgate-unknown-containers' denied request: podgate - metadata.annotations[\"podgate.io/order\"]: there is no \
                  container apii; did you mean api?";
    let names = |answer: fn(&str, Value) -> Answer, order: &str| {
        let server = serve_pods("36", ALL, false, json!([configuration()]), move |pod| answer(policy, pod));
        let (code, out, err) = with_server(&server.address, &dapr_pod(order));
        assert_eq!((code, err.as_str(), sent(&server).len()), (1, "", 1), "{out}");
        out
    };
    // Another webhook has added istio, so podgate's policy names only the other container.
    let out = names(|policy, _| error_status(422, "Invalid", policy), "istio, apii, app");
    assert!(out.contains(&format!("{unknown} apii")) && out.contains("pod.yaml:5:"), "{out}");
    assert!(out.contains("1 error, 0 warnings, 0 notes"), "{out}");
    // Without the policy, the API server accepts the Pod.
    let out = names(|_, pod| Answer::Json(201, pod), "apii, app");
    assert!(out.contains("error[unknown-container]: after all webhooks of the cluster have run: there is no"), "{out}");
    assert!(out.contains("1 error, 0 warnings, 0 notes"), "{out}");
    let out =
        names(|_, _| error_status(403, "Forbidden", "pods \"p-1\" is forbidden: exceeded quota: small"), "apii, app");
    assert!(out.contains("error[pod-rejected]") && out.contains("1 error, 0 warnings, 0 notes"), "{out}");
    // Without a result of the dry run, the finding comes from the file alone.
    let out = names(|_, _| error_status(404, "NotFound", "namespaces \"shop\" not found"), "apii, app");
    assert!(out.contains(&format!("{unknown} apii")) && out.contains("note[dry-run-skipped]"), "{out}");
}

#[test]
fn skipped_dry_run_is_reported() {
    let webhook = || json!([configuration()]);
    for (configurations, order, errors) in [
        (json!([]), "daprd?=Started, app", 0),
        (json!([]), "daprd=Started, app", 1),
        (webhook(), "app, app", 1),
        (webhook(), "app, daprd, app", 2),
    ] {
        let server = serve_pods("36", ALL, false, configurations, |_| Answer::Disconnect);
        let (code, out, err) = with_server(&server.address, &dapr_pod(order));
        assert_eq!((code, err.as_str(), sent(&server).len()), (errors.min(1), "", 0), "{order}: {out}");
        let note = "note[dry-run-skipped]: podgate did not create this Pod in a dry run:";
        assert!(out.contains(note) && out.contains(&format!("{errors} error")), "{order}: {out}");
    }
}

/// Podgate uses the original probe, which Istio's proxy knows. A port's name counts as equal to its number.
#[test]
fn probes_with_known_originals_are_not_reported() {
    let rewrite = |mut pod: Value| {
        let original = r#"{"/app-health/db/readyz": {"tcpSocket": {"port": 5432}, "timeoutSeconds": 1}}"#;
        let proxy = json!({"name": "istio-proxy", "image": "i", "env": [
            {"name": "ISTIO_KUBE_APP_PROBERS", "value": original}]});
        let containers = pod["spec"]["containers"].as_array_mut().unwrap();
        containers[0]["readinessProbe"] = json!({"httpGet": {"path": "/app-health/db/readyz", "port": 15020}});
        containers.push(proxy);
        pod
    };
    let pod =
        POD.replace("{tcpSocket: {port: 1}}", "{tcpSocket: {port: sql}}, ports: [{name: sql, containerPort: 5432}]");
    let first = move |pod| Answer::Json(201, injected(&rewrite(pod)));
    let last = move |pod| Answer::Json(201, rewrite(injected(&pod)));
    for server in [
        serve_pods("36", ALL, false, json!([configuration()]), first),
        serve_pods("36", ALL, false, json!([configuration()]), last),
    ] {
        let (code, out, _) = with_server(&server.address, &pod);
        assert!(code == 0 && out.contains("0 errors, 0 warnings, 0 notes"), "{out}");
    }
}
