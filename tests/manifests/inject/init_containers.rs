//! Tests of orders that name init containers and native sidecars.

use super::{check_injection, lines, options};
use podgate::core::container_list::parse_list;
use podgate::order::finding::{Finding, Level};
use podgate::order::inject::inject;
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

/// Returns a Pod with the init container `setup`, native sidecars and two regular containers with known commands.
fn pod(annotations: Value) -> Value {
    let tcp = json!({"tcpSocket": {"port": "probe"}});
    let exec = json!({"exec": {"command": ["true"]}});
    json!({
        "metadata": {"annotations": annotations},
        "spec": {
            "initContainers": [
                {"name": "plain", "image": "x", "restartPolicy": "Always"},
                {"name": "mesh", "image": "x", "restartPolicy": "Always", "readinessProbe": tcp, "startupProbe": tcp,
                 "ports": [{"name": "probe", "containerPort": 15021}]},
                {"name": "setup", "image": "x"},
                {"name": "startup", "image": "x", "restartPolicy": "Always", "startupProbe": tcp},
                {"name": "script", "image": "x", "restartPolicy": "Always", "readinessProbe": exec},
            ],
            "containers": [
                {"name": "db", "image": "x", "command": ["/db"], "readinessProbe": {"tcpSocket": {"port": 5432}}},
                {"name": "app", "image": "x", "command": ["/app"]},
            ],
        },
    })
}

fn ordered(order: &str) -> Value {
    pod(json!({"podgate.io/order": order}))
}

/// Injects a template, checks that the injection is idempotent and reversible, and returns the result with the findings
/// as `RULE: TEXT` lines.
fn inject_checked(template: &Value) -> (Value, String) {
    let done = check_injection(template, &options(), &KnownFacts::default())
        .unwrap_or_else(|| panic!("{:?}\n{template:#}", inject(template, &options(), &KnownFacts::default())));
    (done.value, lines(&done.findings))
}

fn first_error(template: &Value) -> Finding {
    let found = inject(template, &options(), &KnownFacts::default()).expect_err("a rejected template");
    found.into_iter().find(|finding| finding.level == Level::Error).expect("an error")
}

/// Returns the sidecar's list: each entry as `NAME MODE UNTIL`.
fn listed(injected: &Value, field: &str) -> Vec<String> {
    let sidecar = &injected["spec"][field][0];
    let variables = sidecar["env"].as_array().expect("variables");
    let list = variables.iter().find(|one| one["name"] == "PODGATE_CONTAINERS").expect("the list");
    let list = parse_list(list["value"].as_str().expect("a text")).expect("a valid list");
    let entry = |one: podgate::core::container::Container| {
        let until: Vec<String> = one.until.iter().map(ToString::to_string).collect();
        format!("{} {:?} {}", one.name, one.mode, until.join(",")).trim_end().to_owned()
    };
    list.into_iter().map(entry).collect()
}

#[test]
fn readiness_of_a_native_sidecar_is_waited_for() {
    let (injected, findings) = inject_checked(&ordered("mesh, db, app"));
    assert_eq!(findings, "");
    assert_eq!(
        listed(&injected, "initContainers"),
        ["mesh None", "db Entrypoint mesh=Ready", "app Entrypoint mesh=Ready,db=Ready"]
    );
    let (mesh, original) = (&injected["spec"]["initContainers"][2], &ordered("")["spec"]["initContainers"][1]);
    assert_eq!(mesh, original, "podgate does not change the native sidecar");
    let sidecar = injected["spec"]["initContainers"][0]["env"].to_string();
    assert!(sidecar.contains("15021") && sidecar.contains("readinessProbe"), "{sidecar}");

    let mut held = ordered("mesh, app");
    held["spec"]["containers"][1]["command"].take();
    let (injected, _) = inject_checked(&held);
    assert_eq!(listed(&injected, "initContainers"), ["mesh None", "db None", "app Hold mesh=Ready"]);
}

