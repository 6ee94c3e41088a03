use podgate::order::finding::{Finding, Level};
use podgate::order::lint::forecast::Forecast;
use podgate::order::lint::native::NativeSidecar;
use podgate::order::lint::{Target, Version, check_handwritten, check_planned, check_sidecar_position, rules};
use podgate::order::plan::{KnownFacts, plan};
use serde_json::{Value, json};

/// Returns a Pod whose containers have a command, a probe and the given additional fields.
pub(super) fn pod(order: &str, containers: &[(&str, Value)]) -> Value {
    let list: Vec<Value> = containers
        .iter()
        .zip(1..)
        .map(|((name, more), port)| {
            let probe = json!({"tcpSocket": {"port": port}});
            let mut container = json!({"name": name, "command": ["run"], "readinessProbe": probe});
            for (key, value) in more.as_object().unwrap() {
                container[key] = value.clone();
            }
            container
        })
        .collect();
    json!({"metadata": {"annotations": {"podgate.io/order": order}}, "spec": {"containers": list}})
}

fn three_containers() -> Value {
    pod("db, api, web", &[("db", json!({})), ("api", json!({})), ("web", json!({}))])
}

pub(super) fn findings_of(pod: &Value, target: Target<'_>) -> Vec<Finding> {
    let plan = plan(pod, &KnownFacts::default()).unwrap_or_else(|findings| panic!("{findings:#?}"));
    let mut findings = plan.findings.clone();
    findings.extend(check_planned(pod, &plan, target).findings);
    findings.retain(|finding| finding.rule != "native-would-do");
    findings
}

fn rule_names(pod: &Value) -> Vec<&'static str> {
    findings_of(pod, Target::default()).iter().map(|finding| finding.rule).collect()
}

fn only_finding(pod: &Value, target: Target<'_>) -> Finding {
    let findings = findings_of(pod, target);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.into_iter().next().unwrap()
}

#[test]
fn correct_template_has_no_findings() {
    assert_eq!(rule_names(&three_containers()), [] as [&str; 0]);
    let nothing = json!({"spec": {"containers": [{"name": "a"}], "hostNetwork": true}});
    assert_eq!(rule_names(&nothing), [] as [&str; 0]);
}

#[test]
fn waiting_for_a_container_without_a_probe_warns() {
    let mut pod = three_containers();
    pod["spec"]["containers"][0]["readinessProbe"] = Value::Null;
    let finding = only_finding(&pod, Target::default());
    assert_eq!((finding.rule, finding.level), ("no-readiness-probe", Level::Warning));
    assert!(
        finding.message.starts_with("api, web wait until db is Ready") && !finding.fix.contains("Completed"),
        "{finding}"
    );
    assert_eq!(finding.fix, "add a readinessProbe, or ready.podgate.io/db: tcp://127.0.0.1:PORT");
    pod["spec"]["restartPolicy"] = json!("Never");
    assert!(only_finding(&pod, Target::default()).fix.contains("write db=Completed"));
    pod["metadata"]["annotations"]["podgate.io/order"] = json!("db=Started, api, web");
    assert!(rule_names(&pod).is_empty());
}

#[test]
fn probe_of_a_later_containers_port_warns() {
    let with = |probe: Value, order: &str| {
        pod(
            order,
            &[
                ("db", json!({"readinessProbe": probe, "ports": [{"containerPort": 5432}]})),
                ("api", json!({"ports": [{"containerPort": 8080}]})),
            ],
        )
    };
    for probe in [
        json!({"tcpSocket": {"port": 8080}}),
        json!({"httpGet": {"port": "8080", "host": "localhost"}}),
        json!({"grpc": {"port": 8080}}),
        json!({"exec": {"command": ["sh", "-c", "curl -f http://localhost:8080/x"]}}),
    ] {
        let finding = only_finding(&with(probe.clone(), "db, api"), Target::default());
        assert_eq!(finding.rule, "readiness-needs-later", "{probe}");
        assert_eq!(finding.at.to_string(), "spec.containers[0].readinessProbe");
        assert!(finding.message.contains("port 8080 of api"), "{finding}");
        // There is no error if the order is reversed, or if api does not wait for the probe.
        for order in ["api, db", "db=Started, api"] {
            assert_eq!(rule_names(&with(probe.clone(), order)), [] as [&str; 0], "{order}");
        }
    }
    for probe in [
        json!({"tcpSocket": {"port": 5432}}),
        json!({"tcpSocket": {"port": 8080, "host": "elsewhere.example"}}),
        json!({"exec": {"command": ["curl", "http://localhost:80801"]}}),
        json!({"newKind": {}}),
    ] {
        assert_eq!(rule_names(&with(probe.clone(), "db, api")), [] as [&str; 0], "{probe}");
    }
}

