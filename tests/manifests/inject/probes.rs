//! Tests of probes that the agent runs, in a hook or behind a gate. Behind a gate, the sidecar runs all probes that need
//! no process in the container.

use super::injected;
use podgate::core::command::AgentCommand;
use serde_json::{Value, json};

/// Injects `probe` as the readinessProbe of `db` with a hook, and as the startupProbe of `api` behind a gate. Returns
/// the hook's check, the check of `podgate opened`, and an empty text if `podgate opened` leaves the startupProbe to the
/// sidecar.
fn checks_for(probe: &Value) -> [Option<String>; 3] {
    let container = |name: &str, field: &str| {
        let ports = json!([{"name": "web", "containerPort": 8080}]);
        json!({"name": name, "image": "x", "command": ["x"], "ports": ports, field: probe})
    };
    let check = |mode: &str, container: Value, at: &str, flag: &str| {
        let wait = json!({"name": "z", "image": "x", "command": ["x"], "readinessProbe": {"tcpSocket": {"port": 1}}});
        let (order, list) = match mode {
            "post-start" => ("db, z", json!([container, wait])),
            _ => ("z, api", json!([wait, container])),
        };
        let annotations = json!({"podgate.io/order": order, "podgate.io/mode": mode});
        let done = injected(&json!({"metadata": {"annotations": annotations}, "spec": {"containers": list}}));
        let words =
            done.value["spec"]["containers"].as_array().unwrap().iter().find_map(|own| own.pointer(at)).unwrap();
        let words: Vec<String> = serde_json::from_value(words.clone()).unwrap();
        let line = AgentCommand::parse(&words).expect("a command line of the agent");
        line.values(flag)
            .first()
            .map(|url| (*url).to_owned())
            .or_else(|| words.iter().any(|word| word == flag).then(String::new))
    };
    [
        check("post-start", container("db", "readinessProbe"), "/lifecycle/postStart/exec/command", "--fallback-check"),
        check("entrypoint", container("api", "startupProbe"), "/startupProbe/exec/command", "--check"),
        check("entrypoint", container("api", "startupProbe"), "/startupProbe/exec/command", "--sidecar-check"),
    ]
}