#[test]
fn order_that_kubernetes_keeps_needs_no_injection() {
    for (order, why) in [
        ("setup, app", "setup is an init container, which completes"),
        ("setup=Exited, app", "setup is an init container, which completes"),
        ("setup=Completed, db & app", "setup is an init container, which completes"),
        ("plain, app", "plain is a native sidecar, which has started"),
        ("startup, app", "startup is a native sidecar, which has started"),
        ("mesh=Started, app", "mesh is a native sidecar, which has started"),
        ("mesh=Started, setup, app", "mesh is a native sidecar, which has started"),
    ] {
        let template = ordered(order);
        let done = inject(&template, &options(), &KnownFacts::default()).expect(order);
        assert!(done.edits.is_empty(), "{order}: {:#}", done.value);
        let first = &done.findings[0];
        assert_eq!((first.rule, first.level), ("kept-by-kubernetes", Level::Note), "{order}");
        assert!(first.message.contains(why), "{order}: {first}");
        let names = order.split(',').count() - 1;
        assert_eq!(done.findings.len(), names, "{order}: one note for each container: {}", lines(&done.findings));
    }
    // The condition between the two regular containers remains.
    let (injected, findings) = inject_checked(&ordered("setup & plain, db, app"));
    assert_eq!(findings.matches("kept-by-kubernetes").count(), 2, "{findings}");
    assert_eq!(listed(&injected, "initContainers"), ["db None", "app Entrypoint db=Ready"]);
}

#[test]
fn impossible_waits_of_init_containers_are_rejected_with_a_fix() {
    let ordered = |order: &str| json!({"podgate.io/order": order});
    let with = |order: &str, key: &str, value: &str| json!({"podgate.io/order": order, key: value});
    for (annotations, rule, what, fix) in [
        (
            ordered("db, mesh, app"),
            "init-container",
            "mesh is a native sidecar, which starts before all",
            "make db a native sidecar before mesh",
        ),
        (
            ordered("db, setup"),
            "init-container",
            "setup is an init container, which starts before",
            "make db a native sidecar",
        ),
        (
            json!({"after.podgate.io/mesh": "db"}),
            "init-container",
            "cannot wait for db",
            "make db a native sidecar before mesh",
        ),
        (json!({"after.podgate.io/mesh": "mesh"}), "cycle", "mesh waits for itself", "do not let mesh"),
        (
            ordered("setup, mesh, app"),
            "init-container",
            "mesh cannot wait for setup, which comes after",
            "before mesh in",
        ),
        (
            ordered("mesh, setup, app"),
            "init-container",
            "may start it before the readinessProbe of mesh",
            "mesh=Started",
        ),
        (
            ordered("mesh=Completed, app"),
            "condition-never-met",
            "exits only after all regular",
            "wait for mesh=Started or",
        ),
        (ordered("mesh=Exited, app"), "condition-never-met", "exits only after all regular", "restartPolicy: Always"),
        (
            with("mesh, app", "podgate.io/mode", "post-start"),
            "mode-conflict",
            "app waits for the native sidecar mesh=Ready, so app needs a gate",
            "write mode.podgate.io/app: auto, or write mesh=Started",
        ),
        (
            with("mesh, db, app", "mode.podgate.io/app", "post-start"),
            "mode-conflict",
            "db waits for the native sidecar mesh=Ready, but app",
            "app: auto, or write mesh=Started",
        ),
        (
            with("script, app", "podgate.io/publish", "none"),
            "condition-never-met",
            "only the kubelet's status shows script=Ready",
            "set podgate.io/publish: api and bind the role",
        ),
        (
            with("db, app", "ready.podgate.io/mesh", "tcp://localhost:1"),
            "init-container",
            "ready.podgate.io/mesh: podgate uses the probes of native sidecars, not ready checks",
            "set a startupProbe or readinessProbe on mesh",
        ),
        (
            with("db, app", "timeout.podgate.io/mesh", "5m"),
            "init-container",
            "timeout.podgate.io/mesh: mesh is",
            "do not name it here",
        ),
        (
            with("db, app", "podgate.io/stop-order", "mesh, app"),
            "init-container",
            "which Kubernetes stops after app",
            "put mesh after app",
        ),
        (
            with("db, app", "podgate.io/stop-order", "app, plain, mesh"),
            "init-container",
            "which Kubernetes stops after mesh",
            "after mesh",
        ),
        (ordered("mehs, app"), "unknown-container", "no container mehs", "did you mean mesh?"),
    ] {
        let found = first_error(&pod(annotations.clone()));
        assert_eq!(found.rule, rule, "{annotations}: {found}");
        assert!(found.message.contains(what) && found.fix.contains(fix), "{annotations}: {found}");
    }
    // An error and a note about the same word would contradict each other.
    let findings = inject(&pod(ordered("db, setup, app")), &options(), &KnownFacts::default()).expect_err("an error");
    assert!(findings.len() == 1 && findings[0].rule == "init-container", "{}", lines(&findings));
}

