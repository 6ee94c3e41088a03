use podgate::order::edit::apply;
use podgate::order::finding::Finding;
use podgate::order::inject::Injected;
use podgate::order::migrate::{MigrationSource, migrate};
use podgate::order::plan::{KnownFacts, plan};
use serde_json::{Value, json};

fn pod(names: &[&str]) -> Value {
    let containers: Vec<Value> = names.iter().map(|name| json!({"name": name, "command": ["x"]})).collect();
    json!({"spec": {"containers": containers, "restartPolicy": "Never"}})
}

/// Migrates `template`. Checks that the edits produce the new template and that the new template has a plan. Returns
/// the new annotations and the result.
fn migrated(template: &Value, from: &MigrationSource) -> (Value, Injected) {
    let done = migrate(template, from).unwrap_or_else(|findings| panic!("{findings:#?}"));
    let mut by_edits = template.clone();
    for edit in &done.edits {
        apply(&mut by_edits, edit).unwrap();
    }
    assert_eq!(by_edits, done.value);
    assert!(plan(&done.value, &KnownFacts::default()).is_ok());
    (done.value["metadata"]["annotations"].clone(), done)
}

fn rule_messages(findings: &[Finding], rule: &str) -> String {
    let of_rule = findings.iter().filter(|finding| finding.rule == rule);
    of_rule.map(Finding::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn kruise_ordered_means_the_order_of_the_list() {
    let mut template = pod(&["a", "b", "c"]);
    template["metadata"] = json!({"annotations": {"apps.kruise.io/container-launch-priority": "Ordered", "x": "y"}});
    template["spec"]["containers"][1]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "KRUISE_CONTAINER_PRIORITY", "value": "5"}]);
    let (annotations, done) = migrated(&template, &MigrationSource::Kruise);
    assert_eq!(annotations, json!({"x": "y", "podgate.io/order": "a, b, c"}));
    assert_eq!(done.value["spec"]["containers"][1]["env"], json!([{"name": "A", "value": "1"}]));
}

#[test]
fn kruise_priorities_become_steps_highest_first() {
    let mut template = pod(&["main", "sidecar", "log", "last"]);
    for (at, priority) in [(1, "10"), (3, "-1")] {
        template["spec"]["containers"][at]["env"] = json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": priority}]);
    }
    let (annotations, done) = migrated(&template, &MigrationSource::Kruise);
    assert_eq!(annotations, json!({"podgate.io/order": "sidecar, main & log, last"}));
    assert!(rule_messages(&done.findings, "migrated").contains("highest first"));
}

#[test]
fn kruise_rejects_templates_without_a_valid_order() {
    let rejected = |template: &Value| {
        rule_messages(&migrate(template, &MigrationSource::Kruise).unwrap_err(), "nothing-to-migrate")
    };
    assert!(rejected(&pod(&["a"])).contains("no OpenKruise order"));
    let mut template = pod(&["a", "b"]);
    template["spec"]["containers"][0]["env"] = json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": "high"}]);
    assert!(rejected(&template).contains("\"high\" is not a priority"));
    template["metadata"] = json!({"annotations": {"podgate.io/order": "a, b"}});
    let kept = migrate(&template, &MigrationSource::Kruise).unwrap();
    assert_eq!((kept.findings[0].rule, kept.edits.len()), ("declared-already", 0));
}

#[test]
fn compose_conditions_become_states() {
    let file = json!({"services": {
        "web": {"depends_on": {"api_server": {"condition": "service_healthy", "restart": true}, "redis": {"condition": "service_started", "required": false}}},
        "api_server": {"depends_on": {"migrate": {"condition": "service_completed_successfully"}, "db": {"condition": "service_started"}, "queue": {"condition": "service_started"}},
                       "healthcheck": {"test": ["CMD", "curl", "-f", "http://localhost"]}},
        "migrate": {"depends_on": ["db"]},
        "mailer": {"depends_on": ["db"]},
    }});
    let (annotations, done) = migrated(&pod(&["web", "api-server", "migrate", "db"]), &MigrationSource::Compose(file));
    assert_eq!(
        annotations,
        json!({"on-dependency-restart.podgate.io/web": "restart", "after.podgate.io/web": "api-server", "after.podgate.io/api-server": "db=Started, migrate=Completed",
               "after.podgate.io/migrate": "db=Started"})
    );
    let lost = rule_messages(&done.findings, "not-migrated");
    for expected in [
        "api-server depends on \"queue\", which has no container in this Pod",
        "the service \"mailer\" has no container in this Pod",
        "readinessProbe: {exec: {command: [\"curl\",\"-f\",\"http://localhost\"]}}",
    ] {
        assert!(lost.contains(expected), "{expected}: {lost}");
    }
    assert!(!lost.contains("redis"), "not required: {lost}");
}