#[test]
fn init_container_that_waits_for_a_regular_one_warns() {
    let with = |script: &str| {
        let mut pod = pod("db, api", &[("db", json!({"ports": [{"containerPort": 5432}]})), ("api", json!({}))]);
        pod["spec"]["initContainers"] = json!([{"name": "wait", "image": "x", "command": ["sh", "-c", script]}]);
        rule_names(&pod)
    };
    assert_eq!(with("until nc -z localhost:5432; do sleep 1; done"), ["readiness-needs-later"]);
    assert_eq!(with("until nc -z db.shop:5432; do sleep 1; done"), [] as [&str; 0]);
}

#[test]
fn liveness_probe_that_a_later_container_answers_warns() {
    let with = |order: &str, liveness: Value| {
        let ports = |port: u16| json!([{"containerPort": port}]);
        let db = json!({"livenessProbe": liveness, "ports": ports(5432)});
        rule_names(&pod(order, &[("db", db), ("health", json!({"ports": ports(9141)}))]))
    };
    let later = json!({"httpGet": {"port": 9141}});
    assert_eq!(with("db, health", later.clone()), ["liveness-kills"]);
    for (order, liveness) in [("health, db", later.clone()), ("db=Started, health", later), ("db, health", json!(null))]
    {
        assert_eq!(with(order, liveness.clone()), [] as [&str; 0], "{order} {liveness}");
    }
}

/// The main program of a Pod belongs in `containers`, whatever waits for it.
#[test]
fn native_sidecars_are_advised_for_helpers_only() {
    let advice = |before: (&str, &str), more: Value| {
        let mut pod = pod(&format!("{}, app", before.0), &[(before.0, more), ("app", json!({}))]);
        pod["spec"]["containers"][0]["image"] = before.1.into();
        let plan = plan(&pod, &KnownFacts::default()).unwrap();
        let findings = check_planned(&pod, &plan, Target::default()).findings;
        findings.into_iter().find(|finding| finding.rule == "native-would-do").map(|finding| finding.fix)
    };
    let fix = advice(("mesh", "example/auth-proxy:1"), json!({})).unwrap();
    assert!(fix.starts_with("move mesh to initContainers, with these fields; mesh: restartPolicy: Always"), "{fix}");
    assert!(advice(("db", "postgres:17"), json!({})).is_none());
    assert!(advice(("haproxy", "haproxy:3"), json!({"ports": [{"containerPort": 80}]})).is_none());
}

#[test]
fn slow_pre_stop_hooks_warn() {
    let with = |at: usize, hook: Value| {
        let mut pod = three_containers();
        pod["metadata"]["annotations"]["podgate.io/stop-order"] = json!("reverse");
        pod["spec"]["containers"][at]["lifecycle"] = json!({"preStop": hook});
        pod
    };
    for (at, hook, expected) in [
        (0, json!({"sleep": {"seconds": 26}}), Some("db takes 26s, but it has at most 25s")),
        (0, json!({"sleep": {"seconds": 5}}), None),
        (1, json!({"exec": {"command": ["sleep", "22"]}}), Some("api takes 22s, but it has at most 20s")),
        (
            2,
            json!({"exec": {"command": ["sh", "-c", "sleep 21; true"]}}),
            Some("web takes 21s, but api waits for this container for at most 20s"),
        ),
        (2, json!({"exec": {"command": ["sh", "-c", "drain"]}}), None),
    ] {
        let findings = findings_of(&with(at, hook.clone()), Target::default());
        let message =
            findings.iter().find(|finding| finding.rule == "pre-stop-too-long").map(|finding| finding.message.as_str());
        assert!(
            message.is_some() == expected.is_some()
                && message.unwrap_or_default().contains(expected.unwrap_or_default()),
            "{message:?}"
        );
    }
}

