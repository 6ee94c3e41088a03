//! Tests that `manifests/injector` and the chart create the same objects, and that the chart applies its values.

use crate::needs::missing;
use podgate::order::assigned::AssignedOrders;
use podgate::order::declare::keys;
use podgate::order::release;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output};

pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");

pub(crate) type Objects = BTreeMap<(String, String), Value>;

pub(crate) fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple::<Value>(text).unwrap().into_iter().filter(|value| !value.is_null()).collect()
}

pub(crate) fn by_name(documents: Vec<Value>) -> Objects {
    let count = documents.len();
    let key = |object: &Value| {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            word(&object["kind"]),
            format!("{}/{}", word(&object["metadata"]["namespace"]), word(&object["metadata"]["name"])),
        )
    };
    let objects: Objects = documents.into_iter().map(|object| (key(&object), object)).collect();
    assert_eq!(objects.len(), count, "duplicate object");
    objects
}

pub(crate) fn read(file: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{file}")).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns all objects of a kustomization.
pub(crate) fn kustomization(directory: &str) -> Vec<Value> {
    let resources = documents(&read(&format!("{directory}/kustomization.yaml")))[0]["resources"].clone();
    let files = resources.as_array().unwrap().iter();
    files.flat_map(|file| documents(&read(&format!("{directory}/{}", file.as_str().unwrap())))).collect()
}

pub(crate) fn injector() -> Objects {
    by_name(kustomization("manifests/injector"))
}

pub(crate) fn object<'a>(objects: &'a Objects, kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|((of, _), _)| of == kind);
    let object = found.next().unwrap_or_else(|| panic!("no {kind}")).1;
    assert!(found.next().is_none(), "more than one {kind}");
    object
}

/// Returns a flag's default value from the help text.
pub(crate) fn default(flag: &str) -> String {
    let help = Command::new(env!("CARGO_BIN_EXE_podgate-webhook")).arg("--help").env_clear().output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let of_flag = help.split(&format!("--{flag} <")).nth(1).unwrap_or_else(|| panic!("no --{flag}"));
    of_flag.split_once("[default: ").unwrap().1.split_once(']').unwrap().0.to_owned()
}

#[test]
fn manifests_use_the_programs_default_names() {
    let objects = injector();
    assert_eq!(object(&objects, "Secret")["metadata"]["name"], default("secret"));
    assert!(object(&objects, "Secret").get("data").is_none(), "applying again must not empty the Secret");
    assert_eq!(object(&objects, "MutatingWebhookConfiguration")["metadata"]["name"], default("configuration"));
    let service = object(&objects, "Service");
    assert_eq!(service["metadata"]["name"], default("service"));
    let container = &object(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    let port = |name: &str| {
        let ports = container["ports"].as_array().unwrap();
        ports.iter().find(|port| port["name"] == name).unwrap()["containerPort"].clone()
    };
    assert_eq!(format!(":{}", port("https")), default("listen"));
    assert_eq!(format!(":{}", port("status")), default("status-listen"));
    assert_eq!(service["spec"]["ports"], json!([{"name": "https", "port": 443, "targetPort": "https"}]));
    assert_eq!(container["image"], release::image("podgate-webhook"));
    assert_eq!(container["env"][0], json!({"name": "PODGATE_IMAGE", "value": default("image")}));
    assert_eq!(default("image"), release::sidecar_image());
}

/// The chart uses the images of `src/order/release.rs`. The images' tag defaults to the chart's version.
#[test]
fn chart_uses_the_images_of_the_release() {
    let values = documents(&read("charts/podgate/values.yaml")).remove(0);
    for (key, name) in [("image", "podgate-webhook"), ("sidecar", "podgate")] {
        assert_eq!(values[key]["repository"], format!("{}/{name}", release::IMAGE_REGISTRY));
        assert_eq!(values[key]["tag"], "", "{key}");
    }
}

#[test]
fn pods_are_restricted_and_spread_and_have_grace() {
    let objects = injector();
    let deployment = object(&objects, "Deployment");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = &deployment["spec"]["template"]["spec"];
    let (security, container) = (&pod["securityContext"], &pod["containers"][0]);
    assert_eq!(
        (&security["runAsNonRoot"], &security["seccompProfile"]),
        (&json!(true), &json!({"type": "RuntimeDefault"}))
    );
    let expected =
        json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}});
    assert_eq!(container["securityContext"], expected);
    assert_eq!(object(&objects, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    assert_eq!(container["readinessProbe"]["httpGet"], json!({"path": "/readyz", "port": "status"}));
    assert_eq!(container["livenessProbe"]["httpGet"], json!({"path": "/healthz", "port": "status"}));
    let seconds = |flag: &str| humantime::parse_duration(&default(flag)).unwrap().as_secs();
    assert!(
        pod["terminationGracePeriodSeconds"].as_u64().unwrap() > seconds("shutdown-delay") + seconds("shutdown-grace")
    );
    let labels = &deployment["spec"]["selector"]["matchLabels"];
    let metadata = &deployment["spec"]["template"]["metadata"];
    let found = labels.as_object().unwrap().iter().filter(|(key, value)| metadata["labels"][key.as_str()] == **value);
    assert_eq!(found.count(), labels.as_object().unwrap().len(), "the selector must match the Pods");
    // A proxy of a mesh would break the API server's TLS connection to the webhook.
    assert_eq!(metadata["labels"]["sidecar.istio.io/inject"], "false");
    assert_eq!(metadata["labels"]["kuma.io/sidecar-injection"], "disabled");
    assert_eq!(metadata["annotations"]["linkerd.io/inject"], "disabled");
    assert_eq!(metadata["annotations"]["consul.hashicorp.com/connect-inject"], "false");
    for selector in [
        &object(&objects, "Service")["spec"]["selector"],
        &object(&objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ] {
        assert_eq!(selector, labels);
    }
    assert_eq!(object(&objects, "PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
    assert!(
        pod["containers"][0]["resources"]["limits"].get("cpu").is_none(),
        "no throttling while the API server waits"
    );
}

/// Runs `helm` or `kubectl`. Returns `None` if this machine lacks the program and the test may be skipped.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Option<Output> {
    let place = Command::new(format!("{ROOT}/tests/webhook/{name}")).output().unwrap();
    if !place.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&place.stderr));
        missing(name);
        return None;
    }
    let program = String::from_utf8(place.stdout).unwrap();
    Some(Command::new(program.trim()).args(arguments).current_dir(ROOT).output().unwrap())
}

