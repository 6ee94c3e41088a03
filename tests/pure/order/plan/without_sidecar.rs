//! Tests of orders without a sidecar: which orders need one, and why.

use podgate::order::declare::SidecarUse;
use podgate::order::kubernetes_version::Version;
use podgate::order::plan::{KnownFacts, Plan, plan};
use serde_json::{Value, json};

/// Returns a Pod with `db`, `api` and `web` and the order `db, api, web` without a sidecar. `db` and `api` have httpGet
/// probes.
fn shop() -> Value {
    let container = |name: &str, port: u16| {
        json!({"name": name, "image": "x", "command": [format!("/{name}")],
            "readinessProbe": {"httpGet": {"path": "/", "port": port}}})
    };
    json!({
        "metadata": {"annotations": {"podgate.io/order": "db, api, web", "podgate.io/sidecar": "none"}},
        "spec": {"containers": [container("db", 8001), container("api", 8002), container("web", 8003)]},
    })
}

/// Sets the value at a JSON pointer.
fn set(template: &mut Value, at: &str, value: Value) {
    let (parent, key) = at.rsplit_once('/').unwrap();
    let parent = template.pointer_mut(parent).unwrap_or_else(|| panic!("{at}"));
    match parent.as_array_mut() {
        Some(items) => items[key.parse::<usize>().unwrap()] = value,
        None => parent[key.replace("~1", "/")] = value,
    }
}

fn annotate(template: &mut Value, key: &str, value: &str) {
    template["metadata"]["annotations"][key] = value.into();
}

/// Returns the messages of the errors of the rule `needs-sidecar`, or an empty list.
fn reasons(template: &Value, known: &KnownFacts) -> Vec<String> {
    match plan(template, known) {
        Ok(plan) => {
            assert!(!plan.has_sidecar && !plan.needs_sidecar);
            Vec::new()
        }
        Err(findings) => {
            let found = findings.into_iter().filter(|finding| finding.rule == "needs-sidecar");
            let found: Vec<String> = found
                .inspect(|it| assert!(it.fix.contains("podgate.io/sidecar: always")))
                .map(|it| it.message)
                .collect();
            assert!(!found.is_empty());
            found
        }
    }
}

fn plan_of(template: &Value) -> Plan {
    plan(template, &KnownFacts::default()).unwrap_or_else(|findings| panic!("{findings:#?}"))
}

#[test]
fn order_with_network_probes_needs_no_sidecar() {
    assert!(reasons(&shop(), &KnownFacts::default()).is_empty());
    let probe = "/spec/containers/0/readinessProbe";
    for probe_of_db in [
        json!({"tcpSocket": {"port": 5432}, "initialDelaySeconds": 5, "successThreshold": 2}),
        json!({"httpGet": {"path": "/x", "port": 80, "httpHeaders": [{"name": "Host", "value": "a"}]}}),
    ] {
        let mut template = shop();
        set(&mut template, probe, probe_of_db);
        assert!(reasons(&template, &KnownFacts::default()).is_empty());
    }
    // A ready check replaces any probe.
    let mut template = shop();
    set(&mut template, probe, json!({"exec": {"command": ["pg_isready"]}}));
    annotate(&mut template, "ready.podgate.io/db", "tcp://127.0.0.1:5432");
    assert!(reasons(&template, &KnownFacts::default()).is_empty());
    // Settings of the wait, optional containers and checks.
    for (key, value) in [
        ("podgate.io/order", "db?, cache?, *"),
        ("podgate.io/timeout", "1m"),
        ("podgate.io/on-timeout", "continue"),
        ("check.podgate.io/api", "tcp://queue.example:5672, file:///etc/hosts"),
        ("mode.podgate.io/api", "entrypoint"),
    ] {
        let mut template = shop();
        annotate(&mut template, key, value);
        assert!(reasons(&template, &KnownFacts::default()).is_empty(), "{key}");
    }
}

