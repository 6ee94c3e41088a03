use podgate::order::declare::spec::Spec;
use podgate::order::declare::*;
use podgate::order::finding::{Finding, Level};
use serde_json::{Value, json};

fn template(annotations: &[(&str, &str)]) -> Value {
    let map: serde_json::Map<String, Value> =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({"metadata": {"annotations": map}, "spec": {
        "containers": [{"name": "db"}, {"name": "cache"}, {"name": "api"}, {"name": "web"}],
        "initContainers": [{"name": "setup"}, {"name": "mesh", "restartPolicy": "Always"}],
        "ephemeralContainers": [{"name": "debug"}],
    }})
}

fn read_template(template: &Value) -> (Declaration, Vec<Finding>) {
    let mut findings = Vec::new();
    let spec = Spec::read(template, &mut findings);
    let declared = read_annotations(template, &spec, &mut findings);
    (declared, findings)
}

/// Returns the only finding for a template with this one annotation.
fn only_finding(key: &str, value: &str) -> Finding {
    let (_, findings) = read_template(&template(&[(key, value)]));
    assert_eq!(findings.len(), 1, "{key}: {value}: {findings:#?}");
    findings.into_iter().next().unwrap()
}

#[test]
fn reads_every_annotation() {
    let (declared, findings) = read_template(&template(&[
        ("podgate.io/order", "db & cache=Started, api"),
        ("after.podgate.io/web", "api, db=Started"),
        ("podgate.io/mode", "entrypoint"),
        ("mode.podgate.io/db", "post-start"),
        ("podgate.io/timeout", "2m"),
        ("timeout.podgate.io/web", "1h 30m"),
        ("podgate.io/on-timeout", "continue"),
        ("podgate.io/fail-fast", "true"),
        ("on-timeout.podgate.io/web", "fail"),
        ("fail-fast.podgate.io/api", "false"),
        ("command.podgate.io/web", r#"["/usr/bin/web","-v"]"#),
        ("podgate.io/stop-order", "web, api=Exited"),
        ("podgate.io/job-sidecars", "cache"),
        ("podgate.io/publish", "none"),
        ("podgate.io/injected", "whatever"),
        ("example.com/other", "x"),
        ("plain", "x"),
    ]));
    assert_eq!(findings, []);
    let edges: Vec<String> = declared.edges.iter().map(|e| format!("{} after {}", e.waiter, e.until)).collect();
    assert_eq!(edges, ["web after api=Ready", "web after db=Started", "api after db=Ready", "api after cache=Started"]);
    assert_eq!(declared.mode.of("api"), RequestedMode::Entrypoint);
    assert_eq!(declared.mode.of("db"), RequestedMode::PostStart);
    assert_eq!((declared.timeout.of("db").as_secs(), declared.timeout.of("web").as_secs()), (120, 5400));
    assert!(declared.continue_on_timeout.of("db") && declared.fail_fast.of("db"));
    assert!(!declared.continue_on_timeout.of("web") && !declared.fail_fast.of("api"));
    assert_eq!(declared.commands["web"], ["/usr/bin/web", "-v"]);
    assert!(matches!(&declared.stop_order, StopOrder::Steps(steps) if steps.len() == 2));
    assert_eq!(declared.job_sidecars[0].until.container, "cache");
    assert_eq!(declared.publish, Some(Publish::None));
}

#[test]
fn list_rejects_names_of_other_containers_with_a_fix() {
    for (text, rule, what, fix) in [
        ("db, apii", "unknown-container", "there is no container apii", "did you mean api?"),
        ("db, queue", "unknown-container", "there is no container queue", "use one of db, cache, api, web"),
        ("podgate, db", "condition-never-met", "podgate's own sidecar", "do not name podgate here"),
        ("db, api, db", "doubled-container", "container db is listed twice (again at character 10)", "once"),
        ("*, db, *", "doubled-container", "* is listed twice (again at character 8)", "once"),
        ("db, api=ready, web", "bad-order", "(character 9)", "write a list such as db, cache, api"),
    ] {
        let found = only_finding("podgate.io/order", text);
        assert_eq!((found.rule, found.level), (rule, Level::Error), "{text}");
        assert!(found.message.contains(what) && found.fix.contains(fix), "{text}: {found}");
        assert_eq!(found.at, annotation_place("podgate.io/order"));
    }
    assert_eq!(only_finding("podgate.io/order", "db, apii").span, Some(4..8));
    assert_eq!(only_finding("timeout.podgate.io/mesh", "1m").rule, "init-container");
    let of_one = only_finding("timeout.podgate.io/apii", "1m");
    assert_eq!(of_one.rule, "unknown-container");
    assert!(of_one.message.starts_with("timeout.podgate.io/apii: ") && of_one.fix.contains("api"), "{of_one}");
}

#[test]
fn star_stands_for_the_containers_that_the_list_does_not_name() {
    let edges = |order: &str| {
        let (declared, findings) = read_template(&template(&[("podgate.io/order", order)]));
        assert_eq!(findings, [], "{order}");
        declared.edges.iter().map(|edge| format!("{} after {}", edge.waiter, edge.until)).collect::<Vec<_>>()
    };
    // `*` does not include init containers and native sidecars.
    assert_eq!(edges("*=Started, db & cache & api"), edges("web=Started, db & cache & api"));
    let named = ["api after db=Ready", "cache after db=Ready", "web after db=Ready", "web after cache=Ready"];
    assert_eq!(edges("db, cache & *, web")[..2], ["cache after db=Ready", "api after db=Ready"]);
    assert!(named.iter().all(|edge| edges("db, cache & *, web").contains(&(*edge).to_owned())));
    assert_eq!(edges("db, cache, api, web, *"), edges("db, cache, api, web"));
    assert_eq!(edges("db, *"), edges("db, cache & api & web"));
    assert_eq!(edges("*=Completed"), [""; 0]);

    let stop = [("podgate.io/stop-order", "web, *"), ("podgate.io/stop-order", "web, db & cache & api")];
    let [star, names] = stop.map(|annotation| match read_template(&template(&[annotation])).0.stop_order {
        StopOrder::Steps(steps) => {
            steps.iter().map(|step| step.iter().map(|item| item.until.clone()).collect()).collect::<Vec<Vec<_>>>()
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(star, names);
}

#[test]
fn bad_values_are_rejected_with_a_fix() {
    for (key, value, what, fix) in [
        ("podgate.io/mode", "poststart", "\"poststart\" is not one of auto, ", "did you mean post-start?"),
        ("mode.podgate.io/db", "", "is not one of", "write one of"),
        ("podgate.io/timeout", "5", "\"5\" is not a duration", "write 5s"),
        ("timeout.podgate.io/db", "300", "is not a duration", "write 300s"),
        ("podgate.io/timeout", "five minutes", "\"five minutes\" is not a duration", "such as 90s"),
        ("podgate.io/timeout", "0", "is not", "such as 90s"),
        ("podgate.io/timeout", "0s", "not longer than zero", "such as 90s"),
        ("timeout.podgate.io/db", "99999999years", "longer than a year", "such as 90s"),
        ("podgate.io/on-timeout", "ignore", "not one of fail, continue", "write one of"),
        ("podgate.io/fail-fast", "yes", "not one of false, true", "write one of"),
        ("on-timeout.podgate.io/db", "Continue", "not one of fail, continue", "did you mean continue?"),
        ("fail-fast.podgate.io/db", "1", "not one of false, true", "write one of"),
        ("command.podgate.io/db", "/usr/bin/db", "is not a command", "write [\"/usr/bin/program\""),
        ("command.podgate.io/db", "[]", "is not a command", "write ["),
        ("podgate.io/stop-order", "revers", "no container revers", "use one of"),
        ("podgate.io/job-sidecars", "", "the list is empty", "such as db, cache, api, or remove"),
        ("after.podgate.io/db", " ", "the list is empty", "such as cache, api, web, or remove"),
        ("podgate.io/order", "db, é", "\"é\" is not a container name", "such as db, cache, api"),
        ("podgate.io/order", "DB -> Api", "-> does not separate containers", "such as db, cache, api"),
        ("podgate.io/publish", "API", "not one of api, none", "did you mean api?"),
    ] {
        let found = only_finding(key, value);
        assert_eq!((found.level, &found.at), (Level::Error, &annotation_place(key)), "{key}");
        assert!(found.message.contains(what) && found.fix.contains(fix), "{key}={value}: {found}");
    }
}

#[test]
fn mistyped_and_misplaced_keys_are_reported() {
    for (key, rule, level, fix) in [
        ("podgate.io/ordr", "unknown-key", Level::Error, "did you mean podgate.io/order?"),
        ("podgate.io/after", "unknown-key", Level::Error, "write after.podgate.io/CONTAINER"),
        ("podgate.io/colour", "unknown-key", Level::Error, "docs/declaring.md"),
        ("afer.podgate.io/web", "unknown-key", Level::Error, "did you mean after.podgate.io/web?"),
        ("podgate.io/ready", "unknown-key", Level::Error, "write ready.podgate.io/CONTAINER"),
        ("checks.podgate.io/web", "unknown-key", Level::Error, "did you mean check.podgate.io/web?"),
        ("podgates.io/order", "unknown-key", Level::Error, "did you mean podgate.io/order?"),
        ("podgate.io/inject", "not-an-annotation", Level::Error, "metadata.labels"),
        ("status.podgate.io/db", "copied-state", Level::Warning, "remove this annotation"),
        ("sandbox.podgate.io/id", "copied-state", Level::Warning, "remove this annotation"),
        ("override.podgate.io/db", "copied-state", Level::Warning, "remove this annotation"),
    ] {
        let found = only_finding(key, "db");
        assert_eq!((found.rule, found.level), (rule, level), "{key}: {found}");
        assert!(found.fix.contains(fix), "{key}: {found}");
    }
    let mut labeled = template(&[]);
    labeled["metadata"]["labels"] =
        json!({"podgate.io/order": "db", "podgate.io/inject": true, "podgate.io/injct": "x", "app": "x"});
    let (_, findings) = read_template(&labeled);
    let found: Vec<_> = findings.iter().map(|finding| (finding.rule, finding.fix.as_str())).collect();
    let expected = [
        ("unknown-key", "did you mean podgate.io/inject?"),
        ("bad-value", "write \"enabled\" or \"disabled\", in quotes"),
        ("not-a-label", "move it to metadata.annotations"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn templates_without_an_order_are_checked() {
    let rules = |annotations: &[(&str, &str)], labels: Value| {
        let mut template = template(annotations);
        template["metadata"]["labels"] = labels;
        check_undeclared(&template).iter().map(|found| (found.rule, found.level)).collect::<Vec<_>>()
    };
    let (error, warning) = (Level::Error, Level::Warning);
    assert_eq!(rules(&[("x", "y"), ("example.com/order", "db, api")], json!({"app": "x"})), []);
    assert_eq!(rules(&[("podgate.io/ordr", "db, api")], json!({})), [("unknown-key", error)]);
    assert_eq!(
        rules(&[("podgate.io/ordr", "db, api")], json!({"podgate.io/inject": "enabled"})),
        [("unknown-key", error)]
    );
    assert_eq!(rules(&[("podgates.io/order", "db, api")], json!({})), [("unknown-key", error)]);
    assert_eq!(rules(&[("podgate.io/timeout", "2m")], json!({})), [("nothing-declared", warning)]);
    assert_eq!(rules(&[("podgate.io/timeout", "2")], json!({})), [("bad-value", error)]);
    assert_eq!(rules(&[("status.podgate.io/db", "Ready")], json!({})), [("copied-state", warning)]);
    assert_eq!(rules(&[("override.podgate.io/db", "Ready@x")], json!({})), [("copied-state", warning)]);
    assert_eq!(rules(&[], json!({"status.podgate.io/db": "Ready"})), [("copied-state", warning)]);
    assert_eq!(rules(&[], json!({"podgate.io/inject": "enabled"})), [("nothing-declared", warning)]);
    assert_eq!(rules(&[], json!({"podgate.io/inject": "disabled"})), []);
    // Podgate does not report other problems of a Pod without an order.
    assert_eq!(check_undeclared(&json!({"metadata": {"annotations": ["x"]}, "spec": {}})), []);
}

#[test]
fn lists_that_yaml_has_cut_or_changed_are_errors() {
    let find = |annotations: Value| {
        let mut template = template(&[]);
        template["metadata"]["annotations"] = annotations;
        let (_, findings) = read_template(&template);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        let Finding { rule, level, message, fix, .. } = findings.into_iter().next().unwrap();
        assert_eq!(level, Level::Error);
        (rule, message, fix)
    };
    let (rule, message, fix) = find(json!({"podgate.io/order": "db", "queue=Started": null, "web & cache": null}));
    assert_eq!(rule, "cut-at-comma");
    assert!(message.starts_with("the order was cut at the comma: podgate.io/order is \"db\", and queue"), "{message}");
    // serde_json without its feature preserve_order sorts the keys, so the fix cannot show the original list.
    assert!(fix.starts_with("put the order in quotes"), "{fix}");
    let (rule, _, fix) = find(json!({"podgate.io/stop-order": "web", "api": null, "podgate.io/mode": "auto"}));
    assert_eq!((rule, fix.as_str()), ("cut-at-comma", "put the list in quotes: podgate.io/stop-order: \"web, api\""));
    // Podgate assumes that YAML cut the nearest list before the key `queue`.
    let (_, message, _) = find(json!({"after.podgate.io/web": "api", "podgate.io/order": "db", "queue": null}));
    assert!(message.contains("podgate.io/order is \"db\", and queue became a key"), "{message}");
    // The API server sorts the keys and turns null into "".
    let (rule, _, fix) = find(json!({"api": "", "podgate.io/order": "db", "web": "", "queue": ""}));
    assert_eq!((rule, fix.as_str()), ("cut-at-comma", "put the order in quotes"));

    let (rule, message, fix) = find(json!({"podgate.io/order": null}));
    assert_eq!((rule, message.as_str()), ("bad-order", "the list is empty"));
    assert_eq!(fix, "write a list such as db, cache, api, or remove the annotation");
    let (rule, message, fix) = find(json!({"podgate.io/order": ["db", "api"]}));
    assert_eq!((rule, message.as_str()), ("bad-value", "podgate.io/order must be a string, not a list"));
    assert_eq!(fix, "write one string: \"db, api\"");
    let (_, _, fix) = find(json!({"check.podgate.io/api": ["tcp://db:1", "exec:[\"a\"]"]}));
    assert_eq!(fix, r#"write one string: 'tcp://db:1, exec:["a"]'"#);

    let mut empty = template(&[("podgate.io/order", "db, api")]);
    for other in [json!({"queue": ""}), json!({"example.com/x": null}), json!({"note": null})] {
        empty["metadata"]["annotations"].as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    }
    assert_eq!(read_template(&empty).1, []);
}