fn render(namespace: &str, values: &[&str]) -> Option<Result<Objects, String>> {
    let set: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
    let arguments = [&["template", "podgate", "charts/podgate", "--namespace", namespace], &set[..]].concat();
    let output = run("helm", &arguments)?;
    Some(match output.status.success() {
        true => Ok(by_name(documents(&String::from_utf8(output.stdout).unwrap()))),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    })
}

#[test]
fn chart_and_manifests_create_the_same_objects() {
    let Some(chart) = render("podgate", &[]) else { return };
    let mut manifests = by_name([kustomization("manifests"), kustomization("manifests/injector")].concat());
    // Helm creates the namespace with --create-namespace.
    manifests.remove(&("Namespace".to_owned(), "/podgate".to_owned())).unwrap();
    let chart = chart.unwrap();
    assert_eq!(chart.keys().collect::<Vec<_>>(), manifests.keys().collect::<Vec<_>>());
    for (key, object) in &manifests {
        assert_eq!(&chart[key], object, "{key:?}");
    }
    let lint = run("helm", &["lint", "--strict", "charts/podgate"]).unwrap();
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    let about: Value = documents(&read("charts/podgate/Chart.yaml")).remove(0);
    assert_eq!(
        (&about["version"], &about["appVersion"]),
        (&json!(env!("CARGO_PKG_VERSION")), &json!(env!("CARGO_PKG_VERSION")))
    );
}

