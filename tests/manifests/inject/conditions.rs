//! Tests of `check.podgate.io`, `ready.podgate.io` and `on-dependency-restart`.

use super::{check_injection, lines, options};
use podgate::core::container::Mode;
use podgate::order::finding::{Finding, Level};
use podgate::order::inject::inject;
use podgate::order::plan::{KnownFacts, Plan, plan};
use serde_json::{Value, json};

/// Returns a Pod with the containers `db` and `app`, in which `app` waits for `db`. A container in `unknown` has no
/// command.
fn pod(annotations: &[(&str, &str)], unknown: &[&str]) -> Value {
    let container = |name: &str| match unknown.contains(&name) {
        true => json!({"name": name, "image": "x", "args": ["serve"]}),
        false => json!({"name": name, "image": "x", "command": [format!("/{name}")]}),
    };
    let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
    let annotations: serde_json::Map<String, Value> = annotations.collect();
    json!({"metadata": {"annotations": annotations}, "spec": {"containers": [container("db"), container("app")]}})
}

fn ordered(annotations: &[(&str, &str)], unknown: &[&str]) -> Value {
    pod(&[&[("podgate.io/order", "db, app")], annotations].concat(), unknown)
}

fn plan_of(template: &Value) -> Plan {
    plan(template, &KnownFacts::default()).unwrap_or_else(|found| panic!("{}", lines(&found)))
}

/// Injects a template. Checks that the result is stable and that `uninject` restores the original.
fn injected(template: &Value) -> Value {
    let done = check_injection(template, &options(), &KnownFacts::default());
    done.unwrap_or_else(|| panic!("not injected: {template:#}")).value
}

fn only_error(template: &Value) -> Finding {
    let mut found = inject(template, &options(), &KnownFacts::default()).expect_err("a rejected template");
    found.retain(|finding| finding.level == Level::Error);
    assert_eq!(found.len(), 1, "{}", lines(&found));
    found.remove(0)
}

fn command(template: &Value, index: usize) -> String {
    let words = template["spec"]["containers"][index]["command"].as_array().into_iter().flatten();
    words.map(|word| word.as_str().expect("a word")).collect::<Vec<_>>().join(" ")
}

/// Returns the only error of a Pod in which `app` has this annotation.
fn value_error(key: &str, value: &str) -> Finding {
    let mut template = ordered(&[(&format!("{key}.podgate.io/app"), value)], &[]);
    template["spec"]["containers"][1]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    only_error(&template)
}