#[test]
fn kubernetes_stops_native_sidecars_after_regular_containers() {
    let stop = |stop: &str| {
        let (injected, findings) =
            inject_checked(&pod(json!({"podgate.io/order": "db, app", "podgate.io/stop-order": stop})));
        let hooks = |one: &&Value| !one["lifecycle"]["preStop"].is_null();
        let list = |field: &str| injected["spec"][field].as_array().expect("a list").clone();
        let containers = [list("initContainers"), list("containers")].concat();
        let names: Vec<String> =
            containers.iter().filter(hooks).map(|one| one["name"].as_str().unwrap().to_owned()).collect();
        (names.join(","), findings.matches("kept-by-kubernetes").count())
    };
    assert_eq!(stop("app, db, mesh, plain"), ("db,app".to_owned(), 2));
    assert_eq!(stop("app, setup, db"), ("db,app".to_owned(), 1), "an init container is no step");
    assert_eq!(stop("app & db, mesh"), (String::new(), 1));
    // By default, the stop order is the reverse of the start order.
    let (injected, _) = inject_checked(&ordered("mesh, db, app"));
    assert!(injected["spec"]["initContainers"][2]["lifecycle"].is_null());
}

/// The same value of `job-sidecars` is valid for a mesh with native sidecars and for a mesh with regular containers.
#[test]
fn kubernetes_ends_the_native_sidecars_of_a_job() {
    let job = |sidecars: &str| {
        let mut job = pod(json!({"podgate.io/order": "db, app", "podgate.io/job-sidecars": sidecars}));
        job["spec"]["restartPolicy"] = json!("Never");
        let (injected, findings) = inject_checked(&job);
        (injected["spec"].to_string().contains("--stop-after"), findings)
    };
    for sidecars in ["mesh", "mesh?, plain"] {
        let (stops, findings) = job(sidecars);
        assert!(!stops && findings.contains("mesh is a native sidecar, which Kubernetes stops after"), "{findings}");
        assert_eq!(findings.matches("kept-by-kubernetes").count(), sidecars.split(',').count(), "{findings}");
    }
    // If the mesh injects a regular container, podgate needs the command of that container.
    let key = "command.podgate.io/mesh";
    let findings = read(json!({"podgate.io/order": "mesh?, app", key: "[\"/mesh\"]"}));
    assert!(findings.contains("mesh is an init container or native sidecar, so this annotation"), "{findings}");
    let error = first_error(&pod(json!({"podgate.io/order": "mesh, app", key: "[\"/mesh\"]"})));
    assert_eq!(error.rule, "init-container");
    let (stops, findings) = job("mesh?, db");
    assert!(stops && findings.contains("kept-by-kubernetes"), "{findings}");
    assert!(job("setup").1.contains("setup is an init container, which completes"));
}