#[test]
fn chart_applies_its_values() {
    let values = [
        "replicas=3",
        "image.tag=9",
        "sidecar.repository=registry.example/p",
        "sidecar.pullPolicy=Always",
        "sidecar.fixedUser=false",
        "sidecar.resources.requests.cpu=20m",
        "sidecar.resources.limits.cpu=1",
        "sidecar.resources.limits.memory=64Mi",
        "sidecar.namespaces={shop,bank}",
        "networkPolicy.apiServerCIDRs={10.0.0.0/28}",
        "networkPolicy.monitoring=null",
        "tls.certificateLife=12h",
        "webhook.failurePolicy=Ignore",
        "sidecar.settings=log=debug\\, metrics=9090",
        "sidecar.use=auto",
        "extraArgs={--log-level=debug}",
        "webhook.excludeNamespaces={a}",
        "webhook.namespaceSelector[0].key=k",
        "webhook.namespaceSelector[0].operator=Exists",
        "imagePullSecrets[0].name=s",
        "priorityClassName=high",
        "nodeSelector.disk=ssd",
        "tolerations[0].operator=Exists",
    ];
    let Some(chart) = render("elsewhere", &values) else { return };
    let objects = chart.unwrap();
    let deployment = object(&objects, "Deployment");
    assert_eq!(
        (&deployment["metadata"]["namespace"], &deployment["spec"]["replicas"]),
        (&json!("elsewhere"), &json!(3))
    );
    let pod = &deployment["spec"]["template"]["spec"];
    let expected = [
        "--log-format=json",
        "--images=/images/images.json",
        "--orders=/orders/orders.yaml",
        "--image-pull-policy=Always",
        "--no-fixed-user",
        "--sidecar-resources=limits.cpu=1,limits.memory=64Mi,requests.cpu=20m",
        "--sidecar-settings=log=debug, metrics=9090",
        "--sidecar=auto",
        "--certificate-life=12h",
        "--log-level=debug",
    ];
    assert_eq!(pod["containers"][0]["args"], json!(expected));
    let mount = |name: &str| json!({"name": name, "mountPath": format!("/{name}"), "readOnly": true});
    assert_eq!(pod["containers"][0]["volumeMounts"], json!([mount("images"), mount("orders")]));
    let volume = |name: &str| json!({"name": name, "configMap": {"name": format!("podgate-{name}"), "optional": true}});
    assert_eq!(pod["volumes"], json!([volume("images"), volume("orders")]));
    assert_eq!(
        pod["containers"][0]["env"],
        json!([{"name": "PODGATE_IMAGE", "value": concat!("registry.example/p:", env!("CARGO_PKG_VERSION"))},
            {"name": "PODGATE_NAMESPACES", "value": "shop,bank"}])
    );
    assert_eq!(pod["containers"][0]["image"], format!("{}/podgate-webhook:9", release::IMAGE_REGISTRY));
    assert!(pod["securityContext"].get("runAsUser").is_none());
    assert_eq!((&pod["imagePullSecrets"], &pod["nodeSelector"]), (&json!([{"name": "s"}]), &json!({"disk": "ssd"})));
    assert_eq!((&pod["priorityClassName"], &pod["tolerations"]), (&json!("high"), &json!([{"operator": "Exists"}])));
    let [webhook, workloads, orders] =
        [0, 1, 2].map(|at| &object(&objects, "MutatingWebhookConfiguration")["webhooks"][at]);
    let selector = json!([
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a", "elsewhere"]},
        {"key": keys::INJECT_LABEL, "operator": "NotIn", "values": ["disabled"]},
        {"key": "k", "operator": "Exists"},
    ]);
    assert_eq!(webhook["namespaceSelector"]["matchExpressions"], selector);
    assert_eq!(workloads["namespaceSelector"], webhook["namespaceSelector"]);
    assert_eq!(workloads["clientConfig"], webhook["clientConfig"]);
    assert_eq!((&orders["clientConfig"], &orders["failurePolicy"]), (&webhook["clientConfig"], &json!("Ignore")));
    let mut opted_in = selector.clone();
    opted_in[1] = json!({"key": keys::INJECT_LABEL, "operator": "In", "values": ["enabled"]});
    assert_eq!(orders["namespaceSelector"]["matchExpressions"], opted_in);
    assert_eq!(
        (&webhook["failurePolicy"], &webhook["clientConfig"]["service"]["namespace"]),
        (&json!("Ignore"), &json!("elsewhere"))
    );
    for namespace in ["shop", "bank"] {
        let mut binding = objects[&("RoleBinding".to_owned(), format!("{namespace}/podgate-sidecars"))].clone();
        binding["metadata"].as_object_mut().unwrap().remove("namespace");
        assert_eq!(binding, documents(&read("manifests/rolebinding.yaml"))[0]);
    }
    let text = object(&objects, "NetworkPolicy")["spec"]["ingress"].to_string();
    assert!(text.contains(r#"{"ipBlock":{"cidr":"10.0.0.0/28"}}"#) && !text.contains("8080"), "{text}");
    let policy = &objects[&("ValidatingAdmissionPolicy".to_owned(), "/podgate-webhook".to_owned())];
    let account = "request.userInfo.username == 'system:serviceaccount:elsewhere:podgate-webhook'";
    assert_eq!(policy["spec"]["matchConditions"][0]["expression"], account);
}

/// A binding without the policy would let every container of the bound Pods change other Pods.
#[test]
fn chart_binds_nothing_without_the_policy() {
    let values = ["sidecar.create=false", "sidecar.namespaces={shop}", "networkPolicy.create=false"];
    let Some(chart) = render("podgate", &values) else { return };
    let objects = chart.unwrap();
    let left = objects.iter().filter(|((_, name), _)| !name.ends_with("podgate-webhook")).map(|((_, name), _)| name);
    let left: std::collections::BTreeSet<_> = left.collect();
    assert_eq!(left.into_iter().collect::<Vec<_>>(), ["/podgate-unknown-containers", "podgate/podgate-webhook-tls"]);
    assert!(!objects.keys().any(|(kind, _)| kind == "NetworkPolicy"));
}

/// The webhook and `check` can read the ConfigMap.
#[test]
fn chart_writes_the_file_of_orders() {
    let order = json!({"namespaces": ["shop-*"], "podLabels": {"app": "keycloak"},
        "annotations": {keys::ORDER: "db, keycloak", "timeout.podgate.io/keycloak": "2m"}});
    let given = json!({"orders": [order]});
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), given.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let arguments = ["template", "podgate", "charts/podgate", "--namespace", "podgate", "--values", path];
    let Some(output) = run("helm", &arguments) else { return };
    let objects = by_name(documents(&String::from_utf8(output.stdout).unwrap()));
    let config_map = &objects[&("ConfigMap".to_owned(), "podgate/podgate-orders".to_owned())];
    let text = config_map["data"]["orders.yaml"].as_str().unwrap();
    assert_eq!(documents(text), [given]);
    let orders: AssignedOrders = serde_saphyr::from_str(text).unwrap();
    assert_eq!(orders.iter().count(), 1);
}

/// Without a schema, Helm ignores a misspelled value.
#[test]
fn chart_rejects_unknown_values_and_wrong_types() {
    let misspelled = "orders[0].labels.a=b";
    for value in
        ["replica=3", misspelled, "webhook.failurepolicy=Ignore", "sidecar.namespaces=shop", "sidecar.create=maybe"]
    {
        let Some(chart) = render("podgate", &[value]) else { return };
        let error = chart.expect_err(value);
        let key = value.split(['=', '.', '[']).next().unwrap();
        assert!(error.contains("values don't meet the specifications") && error.contains(key), "{value}: {error}");
    }
}

#[test]
fn chart_supports_external_certificates() {
    let Some(chart) = render("podgate", &["tls.mode=cert-manager"]) else { return };
    let objects = chart.unwrap();
    let files = ["--tls=files", "--cert=/tls/tls.crt", "--key=/tls/tls.key"];
    let uses = |objects: &Objects, secret: &str| {
        let pod = &object(objects, "Deployment")["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["args"].as_array().unwrap()[3..], files);
        assert_eq!(pod["volumes"][2], json!({"name": "tls", "secret": {"secretName": secret}}));
        for list in [&pod["volumes"], &pod["containers"][0]["volumeMounts"]] {
            let names = list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap());
            assert_eq!(names.collect::<Vec<_>>(), ["images", "orders", "tls"]);
        }
        assert_eq!(pod["automountServiceAccountToken"], false, "no token without permissions");
        for kind in ["Secret", "Role", "ClusterRoleBinding", "ValidatingAdmissionPolicy"] {
            assert!(!objects.keys().any(|(of, name)| of == kind && name.contains("podgate-webhook")), "{kind}");
        }
    };
    uses(&objects, "podgate-webhook-tls");
    assert_eq!(object(&objects, "Certificate")["spec"]["secretName"], "podgate-webhook-tls");
    assert_eq!(
        object(&objects, "Certificate")["spec"]["issuerRef"],
        json!({"name": "podgate-webhook", "kind": "Issuer"})
    );
    let configuration = object(&objects, "MutatingWebhookConfiguration");
    assert_eq!(configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"], "podgate/podgate-webhook");
    let named =
        render("podgate", &["tls.mode=cert-manager", "tls.issuerRef.name=ours", "tls.issuerRef.kind=ClusterIssuer"]);
    let named = named.unwrap().unwrap();
    assert!(!named.keys().any(|(kind, _)| kind == "Issuer"));
    assert_eq!(object(&named, "Certificate")["spec"]["issuerRef"], json!({"name": "ours", "kind": "ClusterIssuer"}));

    let objects = render("podgate", &["tls.mode=files", "tls.secretName=mine", "tls.ca=PEM"]).unwrap().unwrap();
    uses(&objects, "mine");
    for at in [0, 1, 2] {
        let webhook = &object(&objects, "MutatingWebhookConfiguration")["webhooks"][at];
        assert_eq!(webhook["clientConfig"]["caBundle"], "UEVN");
    }
    for (values, text) in [
        (&["tls.mode=none"][..], "it must be self, cert-manager or files"),
        (&["tls.mode=files", "tls.secretName=a"], "tls.ca is needed"),
        (&["tls.mode=files", "tls.ca=a"], "tls.secretName is needed"),
    ] {
        let error = render("podgate", values).unwrap().unwrap_err();
        assert!(error.contains(text), "{error}");
    }
}