/// Behind a gate, the sidecar runs all probes except `exec` probes.
#[test]
fn agent_runs_the_probes_that_it_supports() {
    for (probe, url) in [
        (json!({"httpGet": {"port": "web", "path": "/x?y=1"}}), Some("http://:8080/x?y=1")),
        (json!({"httpGet": {"port": 80, "path": "x", "scheme": ""}}), Some("http://:80/x")),
        (json!({"httpGet": {"port": 80, "host": "::1", "scheme": "HTTP"}}), Some("http://[::1]:80/")),
        (json!({"httpGet": {"port": 80, "path": "/ä b"}}), Some("http://:80/%C3%A4%20b")),
        (
            json!({"httpGet": {"port": "web", "httpHeaders": [{"name": "Host", "value": "x"}]}}),
            Some(r#"http://:8080/ ["Host: x"]"#),
        ),
        (json!({"tcpSocket": {"port": "5432", "host": "localhost"}}), Some("tcp://localhost:5432")),
        (json!({"httpGet": {"port": "web", "scheme": "HTTPS"}}), None),
        (json!({"httpGet": {"port": "web", "host": "a b"}}), None),
        (json!({"grpc": {"port": 8080}}), None),
    ] {
        assert_eq!(checks_for(&probe), [url.map(str::to_owned), None, Some(String::new())], "{probe}");
    }
    let check = Some(r#"exec:["pg_isready","-q"]"#.to_owned());
    assert_eq!(checks_for(&json!({"exec": {"command": ["pg_isready", "-q"]}})), [check.clone(), check, None]);
    assert_eq!(checks_for(&json!({"exec": {"command": []}})), [None, None, None]);
}

/// The agent counts the failures of an `exec` startupProbe, and the sidecar those of other probes.
#[test]
fn startup_probe_behind_a_gate_keeps_its_times() {
    let own = |action: Value| {
        let mut probe =
            json!({"initialDelaySeconds": 20, "timeoutSeconds": 5, "periodSeconds": 1, "failureThreshold": 9});
        probe.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
        probe
    };
    let inject = |probe: Option<Value>| {
        let db = json!({"name": "db", "image": "x", "command": ["x"], "readinessProbe": {"tcpSocket": {"port": 1}}});
        let api = json!({"name": "api", "image": "x", "command": ["x"], "startupProbe": probe});
        let template =
            json!({"metadata": {"annotations": {"podgate.io/order": "db, api"}}, "spec": {"containers": [db, api]}});
        injected(&template).value["spec"]["containers"][1]["startupProbe"].clone()
    };
    let opened = ["/podgate/bin/podgate", "opened", "--wait"];
    let flags = [
        "--check",
        "exec:[\"up\"]",
        "--check-timeout",
        "5s",
        "--check-delay",
        "20s",
        "--check-period",
        "1s",
        "--failure-threshold",
        "9",
    ];
    let limit = 300 + 5 + 20 + 9 * (1 + 5) + 30;
    let expected = |flags: &[&str]| {
        let command = [&opened[..], flags].concat();
        json!({"exec": {"command": command}, "periodSeconds": 1, "timeoutSeconds": limit})
    };
    assert_eq!(inject(Some(own(json!({"exec": {"command": ["up"]}})))), expected(&flags));
    assert_eq!(inject(Some(own(json!({"tcpSocket": {"port": 1}})))), expected(&["--sidecar-check"]));
    assert_eq!(inject(None), json!({"exec": {"command": opened}, "periodSeconds": 1, "timeoutSeconds": 305}));
}

/// A ready check replaces the probes in the sidecar's list, except a startupProbe that the sidecar runs for the gate.
#[test]
fn sidecar_runs_the_startup_probe_beside_a_ready_check() {
    let probes = [
        (json!({"grpc": {"port": 8080}}), true),
        (json!({"tcpSocket": {"port": 8080}}), true),
        (json!({"exec": {"command": ["up"]}}), false),
    ];
    for (probe, listed) in probes {
        let annotations = json!({"podgate.io/order": "db, api, web", "ready.podgate.io/api": "tcp://127.0.0.1:9000"});
        let container = |name| json!({"name": name, "image": "x", "command": ["x"]});
        let mut api = container("api");
        api["startupProbe"] = probe;
        let spec = json!({"containers": [container("db"), api, container("web")]});
        let done = injected(&json!({"metadata": {"annotations": annotations}, "spec": spec}));
        let sidecar = done.value["spec"]["initContainers"][0]["env"].as_array().unwrap();
        let list = sidecar.iter().find(|own| own["name"] == "PODGATE_CONTAINERS").unwrap()["value"].as_str().unwrap();
        let list: Value = serde_json::from_str(list).unwrap();
        assert_eq!(list[1].get("startupProbe").is_some(), listed, "{list}");
        assert_eq!(list[1]["readinessProbe"]["tcpSocket"]["port"], 9000, "{list}");
    }
}

#[test]
fn exec_readiness_probe_is_wrapped_without_a_gate() {
    let probe = |more: Value| {
        let mut probe = json!({"exec": {"command": ["pg_isready", "-q"]}, "periodSeconds": 10});
        probe.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        probe
    };
    let inject = |annotations: Value, db: Value| {
        let api = json!({"name": "api", "image": "x"});
        let template = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [db, api]}});
        injected(&template).value["spec"]["containers"][0]["readinessProbe"].clone()
    };
    let db = |probe: &Value| json!({"name": "db", "image": "x", "readinessProbe": probe});
    let order = json!({"podgate.io/order": "db, api"});
    for (more, flags, limit) in [
        (json!({}), &[][..], 306),
        (json!({"timeoutSeconds": 1, "failureThreshold": 9}), &[], 306),
        (json!({"timeoutSeconds": 7}), &["--check-timeout", "7s"], 312),
        (json!({"initialDelaySeconds": 20}), &["--initial-delay", "20s"], 306),
        (json!({"successThreshold": 3}), &["--passing-for", "20s"], 326),
        (json!({"initialDelaySeconds": 0, "timeoutSeconds": 0, "failureThreshold": null}), &[], 306),
    ] {
        let probe = probe(more);
        let mut expected = probe.clone();
        let line = ["/podgate/bin/podgate", "probe", "--container", "db"].iter().chain(flags);
        expected["exec"]["command"] = line.chain(&["--", "pg_isready", "-q"]).copied().collect();
        expected["timeoutSeconds"] = limit.into();
        if probe["initialDelaySeconds"] != Value::Null {
            expected["initialDelaySeconds"] = 0.into();
        }
        assert_eq!(inject(order.clone(), db(&probe)), expected);
    }
    // A known command changes nothing: the container waits for nothing, so it gets no gate.
    let known = json!({"name": "db", "image": "x", "command": ["x"], "readinessProbe": probe(json!({}))});
    assert_eq!(inject(order.clone(), known)["exec"]["command"][1], "probe");
    // These probes are not wrapped: podgate runs another check itself, or no container waits for the result.
    let checked = json!({"podgate.io/order": "db, api", "ready.podgate.io/db": "tcp://127.0.0.1:5432"});
    let started = json!({"podgate.io/order": "db=Started, api"});
    for annotations in [checked, started] {
        assert_eq!(inject(annotations, db(&probe(json!({})))), probe(json!({})));
    }
    let http = json!({"httpGet": {"port": 80}});
    assert_eq!(inject(order, db(&http)), http);
}