/// Kubernetes keeps the start order, but only a gate can restart a container together with its dependency.
#[test]
fn container_restarts_with_a_native_sidecar() {
    let restart = ("podgate.io/on-dependency-restart", json!("restart"));
    let with = |order: &str, more: &[(&str, &str)]| {
        let mut template = ordered(order);
        template["metadata"]["annotations"][restart.0] = restart.1.clone();
        more.iter().for_each(|(key, value)| template["metadata"]["annotations"][key] = json!(value));
        template
    };
    for (order, until) in [("startup, app", "startup"), ("plain=Started, app", "plain=Started"), ("mesh, app", "mesh")]
    {
        let (injected, findings) = inject_checked(&with(order, &[]));
        let restart = format!("only the kubelet's status shows a restart of {}", until.trim_end_matches("=Started"));
        assert!(findings.contains(&restart), "{order}: {findings}");
        assert!(findings.lines().all(|line| line.starts_with("known-by-kubelet: ")), "{order}: {findings}");
        let command = injected["spec"]["containers"][1]["command"].to_string().replace("\",\"", " ");
        let provider = until.trim_end_matches("=Started");
        let expected = format!("--until {until} --timeout 5m --tether parent --restart-with {provider} --");
        assert!(command.contains(&expected), "{order}: {command}");
        let list = listed(&injected, "initContainers");
        assert!(list[0].starts_with(provider), "the sidecar reports the restarts: {list:?}");
    }
    let (injected, _) = inject_checked(&with("startup, db, app", &[]));
    assert_eq!(listed(&injected, "initContainers")[1], "db Entrypoint startup=Ready");
    // In these Pods, no container can restart with another one: `setup` never restarts, and `app` ignores restarts by
    // its own annotation.
    let ignores = ("on-dependency-restart.podgate.io/app", "ignore");
    for template in [with("setup, app", &[]), with("mesh=Started, plain2?, startup & app", &[ignores])] {
        let done = inject(&template, &options(), &KnownFacts::default()).expect("a valid order");
        assert!(done.edits.is_empty(), "{}", lines(&done.findings));
    }
    for order in ["mesh, app", "startup, app"] {
        let found = first_error(&with(order, &[("podgate.io/publish", "none")]));
        assert!(found.rule == "condition-never-met" && found.message.contains("shows a restart of"), "{found}");
        let role = "set podgate.io/publish: api and bind the role: kubectl podgate install --namespaces NAMESPACE";
        assert_eq!(found.fix, format!("write on-dependency-restart.podgate.io/app: ignore, or {role}"));
        let mut with_account = with(order, &[("podgate.io/publish", "none")]);
        with_account["spec"]["serviceAccountName"] = json!("shop");
        assert!(first_error(&with_account).fix.ends_with(
            "the role: kubectl create rolebinding podgate-more-shop -n NAMESPACE --clusterrole podgate-sidecar --serviceaccount NAMESPACE:shop"
        ));
    }
}

#[test]
fn settings_of_an_absent_optional_container_are_ignored() {
    let keys = [
        ("ready", "tcp://localhost:1"),
        ("check", "file:///x"),
        ("command", "[\"/x\"]"),
        ("mode", "hold"),
        ("after", "db"),
        ("on-dependency-restart", "restart"),
    ];
    for (list, value) in [
        ("podgate.io/order", "ghost? = Started, db, app"),
        ("podgate.io/stop-order", "app, ghost?"),
        ("podgate.io/job-sidecars", "ghost?"),
        ("after.podgate.io/app", "ghost?"),
    ] {
        for (key, setting) in keys {
            let key = format!("{key}.podgate.io/ghost");
            let findings = read(json!({"after.podgate.io/db": "plain", list: value, key.clone(): setting}));
            assert!(
                findings.contains("absent-container") && !findings.contains("unknown-container"),
                "{key}: {findings}"
            );
        }
    }
    // Without a ? the container must exist.
    for order in ["db, app", "ghosts?, db, app"] {
        let error =
            first_error(&pod(json!({"podgate.io/order": order, "ready.podgate.io/ghost": "tcp://localhost:1"})));
        assert_eq!(error.rule, "unknown-container");
    }
}