#[test]
fn each_obstacle_is_an_error_with_the_way_out() {
    let annotated = |key: &'static str, value: &'static str| -> Box<dyn Fn(&mut Value)> {
        Box::new(move |template| annotate(template, key, value))
    };
    let with = |at: &'static str, value: Value| -> Box<dyn Fn(&mut Value)> {
        Box::new(move |template| set(template, at, value.clone()))
    };
    let db = "/spec/containers/0/readinessProbe";
    for (change, expected) in [
        (annotated("podgate.io/order", "db=Started, api, web"), "api waits for db=Started, which only a sidecar sees"),
        (annotated("podgate.io/order", "db=Exited, api"), "db=Exited, which only a sidecar sees"),
        (annotated("podgate.io/stop-order", "reverse"), "a stop order needs a sidecar"),
        (
            annotated("podgate.io/fail-fast", "true"),
            "only a sidecar sees that a container which api waits for has ended",
        ),
        (annotated("podgate.io/on-dependency-restart", "restart"), "only a sidecar sees that a container which api"),
        (annotated("podgate.io/publish", "api"), "only a sidecar publishes states"),
        (annotated("mode.podgate.io/web", "hold"), "hold mode needs a sidecar"),
        (annotated("podgate.io/mode", "post-start"), "post-start mode needs a sidecar"),
        (annotated("ready.podgate.io/db", "https://127.0.0.1:8443/"), "it runs only httpGet without TLS and tcpSocket"),
        (annotated("ready.podgate.io/db", "grpc://127.0.0.1:8443"), "it runs only httpGet without TLS and tcpSocket"),
        (annotated("ready.podgate.io/db", "file:///tmp/ready"), "db has no probe that the gate of api can run"),
        (with(db, json!({"exec": {"command": ["true"]}})), "the gate of api must run the probes of db: it runs only"),
        (with(db, json!({"grpc": {"port": 9000}})), "it runs only httpGet without TLS and tcpSocket"),
        (
            with(db, json!({"httpGet": {"port": 443, "scheme": "HTTPS"}})),
            "it runs only httpGet without TLS and tcpSocket",
        ),
        (with(db, json!({"httpGet": {"port": 80, "host": "10.1.1.1"}})), "but one asks another host"),
        (with(db, Value::Null), "db has no probe that the gate of api can run"),
        (
            with("/spec/containers/1/startupProbe", json!({"grpc": {"port": 9000}})),
            "the gate of api must run its startupProbe: it runs only",
        ),
        (with("/spec/containers/2/ports", json!([{"containerPort": 8001}])), "web may answer on port 8001 too"),
        (
            with("/spec/containers/2/livenessProbe", json!({"tcpSocket": {"port": 8001}})),
            "web may answer on port 8001 too",
        ),
        (with("/spec/shareProcessNamespace", true.into()), "process 1 is not the gate"),
        (with("/spec/hostPID", true.into()), "process 1 is not the gate"),
        (with("/spec/containers/1/command", Value::Null), "the command of api is not known"),
    ] {
        let mut template = shop();
        change(&mut template);
        let found = reasons(&template, &KnownFacts::default());
        assert!(found.iter().any(|message| message.contains(expected)), "{expected}: {found:?}");
    }
    let old = KnownFacts { kubernetes: Some(Version { major: 1, minor: 34 }), ..KnownFacts::default() };
    assert!(reasons(&shop(), &old)[0].contains("image volumes need Kubernetes 1.35"));
}

#[test]
fn auto_has_a_sidecar_only_where_the_order_needs_one() {
    let mut template = shop();
    annotate(&mut template, "podgate.io/sidecar", "auto");
    assert!(!plan_of(&template).has_sidecar);
    annotate(&mut template, "podgate.io/stop-order", "reverse");
    let plan = plan_of(&template);
    assert!(plan.has_sidecar && plan.needs_sidecar);
    // The default of an installation applies unless the Pod says otherwise.
    let auto = KnownFacts { sidecar: Some(SidecarUse::Auto), ..KnownFacts::default() };
    template = shop();
    annotate(&mut template, "podgate.io/sidecar", "always");
    let with = |template: &Value| super::plan(template, &auto).unwrap();
    assert!(with(&template).has_sidecar && !with(&template).needs_sidecar);
    template["metadata"]["annotations"].as_object_mut().unwrap().remove("podgate.io/sidecar");
    assert!(!with(&template).has_sidecar);
    assert!(plan_of(&template).has_sidecar, "the default is a sidecar");
}