#[test]
fn environment_rules_fire_where_they_apply() {
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut pod = three_containers();
        edit(&mut pod);
        rule_names(&pod)
    };
    let on_host = |pod: &mut Value| pod["spec"]["hostNetwork"] = json!(true);
    assert_eq!(with(&on_host), ["host-network"]);
    let on_host_with = |probe: Value| {
        with(&|pod: &mut Value| {
            on_host(pod);
            (0..2).for_each(|at| pod["spec"]["containers"][at]["readinessProbe"] = probe.clone());
        })
    };
    // The last container still has a network probe, but no container waits for it.
    assert_eq!(on_host_with(json!({"exec": {"command": ["true"]}})), [] as [&str; 0]);
    assert_eq!(on_host_with(json!({"grpc": {"port": 1}})), ["host-network"]);
    let init = |pod: &mut Value| pod["spec"]["containers"][1]["command"] = json!(["/init"]);
    assert_eq!(with(&init), [] as [&str; 0], "podgate is not the parent process");
    let exec = |pod: &mut Value| {
        init(pod);
        pod["spec"]["containers"][1]["readinessProbe"] = json!({"exec": {"command": ["true"]}});
    };
    assert_eq!(with(&exec), ["needs-process-1"]);
    for program in ["/sbin/init", "/usr/sbin/init", "/lib/systemd/systemd", "/usr/lib/systemd/systemd"] {
        let init = |pod: &mut Value| {
            exec(pod);
            pod["spec"]["containers"][1]["command"] = json!([program]);
        };
        assert_eq!(with(&init), ["needs-process-1"], "{program}");
    }
    assert_eq!(with(&|pod| pod["spec"]["activeDeadlineSeconds"] = json!(300)), ["deadline-too-short"]);
    assert_eq!(with(&|pod| pod["spec"]["activeDeadlineSeconds"] = json!(301)), [] as [&str; 0]);
    assert_eq!(
        with(&|pod| {
            pod["metadata"]["annotations"]["podgate.io/mode"] = json!("post-start");
            pod["spec"]["shareProcessNamespace"] = json!(true);
            pod["metadata"]["annotations"]["podgate.io/publish"] = json!("none");
            pod["metadata"]["annotations"]["podgate.io/stop-order"] = json!("reverse");
        }),
        ["short-grace", "shared-processes", "hook-holds-deletion"]
    );
}

#[test]
fn held_container_without_the_api_may_be_late_unless_all_probes_are_wrapped() {
    let with = |db: Value, cache: Value, publish: &str| {
        let exec = |probe: Value| json!({"command": null, "readinessProbe": probe});
        let mut pod =
            pod("db & cache, api", &[("db", exec(db)), ("cache", exec(cache)), ("api", json!({"command": null}))]);
        pod["metadata"]["annotations"]["podgate.io/publish"] = json!(publish);
        findings_of(&pod, Target::default()).into_iter().filter(|finding| finding.rule == "hold-may-be-late").collect()
    };
    let (exec, tcp) = (json!({"exec": {"command": ["true"]}}), json!({"tcpSocket": {"port": 1}}));
    let without = |db: &Value, cache: &Value| -> Vec<Finding> { with(db.clone(), cache.clone(), "none") };
    let found: Vec<Finding> = without(&exec, &tcp);
    assert!(found[0].message.starts_with("api may start up to 90 s late") && found.len() == 1, "{found:?}");
    assert!(found[0].message.contains("cache=Ready is met"), "{found:?}");
    assert_eq!((without(&exec, &exec), with(exec, tcp, "api")), (vec![], vec![]));
}