/// Returns the findings of `inject`, which must accept these annotations.
fn read(annotations: Value) -> String {
    lines(
        &inject(&pod(annotations), &options(), &KnownFacts::default())
            .unwrap_or_else(|found| panic!("{}", lines(&found)))
            .findings,
    )
}

#[test]
fn absent_container_can_be_listed_once() {
    let error = first_error(&ordered("ghost?, db, ghost?, app"));
    assert_eq!((error.rule, error.span), ("doubled-container", Some(12..18)));
}

#[test]
fn optional_container_counts_only_if_it_exists() {
    let same = |order: &str, plain: &str| {
        let (with, findings) = inject_checked(&ordered(order));
        let (without, _) = inject_checked(&ordered(plain));
        assert_eq!(with["spec"], without["spec"], "{order}");
        findings
    };
    let findings = same("db, istio-proxy?, app", "db, app");
    assert!(
        findings.contains("absent-container") && findings.contains("unless a webhook adds istio-proxy"),
        "{findings}"
    );
    assert!(same("db & ap?, app", "db, app").contains("did you mean app?"));
    assert_eq!(same("db? & mesh?, app?", "db & mesh, app"), "");
    same("db, app, istio-proxy? = Started", "db, app");
    let with = |key: &str, value: &str| {
        inject_checked(&pod(json!({"podgate.io/order": "db, app", key: value}))).0["spec"].clone()
    };
    assert_eq!(with("after.podgate.io/app", "proxy?"), with("podgate.io/mode", "auto"));
    assert_eq!(with("podgate.io/stop-order", "app, proxy?, db"), with("podgate.io/stop-order", "app, db"));
    // No order is left, because only one container remains.
    let alone = inject(&ordered("proxy?, app"), &options(), &KnownFacts::default()).expect("a valid order");
    assert!(alone.edits.is_empty() && alone.findings.len() == 1, "{}", lines(&alone.findings));
    assert_eq!(first_error(&ordered("?, db")).message, "a container name is missing before ? (character 1)");
}

#[test]
fn annotation_of_an_earlier_webhook_call_is_removed() {
    let key = "podgate.io/unknown-containers";
    let plain = ordered("mesh, app");
    let mut marked = plain.clone();
    marked["metadata"]["annotations"][key] = json!("written by hand");
    let done = inject(&marked, &options(), &KnownFacts::default()).expect("a valid order");
    assert_eq!(done.value, inject_checked(&plain).0);
    let mut applied = marked.clone();
    done.edits.iter().for_each(|edit| podgate::order::edit::apply(&mut applied, edit).expect("an edit"));
    assert_eq!(applied, done.value);
    let mut injected = done.value.clone();
    injected["metadata"]["annotations"][key] = json!("x");
    let again = inject(&injected, &options(), &KnownFacts::default()).expect("a valid order");
    assert_eq!((&again.value, again.edits.len()), (&done.value, 1));
}

#[test]
fn handwritten_gate_may_wait_for_a_native_sidecar() {
    let rules = |name: &str| {
        let mut pod = pod(json!({}));
        pod["spec"]["containers"][1]["command"] =
            json!(["/podgate/bin/podgate", "entrypoint", "--until", name, "--", "app"]);
        pod["spec"]["containers"][1]["volumeMounts"] = json!([{"name": "podgate-board", "mountPath": "/podgate"}]);
        let (found, _) = podgate::order::lint::check_handwritten(&pod).expect("podgate's commands");
        found.iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules("mesh"), [""; 0]);
    assert_eq!(rules("setup"), ["init-container"], "the sidecar does not report init containers");
    assert_eq!(rules("mush"), ["unknown-container"]);
}