/// Returns the agent's line at the JSON pointer `at` in the container `name`.
fn line_of(template: &Value, name: &str, at: &str) -> Vec<String> {
    let done = injected(template).value;
    let container = done["spec"]["containers"].as_array().unwrap().iter().find(|own| own["name"] == name).unwrap();
    serde_json::from_value(container.pointer(at).unwrap_or_else(|| panic!("{container}")).clone()).unwrap()
}

/// Without a shell, only the kubelet expands variables in the command of a probe. A value can contain any character.
#[test]
fn values_of_variables_in_exec_probes_are_written_into_the_check() {
    let probe = |word: &str| json!({"exec": {"command": ["ping", word]}});
    let container = |name: &str| {
        let env = json!([{"name": "X", "value": "\"\\\n$(Y)$$"}, {"name": "Y", "valueFrom": {}}, {"name": "Y", "value": "y"}]);
        json!({"name": name, "image": "x", "command": ["x"], "env": env, "envFrom": [{"configMapRef": {"name": "z"}}],
            "startupProbe": probe("$(Y)"), "readinessProbe": probe("$(X) $(Z) $$")})
    };
    let ping = |word: &str| format!("exec:{}", json!(["ping", word]));
    let (startup, readiness) = (ping("y"), ping("\"\\\n$(Y)$$ $(Z) $"));
    for (mode, at, flag, escape) in [
        ("entrypoint", "/command", "--ready-check", true),
        ("post-start", "/lifecycle/postStart/exec/command", "--check", false),
    ] {
        let annotations = json!({"podgate.io/order": "db, api, web", "podgate.io/mode": mode});
        let list = [container("db"), container("api"), container("web")];
        let template = json!({"metadata": {"annotations": annotations}, "spec": {"containers": list}});
        let line = line_of(&template, "api", at);
        let checks = AgentCommand::parse(&line).unwrap();
        let readiness = if escape { readiness.replace('$', "$$") } else { readiness.clone() };
        assert_eq!(checks.values(flag), [&startup, &readiness], "{mode}");
        if mode == "entrypoint" {
            let opened = line_of(&template, "api", "/startupProbe/exec/command");
            assert_eq!(AgentCommand::parse(&opened).unwrap().values("--check"), [&startup]);
        }
    }
}