#[test]
fn short_progress_deadline_warns() {
    let mut pod = three_containers();
    pod["metadata"]["annotations"]["podgate.io/timeout"] = json!("10m");
    let with = |workload: Value| findings_of(&pod, Target { workload: Some(&workload), ..Target::default() });
    let findings = with(json!({"strategy": {}}));
    assert!(findings[0].rule == "deadline-too-short" && findings[0].message.contains("after 10m"), "{findings:#?}");
    assert!(findings.len() == 1 && with(json!({"strategy": {}, "progressDeadlineSeconds": 601})).is_empty());
    assert!(with(json!({"serviceName": "x"})).is_empty());
}

#[test]
fn old_kubernetes_versions_are_rejected() {
    assert_eq!("v1.34.4-gke.1".parse::<Version>(), "1.34".parse());
    for bad in ["", "one", "1", "1.x", "latest", "1.33", "0.40"] {
        assert!(bad.parse::<Version>().is_err(), "{bad}");
    }
}

#[test]
fn startup_probe_of_a_native_sidecar_is_reported_where_kubelets_mishandle_it() {
    let at = |version: &str| Target { kubernetes: Some(version.parse().unwrap()), ..Target::default() };
    let proxy = |probe: &str| json!([{"name": "proxy", "image": "i", "restartPolicy": "Always", probe: {"tcpSocket": {"port": 15021}}}]);
    let mut pod = three_containers();
    pod["spec"]["initContainers"] = proxy("startupProbe");
    assert!(only_finding(&pod, at("1.35")).message.contains("before 1.35.4"));
    assert!(findings_of(&pod, at("1.34")).is_empty() && findings_of(&pod, Target::default()).is_empty());
    pod["spec"]["restartPolicy"] = json!("Never");
    assert!(only_finding(&pod, at("1.34")).message.contains("kubernetes#132826"));
    assert!(findings_of(&pod, at("1.36")).is_empty());
    pod["spec"]["initContainers"] = proxy("readinessProbe");
    assert!(findings_of(&pod, at("1.34")).is_empty());
}

#[test]
fn forecast_shows_parallel_steps_and_the_longest_wait() {
    let of = |template: &Value| Forecast::of(&plan(template, &KnownFacts::default()).unwrap());
    let mut diamond =
        pod("db, api & cache, web", &[("web", json!({})), ("cache", json!({})), ("api", json!({})), ("db", json!({}))]);
    diamond["metadata"]["annotations"]["podgate.io/stop-order"] = json!("reverse");
    let forecast = of(&diamond);
    assert_eq!(forecast.start_steps, [vec!["db"], vec!["cache", "api"], vec!["web"]]);
    assert_eq!(forecast.stop_steps, [vec!["web"], vec!["cache", "api"], vec!["db"]]);
    assert_eq!(forecast.longest_wait.as_secs(), 300, "gates wait in parallel");
    diamond["metadata"]["annotations"]["podgate.io/mode"] = json!("post-start");
    diamond["metadata"]["annotations"]["podgate.io/timeout"] = json!("1m");
    let forecast = of(&diamond);
    assert_eq!(forecast.start_steps, [["db"], ["cache"], ["api"], ["web"]], "hooks wait one after another");
    assert_eq!(forecast.longest_wait.as_secs(), 180);
    let nothing = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
    assert_eq!(
        of(&nothing),
        Forecast {
            start_steps: vec![vec!["a".into(), "b".into()]],
            stop_steps: vec![],
            longest_wait: Default::default()
        }
    );
}

