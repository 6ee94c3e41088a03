//! Tests of the rules for Pods that would wait forever.

use podgate::order::finding::{Finding, Level};
use podgate::order::lint::{Target, check_planned};
use podgate::order::plan::{KnownFacts, plan};
use serde_json::{Value, json};

/// Returns a Pod in which `app` waits for `db`. `app` declares port 8080, and `db` declares port 5432.
fn pod(annotations: &[(&str, &str)]) -> Value {
    let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
    let mut annotations: serde_json::Map<String, Value> = annotations.collect();
    annotations.entry("podgate.io/order").or_insert(json!("db, app"));
    let container = |name: &str, port: u16| {
        let probe = json!({"tcpSocket": {"port": port}});
        json!({"name": name, "command": ["run"], "ports": [{"containerPort": port}], "readinessProbe": probe})
    };
    json!({"metadata": {"annotations": annotations},
        "spec": {"containers": [container("app", 8080), container("db", 5432)]}})
}

fn findings_of(pod: &Value) -> Vec<Finding> {
    let plan = plan(pod, &KnownFacts::default()).unwrap_or_else(|findings| panic!("{findings:#?}"));
    let mut findings = check_planned(pod, &plan, Target::default()).findings;
    findings.retain(|finding| finding.level != Level::Note && finding.rule != "host-network");
    findings
}

fn found(pod: &Value) -> Vec<(&'static str, Level)> {
    findings_of(pod).into_iter().map(|finding| (finding.rule, finding.level)).collect()
}

const ERROR: &[(&str, Level)] = &[("readiness-needs-later", Level::Error)];
const WARNING: &[(&str, Level)] = &[("readiness-needs-later", Level::Warning)];