#[test]
fn compose_services_outside_the_pod_become_checks() {
    let depends = |how: Value| json!({"a": {"depends_on": {"q_1": how, "b": {"condition": "service_started"}}}});
    let started = depends(json!({"condition": "service_started"}));
    let done = depends(json!({"condition": "service_completed_successfully"}));
    let linked = json!({"a": {"links": ["q_1:queue", "b"]}});
    let check = Some("tcp://q-1:5672");
    for (services, outside, expected) in [
        (&started, json!({"expose": ["5672"]}), check),
        (&started, json!({"expose": [5672]}), check),
        (&started, json!({"expose": ["53/udp", "9000-9010", "5672/tcp"]}), check),
        (&started, json!({"ports": ["127.0.0.1:80:5672"]}), check),
        (&started, json!({"ports": ["15672:5672"]}), check),
        (&started, json!({"ports": [{"target": 53, "protocol": "udp"}, {"target": 5672, "published": "1"}]}), check),
        (&linked, json!({"expose": [5672]}), check),
        (&started, json!({"expose": ["${PORT}"]}), None),
        (&started, json!({"image": "q"}), None),
        (&started, Value::Null, None),
        (&done, json!({"expose": [5672]}), None),
        (&json!({"a": {"depends_on": ["b"], "external_links": ["q_1:queue"]}}), json!({"expose": [5672]}), None),
    ] {
        for (command, mode) in [(true, "auto"), (false, "auto"), (true, "hold"), (true, "post-start")] {
            let mut services = services.clone();
            services["q_1"] = outside.clone();
            let mut pod = pod(&["a", "b"]);
            pod["metadata"]["annotations"]["mode.podgate.io/a"] = json!(mode);
            if !command {
                pod["spec"]["containers"][0].as_object_mut().unwrap().remove("command");
            }
            let (annotations, done) = migrated(&pod, &MigrationSource::Compose(json!({"services": services})));
            assert_eq!(annotations["after.podgate.io/a"], "b=Started", "{services}");
            let expected = expected.filter(|_| command && mode == "auto");
            assert_eq!(annotations["check.podgate.io/a"].as_str(), expected, "{services}");
            let lost = rule_messages(&done.findings, "not-migrated");
            assert_eq!(lost.contains("write check.podgate.io/a: \"tcp://HOST:PORT\""), expected.is_none(), "{lost}");
        }
    }
}

#[test]
fn compose_restart_needs_a_gate() {
    let service = json!({"depends_on": {"b": {"condition": "service_started", "restart": true}}});
    let file = MigrationSource::Compose(json!({"services": {"a": service, "b": {}}}));
    let (mut gated, mut held) = (pod(&["a", "b"]), pod(&["a", "b"]));
    gated["metadata"]["annotations"]["podgate.io/mode"] = json!("entrypoint");
    held["metadata"]["annotations"]["podgate.io/mode"] = json!("hold");
    for (pod, is_written) in [(gated, true), (held, false)] {
        let (annotations, done) = migrated(&pod, &file);
        assert_eq!(annotations["on-dependency-restart.podgate.io/a"] == "restart", is_written);
        let lost = rule_messages(&done.findings, "not-migrated");
        assert_eq!(lost.contains("write on-dependency-restart.podgate.io/a: restart"), !is_written, "{lost}");
    }
}

#[test]
fn compose_rejects_files_that_do_not_fit() {
    for (file, expected) in [
        (json!({"version": "3"}), "no services"),
        (json!({"services": {"x": {}}}), "no service in the Compose file has the name"),
        (json!({"services": {"a": {}, "b": {}}}), "no service in the Compose file depends"),
        (
            json!({"services": {"a": {"depends_on": {"b": {"condition": "service_ready"}}}}}),
            "not a condition of Compose",
        ),
        (json!({"services": {"a": {"depends_on": "b"}}}), "neither a list nor a map"),
        (json!(7), "no services"),
    ] {
        let findings = migrate(&pod(&["a", "b"]), &MigrationSource::Compose(file)).unwrap_err();
        assert!(rule_messages(&findings, "nothing-to-migrate").contains(expected), "{expected}: {findings:#?}");
    }
}

#[test]
fn tekton_steps_run_one_after_another() {
    let task = json!({"kind": "Task", "spec": {"steps": [
        {"name": "fetch"}, {"name": "lint", "onError": "continue", "timeout": "5m"}, {"name": "build"}]}});
    let (annotations, done) = migrated(&pod(&["step-fetch", "build", "lint"]), &MigrationSource::Tekton(Some(task)));
    assert_eq!(
        annotations,
        json!({"podgate.io/order": "step-fetch=Completed, lint=Exited, build", "podgate.io/fail-fast": "true"})
    );
    assert!(rule_messages(&done.findings, "not-migrated").contains("timeout of the step \"lint\""));
    let (annotations, _) = migrated(&pod(&["a", "b"]), &MigrationSource::Tekton(None));
    assert_eq!(annotations, json!({"podgate.io/order": "a=Completed, b", "podgate.io/fail-fast": "true"}));
    for (file, expected) in [
        (json!({}), "no list of steps"),
        (json!([{"name": "c"}]), "the step \"c\" has no container"),
        (json!([{"name": "a"}, {"name": "a"}]), "two steps match the container a"),
        (json!(["a"]), "a single step"),
    ] {
        let findings = migrate(&pod(&["a", "b"]), &MigrationSource::Tekton(Some(file))).unwrap_err();
        assert!(rule_messages(&findings, "nothing-to-migrate").contains(expected), "{expected}: {findings:#?}");
    }
}