#[test]
fn native_sidecars_are_advised_for_simple_chains() {
    let advice_for = |pod: &Value, kubernetes: Option<&str>| {
        let target = Target { kubernetes: kubernetes.map(|version| version.parse().unwrap()), ..Target::default() };
        check_planned(pod, &plan(pod, &KnownFacts::default()).unwrap(), target).native_advice
    };
    let advice = |pod: &Value| advice_for(pod, None);
    let mut proxied = pod("proxy, app", &[("app", json!({})), ("proxy", json!({})), ("log", json!({}))]);
    let found = advice(&proxied).unwrap();
    let probe = json!({"tcpSocket": {"port": 2}, "periodSeconds": 1, "failureThreshold": 300, "successThreshold": 1});
    assert_eq!(found, [NativeSidecar { name: "proxy".to_owned(), startup_probe: probe }]);

    let two =
        pod("mesh-proxy, log-agent, app", &[("mesh-proxy", json!({})), ("log-agent", json!({})), ("app", json!({}))]);
    assert_eq!(advice(&two).map(|found| found.len()), Some(2));
    proxied["spec"]["containers"][1]["readinessProbe"] = Value::Null;
    assert_eq!(advice(&proxied), None, "proxy has no probe to use as startupProbe");
    for order in ["proxy & log, app", "proxy=Started, app", "proxy, app & log"] {
        let pod = pod(order, &[("app", json!({})), ("proxy", json!({})), ("log", json!({}))]);
        assert_eq!(advice(&pod), None, "{order}");
    }
    let mut job = pod("proxy, app", &[("app", json!({})), ("proxy", json!({}))]);
    job["spec"]["restartPolicy"] = json!("Never");
    assert_eq!(advice(&job), None, "proxy may run to completion");
    job["metadata"]["annotations"]["podgate.io/job-sidecars"] = json!("proxy");
    // On 1.34 and 1.35, the rule native-startup warns of the startupProbe of a native sidecar.
    for (version, is_advised) in [(None, true), (Some("1.34"), false), (Some("1.35"), false), (Some("1.36"), true)] {
        assert_eq!(advice_for(&job, version).is_some(), is_advised, "{version:?}");
    }
    assert!(advice_for(&two, Some("1.34")).is_some());
}

#[test]
fn handwritten_commands_are_checked() {
    let pod = |db: Value, api: Value| json!({"spec": {"terminationGracePeriodSeconds": 25, "containers": [db, api]}});
    let gate = |name: &str, until: &str| {
        json!({"name": name, "command": ["/podgate/bin/podgate", "entrypoint", "--until", until, "--"], "args": ["x"],
               "volumeMounts": [{"name": "podgate-board", "mountPath": "/podgate"}]})
    };
    let names = |pod: &Value| check_handwritten(pod).unwrap().0.iter().map(|finding| finding.rule).collect::<Vec<_>>();
    assert!(names(&pod(json!({"name": "db"}), gate("api", "db"))).is_empty());
    assert_eq!(names(&pod(json!({"name": "db"}), gate("api", "bd"))), ["unknown-container"]);
    assert_eq!(names(&pod(gate("db", "api"), gate("api", "db"))), ["order-broken"]);
    let mut killed = gate("api", "db");
    killed["livenessProbe"] = json!({"tcpSocket": {"port": 1}});
    assert_eq!(names(&pod(json!({"name": "db"}), killed)), ["liveness-kills"]);
    let hook = json!({"name": "api", "lifecycle": {"postStart": {"exec": {"command": ["podgate", "post-start", "--container", "db"]}}}});
    assert_eq!(names(&pod(gate("db", "api"), hook)), ["unknown-container", "hook-without-effect", "order-broken"]);
    assert_eq!(check_handwritten(&pod(json!({"name": "db"}), json!({"name": "api"}))), None);
}

/// Returns a Pod in which the kubelet holds `api`.
fn held_pod(api: Value) -> Value {
    let mut api = api;
    api["command"] = Value::Null;
    pod("db, api", &[("db", json!({})), ("api", api)])
}