#[test]
fn comma_separates_checks_but_not_the_words_of_a_command() {
    for (text, checks) in [
        (" unix:///run/docker.sock ", &["unix:///run/docker.sock"][..]),
        ("file:///certs/tls.crt,\n tcp://db.shop:5432", &["file:///certs/tls.crt", "tcp://db.shop:5432"]),
        (
            r#"exec:[ "sh", "-c", "a, \"b]" ] , mount:///data/x, exec:["true"]"#,
            &[r#"exec:["sh","-c","a, \"b]"]"#, "mount:///data/x", r#"exec:["true"]"#],
        ),
    ] {
        let plan = plan_of(&pod(&[("check.podgate.io/app", text)], &[]));
        let found: Vec<String> = plan.get("app").expect("app").checks().iter().map(ToString::to_string).collect();
        assert_eq!(found, checks, "{text}");
    }
}

#[test]
fn wrong_check_has_a_place_and_the_corrected_text() {
    let example = "a list such as file:///certs/tls.crt, tcp://db.shop:5432";
    let kinds = "tcp://HOST:PORT, http://HOST:PORT/PATH, exec:[\"command\",\"argument\"], file:///PATH[+content], \
                 unix:///PATH or mount:///PATH";
    let words = r#"exec:["command","argument"]"#;
    let list = r#"["command","argument"]"#;
    for (text, span, what, fix) in [
        ("", 0..0, "the list is empty", example),
        ("tcp://db:1,", 11..11, "a check is missing", example),
        ("tcp://db:1, ,file:///x", 12..12, "a check is missing", example),
        ("tcp://db:1, db.shop:5432", 12..24, "\"db.shop:5432\": not a check", "tcp://db.shop:5432"),
        ("tcp://db", 0..8, "has no port", example),
        ("tpc://db:1", 0..10, "not a check", "tcp://db:1"),
        ("tcp://db:pg", 0..11, "has no port number; a check cannot use a port name", example),
        ("ftp://db:1", 0..10, "\"ftp://db:1\": not a check", kinds),
        ("https://db/", 0..11, "the agent has no TLS", "use tcp://, exec:[…] or the readiness probe"),
        ("/certs/tls.crt", 0..14, "not a check", "file:///certs/tls.crt"),
        ("file://certs/tls.crt", 0..20, "absolute path", "file:///certs/tls.crt"),
        ("unix://run/x.sock", 0..17, "absolute path", "unix:///run/x.sock"),
        ("unix:/run/x.sock", 0..16, "not a check", "unix:///run/x.sock"),
        ("file:///a/../b+content", 0..22, "contains ..", example),
        ("mount:///data/..", 0..16, "contains ..", example),
        ("tcp://db:1, mount:///data/", 12..26, "/data/ is the directory of a volume", "mount:///data/mnt"),
        ("mount:///proc", 0..13, "/proc is a mount point in every container", example),
        ("mount:///", 0..9, "/ is a mount point in every container", example),
        ("file:///data", 0..12, "always passes, because a volume is mounted at /data", "file:///data/ready"),
        ("file:///data/+content", 0..21, "never passes, because /data/ is a directory", "file:///data/ready+content"),
        ("file:///data+content", 0..20, "never passes, because /data is a directory", "file:///data/ready+content"),
        ("file:///x/+content", 0..18, "never passes, because /x/ is a directory", "file:///x/ready+content"),
        ("file:///x+Content", 0..17, "+content must be in lowercase", "file:///x+content"),
        ("unix:///x+content", 0..17, "only with file://", "unix:///x"),
        ("mount:///x+CONTENT", 0..18, "only with file://", "mount:///x"),
        ("exec:pg_isready -q", 0..18, "the command must be a JSON list", r#"exec:["pg_isready","-q"]"#),
        ("exec:test -e \"$X\"", 0..17, "the command must be a JSON list", words),
        (r#"exec:["a", b], tcp://db:1"#, 0..25, "not a JSON list of strings", list),
        (r#"exec:["a"] x, tcp://db:1"#, 0..12, "not a JSON list of strings", list),
    ] {
        let error = value_error("check", text);
        assert_eq!((error.rule, error.span.clone()), ("bad-value", Some(span)), "{text}: {error}");
        assert!(error.message.contains(what) && !error.message.contains('\n'), "{text}: {error}");
        let fix = if fix.starts_with("use ") { fix.to_owned() } else { format!("write {fix}") };
        assert_eq!(error.fix, fix, "{text}: {error}");
        assert!(!error.message.contains("write"), "one instruction: {error}");
    }
}

#[test]
fn path_of_a_volume_can_be_a_file() {
    let mut template = pod(&[("check.podgate.io/app", "file:///data+content")], &[]);
    for (volume, sub_path, is_directory) in [
        (json!({"emptyDir": {}}), Value::Null, true),
        (json!({"emptyDir": {}}), json!("ready"), false),
        (json!({"hostPath": {"path": "/x"}}), Value::Null, false),
    ] {
        template["spec"]["volumes"] = json!([volume]);
        template["spec"]["volumes"][0]["name"] = json!("data");
        template["spec"]["containers"][1]["volumeMounts"] =
            json!([{"name": "data", "mountPath": "/data", "subPath": sub_path}]);
        assert_eq!(plan(&template, &KnownFacts::default()).is_err(), is_directory, "{template:#}");
    }
    let long = format!("unix:///{}", "x".repeat(107));
    assert!(value_error("ready", &long).message.ends_with("the path of a socket has at most 107 bytes"));
}

#[test]
fn wrong_ready_check_and_restart_setting_are_explained() {
    let one = "write one check, such as unix:///run/app.sock or tcp://127.0.0.1:5432";
    for (key, value, what, fix) in [
        ("ready", "mount://data", "absolute path", "write mount:///data"),
        ("ready", "tcp://db.shop:5432", "because db.shop is another host", one),
        ("ready", "http://10.0.0.1/x", "because 10.0.0.1 is another host", one),
        ("ready", "file:///a, file:///b", "only one check", one),
        ("ready", "tcp://db", "has no port from 1 to 65535", one),
        ("ready", "https://localhost/x", "the URL has no port", "https://localhost:8443/health"),
        ("ready", "grpc://localhost", "the URL has no port", "grpc://localhost:9090/SERVICE"),
        ("ready", "https://shop.example:443/", "because shop.example is another host", "https://"),
        ("ready", "https://localhost:0/", "no port from 1 to 65535", "https://"),
        ("ready", "http://localhost:80/, Host", "\"Host\" is not a header", "Host: shop.example"),
        ("ready", "http://localhost:80/, http://localhost:81/", "is not a header", "Host: shop.example"),
        ("ready", "http://localhost:80/, A: b,", "\"\" is not a header", "Host: shop.example"),
        ("ready", "http://localhost:80/, A b: c", "\"A b: c\" is not a header", "Host: shop.example"),
        ("ready", "grpc://localhost:80, A: b", "a grpc:// check has no headers", "grpc://localhost:9090/SERVICE"),
        ("on-dependency-restart", "restarts", "not one of ignore, restart", "did you mean restart?"),
    ] {
        let error = value_error(key, value);
        assert!(error.rule == "bad-value" && error.message.contains(what) && error.fix.contains(fix), "{error}");
    }
    let error = only_error(&ordered(&[("ready.podgate.io/", "tcp://localhost:1")], &[]));
    assert_eq!((error.rule, error.message.as_str()), ("unknown-key", "ready.podgate.io/ has no container name"));
    for (key, rule, fix) in [
        ("checks", "unknown-key", "did you mean check.podgate.io/app?"),
        ("on-dependency-restarts", "unknown-key", "did you mean on-dependency-restart.podgate.io/app?"),
    ] {
        let error = value_error(key, "x");
        assert_eq!((error.rule, error.fix.as_str()), (rule, fix));
    }
}

/// YAML cuts `{check.podgate.io/app: file:///a, tcp://db:1}` at the comma.
#[test]
fn list_that_yaml_has_cut_is_an_error() {
    let mut template = ordered(&[("check.podgate.io/app", "file:///a")], &[]);
    template["metadata"]["annotations"]["tcp://db:1"] = Value::Null;
    let error = only_error(&template);
    assert_eq!(error.rule, "cut-at-comma");
    assert_eq!(error.fix, "put the list in quotes: check.podgate.io/app: \"file:///a, tcp://db:1\"");
}

#[test]
fn check_alone_is_an_order() {
    let template =
        pod(&[("check.podgate.io/app", "file:///a, tcp://db.shop:5432"), ("timeout.podgate.io/app", "1m")], &[]);
    let done = injected(&template);
    assert_eq!(command(&done, 0), "/db");
    assert_eq!(
        command(&done, 1),
        "/podgate/bin/podgate entrypoint --container app --check file:///a --check tcp://db.shop:5432 --timeout 1m -- /app"
    );
    let startup = &done["spec"]["containers"][1]["startupProbe"];
    assert_eq!(startup["exec"]["command"], json!(["/podgate/bin/podgate", "opened", "--wait"]));
    assert_eq!(startup["timeoutSeconds"], 65);
}

#[test]
fn check_needs_a_gate_in_front_of_the_command() {
    let check = ("check.podgate.io/app", "unix:///x");
    let waits = "app waits for unix:///x, so app needs a gate";
    for (template, rule, what, fix) in [
        (
            ordered(&[check], &["app"]),
            "unknown-command",
            format!("{waits}, but the command of app is not known"),
            "set command in spec.containers, or command.podgate.io/app",
        ),
        (
            ordered(&[check, ("mode.podgate.io/app", "hold")], &[]),
            "hold-impossible",
            format!("{waits}, but app is in hold mode"),
            "write mode.podgate.io/app: entrypoint",
        ),
        (
            ordered(&[check, ("mode.podgate.io/app", "post-start")], &[]),
            "mode-conflict",
            format!("app is in post-start mode, but {waits}"),
            "write mode.podgate.io/app: auto",
        ),
        (
            ordered(&[("check.podgate.io/db", "unix:///x"), ("mode.podgate.io/app", "post-start")], &[]),
            "mode-conflict",
            "db waits for unix:///x, but app comes after db and is in post-start mode".to_owned(),
            "write mode.podgate.io/app: auto",
        ),
    ] {
        let error = only_error(&template);
        assert!(error.rule == rule && error.message.starts_with(&what) && error.fix.starts_with(fix), "{error}");
        assert!(!error.fix.contains("http://"), "{error}");
    }
}

/// A tcp or http check needs no command, because podgate's sidecar runs it.
#[test]
fn ready_check_of_a_port_works_in_every_mode() {
    let ready = ("ready.podgate.io/db", "tcp://127.0.0.1:5432");
    for (more, unknown, mode) in [
        (("mode.podgate.io/db", "entrypoint"), &[][..], Mode::Entrypoint),
        (("podgate.io/timeout", "5m"), &[], Mode::None),
        (("podgate.io/timeout", "5m"), &["db", "app"], Mode::None),
        (("after.podgate.io/db", "app=Started"), &["db"], Mode::Hold),
        (("podgate.io/mode", "post-start"), &["db"], Mode::PostStart),
    ] {
        let template = match mode {
            Mode::Hold => {
                let order = ("after.podgate.io/web", "db");
                let mut template = pod(&[more, ready, order], unknown);
                let web = json!({"name": "web", "command": ["/web"]});
                template["spec"]["containers"].as_array_mut().expect("a list").push(web);
                template
            }
            _ => ordered(&[more, ready], unknown),
        };
        let planned = plan_of(&template);
        assert_eq!(planned.get("db").expect("db").mode(), mode);
        assert!(planned.get("db").expect("db").entrypoint_gate().is_none_or(|gate| !gate.needs_parent));
        let list = done_list(&injected(&template));
        let probe = json!({"tcpSocket": {"port": 5432, "host": "127.0.0.1"}, "periodSeconds": 1});
        assert_eq!(list[0]["readinessProbe"], probe, "{list:#}");
    }
}

/// The agent supports neither TLS nor gRPC, so `inject` writes these checks into the sidecar's list, not into the
/// agent's command line.
#[test]
fn requests_of_the_sidecar_become_probes() {
    for (text, probe) in [
        (
            "https://localhost:8443/a?b",
            json!({"httpGet": {"host": "localhost", "port": 8443, "path": "/a?b", "scheme": "HTTPS"}}),
        ),
        ("https://[::1]:8443", json!({"httpGet": {"host": "::1", "port": 8443, "scheme": "HTTPS"}})),
        ("grpc://localhost:9090", json!({"grpc": {"host": "localhost", "port": 9090}})),
        (
            "grpc://127.0.0.1:9090/shop.Cart",
            json!({"grpc": {"host": "127.0.0.1", "port": 9090, "service": "shop.Cart"}}),
        ),
        (
            " http://localhost:80/x , Host: shop.example:8080,X-Empty:",
            json!({"httpGet": {"host": "localhost", "port": 80, "path": "/x", "httpHeaders":
                [{"name": "Host", "value": "shop.example:8080"}, {"name": "X-Empty", "value": ""}]}}),
        ),
    ] {
        for mode in ["entrypoint", "post-start"] {
            let template = ordered(&[("ready.podgate.io/db", text), ("podgate.io/mode", mode)], &[]);
            let done = injected(&template);
            let mut expected = probe.clone();
            expected["periodSeconds"] = json!(1);
            assert_eq!(done_list(&done)[0]["readinessProbe"], expected, "{text}");
            let lines = done["spec"]["containers"].to_string();
            assert!(!lines.contains("://"), "{lines}");
        }
    }
}

fn done_list(done: &Value) -> Value {
    let text = done["spec"]["initContainers"][0]["env"][0]["value"].as_str().expect("the sidecar's list");
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn other_ready_checks_run_in_the_container() {
    let ready = ("ready.podgate.io/db", "unix:///run/db.sock");
    let mut template = ordered(&[ready], &[]);
    let probe = json!({"exec": {"command": ["early", "$(X)"]}});
    template["spec"]["containers"][0]["startupProbe"] = probe.clone();
    template["spec"]["containers"][0]["env"] = json!([{"name": "X", "value": "y"}]);
    let done = injected(&template);
    assert_eq!(
        command(&done, 0),
        "/podgate/bin/podgate entrypoint --container db --tether parent --ready-check unix:///run/db.sock -- /db"
    );
    assert_eq!(done["spec"]["containers"][0]["startupProbe"], probe, "the kubelet keeps its probes");
    let list = done_list(&done);
    assert_eq!((&list[0]["readyCheck"], &list[0]["startupProbe"]), (&json!("unix:///run/db.sock"), &Value::Null));
    // After a restart of the sidecar, no hook would run the check again.
    template["metadata"]["annotations"]["podgate.io/mode"] = json!("post-start");
    let error = only_error(&template);
    let what = "db is in post-start mode, but db is Ready by unix:///run/db.sock, so db needs a gate";
    assert_eq!((error.rule, error.message.as_str()), ("mode-conflict", what));
}

#[test]
fn ready_check_in_a_container_without_a_known_command_is_rejected() {
    let ready = ("ready.podgate.io/db", "mount:///data");
    let error = only_error(&ordered(&[ready], &["db"]));
    let what = "db is Ready by mount:///data, so db needs a gate, but the command of db is not known";
    assert_eq!((error.rule, error.message.as_str()), ("unknown-command", what));
    for way_out in ["command.podgate.io/db", "--resolve-images", ", or use a tcp:// or http:// check"] {
        assert!(error.fix.contains(way_out), "{error}");
    }
    let error = only_error(&ordered(&[ready, ("mode.podgate.io/db", "hold")], &[]));
    assert_eq!(error.rule, "hold-impossible");
    assert!(error.fix.starts_with("write mode.podgate.io/db: entrypoint, or use"), "{error}");
}

#[test]
fn restart_with_a_provider_needs_a_gate() {
    let all = ("podgate.io/on-dependency-restart", "restart");
    let own = ("on-dependency-restart.podgate.io/app", "restart");
    let off = ("on-dependency-restart.podgate.io/app", "ignore");
    for (annotations, restarts) in [(&[all][..], true), (&[own], true), (&[all, off], false), (&[], false)] {
        let done = injected(&ordered(annotations, &[]));
        let flags = "--timeout 5m --tether parent --restart-with db -- /app";
        assert_eq!(command(&done, 1).ends_with(flags), restarts, "{}", command(&done, 1));
        assert!(!command(&done, 0).contains("restart"), "db waits for nothing");
    }
    for (annotation, place) in
        [(all, "podgate.io/on-dependency-restart"), (own, "on-dependency-restart.podgate.io/app")]
    {
        let error = only_error(&ordered(&[annotation], &["app"]));
        let what = "app restarts with the containers that it waits for, so app needs a gate, but";
        assert!(error.rule == "unknown-command" && error.message.starts_with(what), "{error}");
        assert!(error.at.to_string().contains(place), "{error}");
        assert!(injected(&ordered(&[annotation], &["db"])).is_object());
    }
    let error = only_error(&ordered(&[all, ("podgate.io/mode", "post-start")], &[]));
    assert!(error.rule == "mode-conflict" && error.fix == "write mode.podgate.io/app: auto", "{error}");
}

#[test]
fn settings_without_effect_are_reported() {
    for (annotation, what) in [
        (("ready.podgate.io/app", "tcp://localhost:1"), "no container waits until app is Ready"),
        (("on-dependency-restart.podgate.io/db", "restart"), "db waits for no container"),
    ] {
        let plan = plan_of(&ordered(&[annotation], &[]));
        let found: Vec<_> = plan.findings.iter().filter(|finding| finding.rule == "unused-annotation").collect();
        assert!(found.len() == 1 && found[0].message.starts_with(what), "{found:?}");
        assert!(plan.get("app").expect("app").ready.is_none());
    }
    let check = ("check.podgate.io/app", "file:///a");
    let plan = plan_of(&pod(&[check, ("ready.podgate.io/db", "tcp://localhost:1")], &[]));
    assert_eq!(plan.findings.iter().filter(|finding| finding.rule == "unused-annotation").count(), 1);
}