/// A gate needs no startupProbe if the kubelet's only other probe is sure to fail while the gate waits.
#[test]
fn gate_has_a_startup_probe_unless_the_readiness_probe_fails_during_the_wait() {
    let (http, exec) = (json!({"httpGet": {"port": 80}}), json!({"exec": {"command": ["x"]}}));
    let plain = json!({"readinessProbe": http, "ports": [{"containerPort": 80}]});
    let other_port = json!({"containerPort": 81});
    let cases = [
        // Fields of `api`, of `db` and of the Pod, and whether the gate of `api` needs the startupProbe.
        (plain.clone(), json!({}), json!({}), false),
        (json!({"readinessProbe": {"tcpSocket": {"port": 80}}}), json!({}), json!({}), true),
        (json!({"readinessProbe": {"grpc": {"port": 80}}}), json!({"ports": [other_port]}), json!({}), false),
        (json!({}), json!({}), json!({}), true),
        (json!({"readinessProbe": exec}), json!({}), json!({}), true),
        (json!({"readinessProbe": http, "livenessProbe": http}), json!({}), json!({}), true),
        (json!({"readinessProbe": http, "livenessProbe": exec}), json!({}), json!({}), true),
        (json!({"readinessProbe": http, "startupProbe": http}), json!({}), json!({}), true),
        (json!({"readinessProbe": {"httpGet": {"port": 80, "host": "10.0.0.1"}}}), json!({}), json!({}), true),
        (json!({"readinessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 5}}), json!({}), json!({}), true),
        (plain.clone(), json!({"ports": [{"containerPort": 80}]}), json!({}), true),
        (plain.clone(), json!({"livenessProbe": http}), json!({}), true),
        (plain, json!({}), json!({"hostNetwork": true}), true),
    ];
    for (api, db, pod, needed) in cases {
        for annotations in [
            json!({"podgate.io/order": "db, api"}),
            json!({"podgate.io/order": "db, api", "podgate.io/sidecar": "none"}),
        ] {
            let container = |name: &str, more: &Value| {
                let mut own = json!({"name": name, "image": "x", "command": ["x"]});
                own.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                own
            };
            let mut db = container("db", &db);
            db["readinessProbe"] = json!({"tcpSocket": {"port": 5432}});
            let mut template = json!({"metadata": {"annotations": annotations}, "spec": pod});
            template["spec"]["containers"] = json!([db, container("api", &api)]);
            let written = injected(&template).value;
            let probe = &written["spec"]["containers"][1]["startupProbe"];
            assert_eq!(probe["exec"].is_object(), needed, "{template}");
        }
    }
}

#[test]
fn delays_and_thresholds_of_probes_count_from_the_opening_of_the_gate() {
    let http = |more: Value| {
        let mut probe = json!({"httpGet": {"port": 80}});
        probe.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        probe
    };
    let exec = |more: Value| {
        let mut probe = json!({"exec": {"command": ["x"]}});
        probe.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        probe
    };
    let none = Value::Null;
    // The probes of `api` and `web`, whether another container waits, and the flags of the gate and its startupProbe.
    for (readiness, liveness, is_waited_for, gate, opened, limit) in [
        (http(json!({})), http(json!({"initialDelaySeconds": 90})), true, &[][..], &["1m30s"][..], 395),
        (http(json!({"initialDelaySeconds": 7})), none.clone(), false, &[], &["7s"], 312),
        (exec(json!({"initialDelaySeconds": 7})), http(json!({"initialDelaySeconds": 9})), true, &["7s"], &["9s"], 314),
        // Nobody runs this exec probe but the kubelet, so podgate does not know when the container is Ready.
        (exec(json!({"initialDelaySeconds": 7})), http(json!({"initialDelaySeconds": 9})), false, &[], &["7s"], 312),
        (none, http(json!({"initialDelaySeconds": 9})), true, &[], &[], 305),
        (http(json!({})), http(json!({})), true, &[], &[], 305),
    ] {
        let mut api = json!({"name": "api", "image": "x", "command": ["x"]});
        for (field, probe) in [("readinessProbe", &readiness), ("livenessProbe", &liveness)] {
            if !probe.is_null() {
                api[field] = probe.clone();
            }
        }
        let other = |name: &str| json!({"name": name, "image": "x", "command": ["x"]});
        let order = if is_waited_for { "db, api, web" } else { "db, api" };
        let mut list = vec![other("db"), api];
        list.extend(is_waited_for.then(|| other("web")));
        let template = json!({"metadata": {"annotations": {"podgate.io/order": order}}, "spec": {"containers": list}});
        let line = |at: &str| AgentCommand::parse(&line_of(&template, "api", at)).unwrap();
        let found = (line("/command"), line("/startupProbe/exec/command"));
        let delays = (found.0.values("--initial-delay"), found.1.values("--initial-delay"));
        assert_eq!(delays, (gate.to_vec(), opened.to_vec()), "{template}");
        let written = injected(&template).value;
        assert_eq!(written["spec"]["containers"][1]["startupProbe"]["timeoutSeconds"], limit, "{template}");
    }
}