#[test]
fn rules_of_hold_mode_fire_where_they_apply() {
    let of = |api: Value| rule_names(&held_pod(api));
    assert_eq!(of(json!({})), [] as [&str; 0]);
    for (image, policy, pulls) in [
        ("api:1", Value::Null, false),
        ("api:1", json!("Always"), true),
        ("localhost:5000/api", Value::Null, true),
        ("api:latest", Value::Null, true),
        ("api:latest", json!("IfNotPresent"), false),
        ("api:latest@sha256:1", Value::Null, false),
    ] {
        let found = of(json!({"image": image, "imagePullPolicy": policy}));
        assert_eq!(found, ["hold-pulls"].repeat(usize::from(pulls)), "{image} {policy}");
    }
    assert_eq!(of(json!({"resources": {"limits": {"cpu": 1, "nvidia.com/gpu": 1}}})), ["hold-device"]);
    assert_eq!(of(json!({"resources": {"limits": {"cpu": 1, "hugepages-2Mi": "2Mi"}}})), [] as [&str; 0]);
    for (field, key, fires) in [
        ("labels", "tekton.dev/taskRun", true),
        ("annotations", "job.runner.gitlab.com/id", true),
        ("labels", "airflow_version", true),
        ("labels", "dag_id", false),
        ("labels", "execution-id", false),
    ] {
        let mut pod = held_pod(json!({}));
        pod["metadata"][field][key] = json!("x");
        assert_eq!(rule_names(&pod), ["hold-fails-workflow"].repeat(usize::from(fires)), "{key}");
        pod["spec"]["containers"][1]["command"] = json!(["x"]);
        assert_eq!(rule_names(&pod), [] as [&str; 0], "{key}");
    }
}

#[test]
fn held_container_needs_a_deadline_in_a_pod_that_ends() {
    let job = |pod: &Value, spec: Value| findings_of(pod, Target { workload: Some(&spec), ..Target::default() }).len();
    for policy in ["Never", "OnFailure"] {
        let mut pod = held_pod(json!({}));
        pod["spec"]["restartPolicy"] = json!(policy);
        let finding = only_finding(&pod, Target::default());
        assert_eq!((finding.rule, finding.level), ("hold-without-deadline", Level::Error));
        // The Pod does not show the deadline of its Job.
        let mut owned = pod.clone();
        owned["metadata"]["ownerReferences"] = json!([{"kind": "Job", "name": "x", "controller": true}]);
        // When the webhook gets a Pod, it has no uid.
        assert!(rule_names(&owned).contains(&"hold-without-deadline"));
        owned["metadata"]["uid"] = json!("0");
        assert!(!rule_names(&owned).contains(&"hold-without-deadline"));
        // Without a readinessProbe, db may be a program that ends.
        pod["spec"]["containers"][0]["readinessProbe"] = Value::Null;
        pod["spec"]["containers"][0]["startupProbe"] = json!({"tcpSocket": {"port": 1}});
        assert_eq!(job(&pod, json!({"backoffLimit": 1})), 1);
        assert_eq!(job(&pod, json!({"activeDeadlineSeconds": 3600})), 0);
        pod["metadata"]["annotations"]["podgate.io/on-timeout"] = json!("continue");
        assert_eq!(job(&pod, json!({})), 0);
    }
}

#[test]
fn states_that_only_the_kubelet_knows_give_a_note() {
    let wrapped = json!({"command": null, "readinessProbe": {"exec": {"command": ["true"]}}});
    let exec = json!({"command": null, "startupProbe": {"exec": {"command": ["true"]}}});
    let chain = |order: &str, db: &Value| rule_names(&pod(order, &[("db", db.clone()), ("api", json!({}))]));
    assert_eq!(chain("db, api", &exec), ["known-by-kubelet"]);
    assert_eq!(chain("db, api", &wrapped), [] as [&str; 0]);
    assert_eq!(chain("db=Started, api", &exec), [] as [&str; 0]);
    assert_eq!(chain("db=Exited, api", &json!({"command": null})), ["exit-not-final", "known-by-kubelet"]);
    assert_eq!(chain("db=Exited, api", &json!({})), ["exit-not-final"]);
}

#[test]
fn init_containers_before_the_sidecar_warn() {
    let of = |names: &[&str]| {
        let list: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        check_sidecar_position(&json!({"spec": {"initContainers": list}})).map(|finding| finding.to_string())
    };
    assert_eq!((of(&["podgate", "mesh"]), of(&["mesh"]), of(&[])), (None, None, None));
    let found = of(&["mesh", "podgate"]).unwrap();
    assert!(found.starts_with("spec.initContainers[1]: mesh comes before podgate's sidecar"), "{found}");
}

#[test]
fn rules_are_sorted_and_named_once() {
    assert!(rules::RULES.is_sorted_by(|a, b| a.name < b.name));
}