#[test]
fn checks_must_not_ask_a_container_that_starts_later() {
    for (key, check, expected) in [
        ("check.podgate.io/app", "tcp://127.0.0.1:8080", ERROR),
        ("check.podgate.io/app", "tcp://[::1]:8080", ERROR),
        ("check.podgate.io/app", "tcp://127.0.0.1:5432", &[]),
        ("check.podgate.io/app", "tcp://app.shop:8080", &[]),
        ("check.podgate.io/db", "http://localhost:8080/", ERROR),
        ("check.podgate.io/db", "file:///x, tcp://localhost:8080", ERROR),
        ("check.podgate.io/db", "tcp://localhost:9999", &[]),
        ("check.podgate.io/db", r#"exec:["sh", "-c", "curl localhost:8080"]"#, WARNING),
        ("ready.podgate.io/db", "tcp://127.0.0.1:8080", ERROR),
        ("ready.podgate.io/db", "tcp://127.0.0.1:5432", &[]),
        ("ready.podgate.io/db", r#"exec:["sh", "-c", "curl localhost:8080"]"#, WARNING),
        ("ready.podgate.io/app", "tcp://127.0.0.1:8080", &[]),
        ("ready.podgate.io/db", "https://localhost:8080/", ERROR),
        ("ready.podgate.io/db", "grpc://localhost:8080", ERROR),
        ("ready.podgate.io/db", "http://localhost:5432/, Host: x", &[]),
    ] {
        let findings = findings_of(&pod(&[(key, check)]));
        let of: Vec<_> = findings.iter().map(|finding| (finding.rule, finding.level)).collect();
        assert_eq!(of, expected, "{key}: {check}: {findings:#?}");
        for finding in findings {
            assert!(finding.at.to_string().contains(key) && finding.message.contains("port"), "{finding}");
        }
    }
    let started = [("podgate.io/order", "db=Started, app")];
    assert_eq!(found(&pod(&[started[0], ("ready.podgate.io/db", "tcp://127.0.0.1:8080")])), []);
    assert_eq!(found(&pod(&[started[0], ("check.podgate.io/db", "tcp://127.0.0.1:8080")])), ERROR);
    let alone = [("podgate.io/order", "db"), ("check.podgate.io/app", "tcp://127.0.0.1:8080")];
    let message = findings_of(&pod(&alone))[0].message.clone();
    assert!(
        message.contains("check.podgate.io/app uses port 8080 of app, but app starts only when this check has passed"),
        "{message}"
    );
}

#[test]
fn only_a_certain_deadlock_is_an_error() {
    let check = ("check.podgate.io/db", "tcp://127.0.0.1:8080");
    assert_eq!(found(&pod(&[check, ("podgate.io/on-timeout", "continue")])), WARNING);
    let changed = |edit: &dyn Fn(&mut Value)| {
        let mut pod = pod(&[check]);
        edit(&mut pod["spec"]);
        found(&pod)
    };
    assert_eq!(changed(&|_| {}), ERROR);
    assert_eq!(changed(&|spec| spec["hostNetwork"] = json!(true)), WARNING);
    assert_eq!(changed(&|spec| spec["containers"][0]["ports"][0]["protocol"] = json!("UDP")), []);
    let other = json!({"name": "proxy", "ports": [{"containerPort": 8080}]});
    assert_eq!(changed(&|spec| spec["containers"].as_array_mut().unwrap().push(other.clone())), WARNING);
    let mut native = other.clone();
    native["restartPolicy"] = json!("Always");
    assert_eq!(changed(&|spec| spec["initContainers"] = json!([native])), WARNING);
}

#[test]
fn readiness_of_a_native_sidecar_must_not_need_a_later_container() {
    let mut pod = pod(&[("podgate.io/order", "proxy, app")]);
    let of = |port: u16| json!([{"name": "proxy", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": port}}}]);
    pod["spec"]["initContainers"] = of(8080);
    assert_eq!(found(&pod), WARNING, "a container without declared ports may listen on any port");
    pod["spec"]["initContainers"][0]["ports"] = json!([{"containerPort": 9090}]);
    assert_eq!(found(&pod), ERROR);
    pod["spec"]["initContainers"] = of(8081);
    assert_eq!(found(&pod), []);
}

#[test]
fn mounts_must_be_visible_in_the_waiting_container() {
    let mounts =
        |propagation: Option<&str>| json!([{"name": "d", "mountPath": "/data", "mountPropagation": propagation}]);
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut pod = pod(&[("podgate.io/order", "db=Started, app"), ("check.podgate.io/app", "mount:///data/mnt")]);
        pod["spec"]["volumes"] = json!([{"name": "d", "emptyDir": {}}]);
        pod["spec"]["containers"][0]["volumeMounts"] = mounts(None);
        pod["spec"]["containers"][1]["volumeMounts"] = mounts(Some("Bidirectional"));
        pod["spec"]["restartPolicy"] = "Never".into();
        edit(&mut pod);
        found(&pod)
    };
    let (error, warning) = ([("mount-not-visible", Level::Error)], [("mount-not-visible", Level::Warning)]);
    assert_eq!(with(&|_| {}), error);
    assert_eq!(with(&|pod| pod["spec"]["containers"][0]["volumeMounts"] = mounts(Some("None"))), error);
    for sees in ["HostToContainer", "Bidirectional"] {
        assert_eq!(with(&|pod| pod["spec"]["containers"][0]["volumeMounts"] = mounts(Some(sees))), [], "{sees}");
    }
    // With this restartPolicy, the kubelet restarts the container, and the restarted container sees the mount.
    assert_eq!(with(&|pod| pod["spec"]["restartPolicy"] = "Always".into()), warning);
    // These mounts may exist before the container starts.
    assert_eq!(with(&|pod| pod["spec"]["containers"].as_array_mut().unwrap().reverse()), warning);
    assert_eq!(with(&|pod| pod["spec"]["volumes"] = json!([{"name": "d", "hostPath": {"path": "/d"}}])), warning);
    let init = json!([{"name": "init", "volumeMounts": mounts(Some("Bidirectional"))}]);
    assert_eq!(with(&|pod| pod["spec"]["initContainers"] = init.clone()), warning);
    assert_eq!(with(&|pod| pod["metadata"]["annotations"]["podgate.io/on-timeout"] = json!("continue")), warning);
    // The nearest mount above the checked path now belongs to another volume.
    let nearer = json!({"name": "e", "mountPath": "/data/mnt/", "mountPropagation": "HostToContainer"});
    assert_eq!(
        with(&|pod| {
            pod["metadata"]["annotations"]["check.podgate.io/app"] = json!("mount:///data/mnt/x");
            pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(nearer.clone());
        }),
        []
    );
    assert_eq!(with(&|pod| pod["spec"]["containers"][0]["volumeMounts"] = json!(null)), []);
}

#[test]
fn container_that_must_restart_needs_a_restart_policy() {
    let restart = ("podgate.io/on-dependency-restart", "restart");
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut pod = pod(&[restart]);
        pod["spec"]["restartPolicy"] = json!("Never");
        edit(&mut pod);
        found(&pod)
    };
    let warning = [("restart-fails", Level::Warning)];
    assert_eq!(with(&|_| {}), warning);
    assert_eq!(with(&|pod| pod["spec"]["restartPolicy"] = json!("OnFailure")), []);
    assert_eq!(with(&|pod| pod["spec"]["containers"][0]["restartPolicy"] = json!("Always")), []);
    assert_eq!(with(&|pod| pod["spec"]["containers"][1]["restartPolicy"] = json!("Always")), warning);
    assert_eq!(with(&|pod| pod["spec"]["containers"][0]["restartPolicyRules"] = json!([{}])), []);
    let ignored = "on-dependency-restart.podgate.io/app";
    assert_eq!(with(&|pod| pod["metadata"]["annotations"][ignored] = json!("ignore")), []);
}

#[test]
fn containers_that_the_user_cannot_move_get_no_advice() {
    let advised = |edit: &dyn Fn(&mut Value)| {
        let mut pod = pod(&[]);
        pod["spec"]["containers"][1]["image"] = json!("example/auth-proxy:1");
        edit(&mut pod);
        let plan = plan(&pod, &KnownFacts::default()).unwrap();
        check_planned(&pod, &plan, Target::default()).native_advice.is_some()
    };
    assert!(advised(&|_| {}));
    for name in ["istio-proxy", "otc-container", "daprd", "vault-agent", "linkerd-proxy"] {
        let rename = |pod: &mut Value| {
            pod["metadata"]["annotations"]["podgate.io/order"] = json!(format!("{name}, app"));
            pod["spec"]["containers"][1]["name"] = json!(name);
        };
        assert!(!advised(&rename), "{name}");
    }
    let rewritten = json!({"httpGet": {"path": "/app-health/db/readyz", "port": 15020}});
    assert!(!advised(&|pod| pod["spec"]["containers"][1]["readinessProbe"] = rewritten.clone()));
}
