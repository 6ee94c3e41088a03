//! Tests of the rules about containers that cannot start, and about Jobs that never complete.

use super::lint::{findings_of, pod};
use podgate::order::lint::{Target, check_reversed};
use podgate::order::plan::{KnownFacts, plan};
use serde_json::{Value, json};

/// Returns a Pod with the order `db, api` and these annotations.
fn annotated(annotations: &[(&str, &str)], db: Value, api: Value) -> Value {
    let mut pod = pod("db, api", &[("db", db), ("api", api)]);
    for (key, value) in annotations {
        pod["metadata"]["annotations"][key] = json!(value);
    }
    pod
}

/// Returns each finding with its rule, place and fix.
fn shown(pod: &Value, target: Target<'_>) -> Vec<String> {
    let findings = findings_of(pod, target);
    findings.iter().map(|one| format!("{} {}: {}", one.rule, one.at, one.fix)).collect()
}

#[test]
fn command_with_spaces_in_its_program_warns() {
    let exec = |word: &str| json!({"exec": {"command": [word]}});
    for (api, place) in [
        (json!({"command": ["/api serve --port 80"]}), "command[0]"),
        (json!({"command": ["/api serve", "--port"]}), "command[0]"),
        (json!({"readinessProbe": exec("pg_isready -q")}), "readinessProbe.exec.command[0]"),
        (json!({"startupProbe": exec("pg_isready -q")}), "startupProbe.exec.command[0]"),
        (json!({"livenessProbe": exec("pg_isready -q")}), "livenessProbe.exec.command[0]"),
        (json!({"lifecycle": {"preStop": exec("nginx -s quit")}}), "lifecycle.preStop.exec.command[0]"),
    ] {
        let found = shown(&annotated(&[], json!({}), api.clone()), Target::default());
        let expected = format!("command-not-split spec.containers[1].{place}");
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{api}: {found:?}");
    }
    let found = shown(&annotated(&[], json!({}), json!({"command": ["/api a  b"]})), Target::default());
    assert!(found[0].ends_with(r#": write ["/api","a","b"]"#), "{found:?}");
    for command in [json!(["/api", "a b"]), json!(["sh", "-c", "a b"])] {
        let found = shown(&annotated(&[], json!({}), json!({"command": command})), Target::default());
        assert_eq!(found, [] as [&str; 0], "{command}");
    }
}

#[test]
fn command_that_is_no_list_of_strings_is_an_error() {
    for (field, value, fix) in [
        ("command", json!("/api serve"), r#"write command: ["/api","serve"]"#),
        ("args", json!("-p 80"), r#"write args: ["-p","80"]"#),
        ("command", json!("a && b"), r#"write command: ["/bin/sh","-c","a && b"]"#),
        ("args", json!(["-p", 80]), "write the item 80 as a string, in quotes"),
        ("args", json!([true]), "write the item true as a string, in quotes"),
        ("command", json!([null]), "write the item null as a string, in quotes"),
        ("command", json!({"a": 1}), r#"write a list such as ["/usr/bin/program", "argument"]"#),
    ] {
        let mut wrong = annotated(&[], json!({}), json!({}));
        wrong["spec"]["initContainers"] = json!([{"name": "first"}]);
        for place in ["containers", "initContainers"] {
            let mut wrong = wrong.clone();
            wrong["spec"][place][0][field] = value.clone();
            let found = plan(&wrong, &KnownFacts::default()).unwrap_err();
            assert_eq!((found[0].rule, found[0].fix.as_str()), ("wrong-type", fix), "{place} {value}");
            assert_eq!(found[0].at.to_string(), format!("spec.{place}[0].{field}"));
        }
    }
}

#[test]
fn name_of_a_container_is_no_host() {
    let http = json!({"httpGet": {"port": 80, "host": "db"}});
    for (annotations, db, place) in [
        (
            &[("check.podgate.io/api", "tcp://db:5432")][..],
            json!({}),
            r#"metadata.annotations["check.podgate.io/api"]"#,
        ),
        (&[("check.podgate.io/api", "http://db/x")], json!({}), r#"metadata.annotations["check.podgate.io/api"]"#),
        (&[], json!({"readinessProbe": http}), "spec.containers[0].readinessProbe"),
        (&[], json!({"startupProbe": http}), "spec.containers[0].startupProbe"),
    ] {
        let found = shown(&annotated(annotations, db, json!({})), Target::default());
        let fix = if annotations.first().is_some_and(|(_, check)| check.contains("5432")) { "5432" } else { "80" };
        let expected = format!(
            "host-is-container {place}: use localhost:{fix} in a check, no host in a probe; for a Service, write db.NAMESPACE"
        );
        assert_eq!(found, [expected]);
    }
    for check in ["tcp://db.shop:5432", "tcp://localhost:5432", "tcp://cache:5432", "file:///db"] {
        let found = shown(&annotated(&[("check.podgate.io/api", check)], json!({}), json!({})), Target::default());
        assert_eq!(found, [] as [&str; 0], "{check}");
    }
}

#[test]
fn order_that_starts_a_client_before_its_server_warns() {
    let db = json!({"ports": [{"containerPort": 5432}]});
    let env = |name: &str| json!({"env": [{"name": name, "value": "localhost:5432"}]});
    let found = |order: &str, api: Value, db: &Value| {
        let mut own = annotated(&[], db.clone(), api);
        own["metadata"]["annotations"]["podgate.io/order"] = json!(order);
        check_reversed(&own, &plan(&own, &KnownFacts::default()).unwrap())
    };
    let [finding] = &found("api, db", env("DATABASE_HOST"), &db)[..] else { panic!() };
    assert_eq!((finding.rule, finding.at.to_string().as_str()), ("order-reversed", "spec.containers[1].env[0].value"));
    assert_eq!(
        finding.message,
        "the order starts api before db, but the variable DATABASE_HOST of api names localhost:5432, and db declares this port"
    );
    assert_eq!(finding.fix, r#"start db first, as in podgate.io/order: "db, api""#);
    let loops =
        json!({"env": env("DB")["env"], "command": ["sh", "-c", "until nc -z localhost:5432; do sleep 1; done"]});
    let native = json!({"ports": [{"containerPort": 5433}]});
    let mutual = json!({"ports": [{"containerPort": 5432}], "args": ["--api=localhost:80"]});
    let api = json!({"env": env("DB")["env"], "ports": [{"containerPort": 80}]});
    for (order, api, db) in [
        ("db, api", env("DB"), &db),
        ("api=Started, db", env("DB"), &db),
        // The client retries, or does not need the address at its start.
        ("api, db", loops, &db),
        ("api, db", env("OTEL_EXPORTER_OTLP_ENDPOINT"), &db),
        ("api, db", env("WEBHOOK_URL"), &db),
        ("api, db", env("PROXY"), &db),
        ("api, db", env("DB"), &native),
        ("api, db", api, &mutual),
    ] {
        assert_eq!(found(order, api.clone(), db), [], "{order} {api} {db}");
    }
}

#[test]
fn server_in_a_job_warns() {
    let job = json!({"template": {}});
    let in_job = Target { workload: Some(&job), ..Target::default() };
    let of = |order: &str, annotations: &[(&str, &str)], db: Value, target| {
        let mut pod = annotated(annotations, db, json!({}));
        pod["metadata"]["annotations"]["podgate.io/order"] = json!(order);
        pod["spec"]["restartPolicy"] = json!("Never");
        let rules = findings_of(&pod, target).into_iter().filter(|one| one.rule == "job-never-completes");
        rules.map(|one| one.fix).collect::<Vec<_>>()
    };
    let native = json!({"tcpSocket": {"port": 1}, "periodSeconds": 1, "failureThreshold": 300, "successThreshold": 1});
    let fix = |native: &str, line: &str| {
        format!(
            "move db to initContainers, with these fields; db: restartPolicy: Always{native}; or write =Completed if they exit, or add the annotation {line}"
        )
    };
    let probed = |line: &str| fix(&format!(", startupProbe: {native}"), line);
    let quit = r#"quit.podgate.io/db: "POST http://127.0.0.1:15020/quitquitquit""#;
    assert_eq!(of("db, api", &[], json!({"image": "docker.io/istio/proxyv2:1.30"}), in_job), [probed(quit)]);
    // The Cloud SQL Auth Proxy serves the request only with a flag.
    let proxy = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2";
    let quit = r#"quit.podgate.io/db: "POST http://127.0.0.1:9091/quitquitquit""#;
    let with_flag = probed(&format!("{quit} (with --quitquitquit in its args)"));
    assert_eq!(of("db, api", &[], json!({"image": proxy, "args": ["p:r:i"]}), in_job), [with_flag]);
    let args = json!(["p:r:i", "--quitquitquit"]);
    assert_eq!(of("db, api", &[], json!({"image": proxy, "args": args}), in_job), [probed(quit)]);
    let sidecars = r#"podgate.io/job-sidecars: "db""#;
    let port = json!({"readinessProbe": null, "ports": [{"containerPort": 80}]});
    assert_eq!(of("db, api", &[], json!({}), in_job), [probed(sidecars)]);
    assert_eq!(of("db=Started, api", &[], port, in_job), [fix("", sidecars)]);
    for (order, annotations, db, target) in [
        ("db, api", &[("podgate.io/job-sidecars", "db")][..], json!({}), in_job),
        ("db=Completed, api", &[], json!({}), in_job),
        ("db=Exited, api", &[], json!({}), in_job),
        ("db=Started, api", &[], json!({"readinessProbe": null}), in_job),
        // A Pod without a Job may run without end.
        ("db, api", &[], json!({}), Target::default()),
    ] {
        assert_eq!(of(order, annotations, db, target), [] as [&str; 0], "{order} {annotations:?}");
    }
    // The webhook sees the Pod of a Job.
    let mut pod = annotated(&[], json!({}), json!({}));
    pod["spec"]["restartPolicy"] = json!("OnFailure");
    pod["metadata"]["ownerReferences"] = json!([{"kind": "Job", "name": "x"}]);
    assert_eq!(shown(&pod, Target::default()).len(), 1);
}

#[test]
fn stop_order_that_contradicts_the_order_warns() {
    for (order, stops, fix) in [
        ("db, api", "db, api", Some("write db after api, or set podgate.io/stop-order: reverse")),
        ("db=Started, api", "db, api", Some("write db after api, or set podgate.io/stop-order: reverse")),
        ("db, api", "api, db", None),
        ("db, api", "db & api", None),
        ("db, api", "api", None),
    ] {
        let pod = annotated(&[("podgate.io/order", order), ("podgate.io/stop-order", stops)], json!({}), json!({}));
        let expected = fix.map(|fix| format!("stops-too-early metadata.annotations[\"podgate.io/stop-order\"]: {fix}"));
        let found: Vec<String> =
            shown(&pod, Target::default()).into_iter().filter(|line| !line.starts_with("short-grace")).collect();
        assert_eq!(found, Vec::from_iter(expected), "{order}; {stops}");
    }
}

#[test]
fn name_of_a_known_webhooks_container_gets_a_question_mark() {
    for (name, has_hint) in
        [("istio-proxy", true), ("daprd", true), ("cloud-sql-proxy", false), ("log-agent", false), ("cache", false)]
    {
        let findings = plan(&pod(&format!("{name}, api"), &[("api", json!({}))]), &KnownFacts::default()).unwrap_err();
        assert_eq!(
            findings[0].fix.ends_with(&format!("or write {name}? if a webhook adds it")),
            has_hint,
            "{findings:?}"
        );
    }
}
