mod properties;
mod states;
mod without_sidecar;

use podgate::core::container::Mode;
use podgate::order::declare::{Publish, annotation_place};
use podgate::order::edit::Place;
use podgate::order::finding::{Finding, Level};
use podgate::order::kubernetes_version::Version;
use podgate::order::plan::{ContainerPlan, ImageCommand, KnownFacts, Plan, plan};
use serde_json::{Value, json};

/// Returns a template with these annotations. Containers whose name ends in `!` have no command.
fn template(containers: &[&str], annotations: &[(&str, &str)]) -> Value {
    let list: Vec<Value> = containers
        .iter()
        .map(|name| match name.strip_suffix('!') {
            Some(name) => json!({"name": name, "image": "x"}),
            None => json!({"name": name, "image": "x", "command": ["/bin/run"], "args": [name]}),
        })
        .collect();
    let map: serde_json::Map<String, Value> =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({"metadata": {"annotations": map}, "spec": {"containers": list}})
}

fn plan_of(template: &Value) -> Plan {
    plan(template, &KnownFacts::default()).unwrap_or_else(|findings| panic!("{findings:#?}"))
}

fn needs_parent(planned: &ContainerPlan) -> bool {
    planned.entrypoint_gate().is_some_and(|gate| gate.needs_parent)
}

/// Formats each container as `name mode until`, in the order of the plan.
fn plan_summary(plan: &Plan) -> Vec<String> {
    let one = |p: &ContainerPlan| {
        let mode = match p.mode() {
            Mode::None => "none",
            Mode::PostStart => "post-start",
            Mode::Entrypoint => "entrypoint",
            Mode::Hold => "hold",
        };
        let until: Vec<String> = p.gate_or_hook_conditions().iter().map(ToString::to_string).collect();
        let reports = if p.reports_start { "reports" } else { "" };
        [&p.name, mode, &until.join(","), reports]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    };
    plan.containers.iter().map(one).collect()
}

fn plan_order(containers: &[&str], order: &str) -> Plan {
    plan_of(&template(containers, &[("podgate.io/order", order)]))
}

/// Plans `order` in post-start mode.
fn plan_hooks(containers: &[&str], order: &str) -> Plan {
    plan_of(&template(containers, &[("podgate.io/order", order), ("podgate.io/mode", "post-start")]))
}

fn plan_errors(template: &Value) -> Vec<Finding> {
    plan(template, &KnownFacts::default()).unwrap_err()
}

#[test]
fn containers_with_known_commands_get_gates() {
    let plan = plan_order(&["web", "api", "db"], "db, api, web");
    assert_eq!(plan_summary(&plan), ["web entrypoint db=Ready,api=Ready", "api entrypoint db=Ready", "db entrypoint"]);
    assert_eq!(plan.containers[0].entrypoint_gate().unwrap().command, ["/bin/run", "web"]);
    assert_eq!(plan.containers[0].mode_reason, "its command is known");
    assert!(plan.findings.is_empty(), "{:?}", plan.findings);
}

#[test]
fn each_step_waits_for_all_earlier_steps() {
    let after = ("after.podgate.io/web", "api");
    for (order, more, expected) in [
        ("db, cache & queue, api, web", &[][..], "db=Ready,cache=Ready,queue=Ready,api=Ready"),
        ("db=Started, api, web", &[], "db=Started,api=Ready"),
        // The step before `web` has already waited for `db` to exit, so `web` does not wait for `db`. A new run of `db`
        // does not delay `web`.
        ("db=Completed, api=Exited, web", &[], "api=Exited"),
        ("db=Completed, api, web", &[], "api=Ready"),
        ("db, api=Completed, web", &[], "db=Ready,api=Completed"),
        // `after` names direct predecessors only. Its condition on `db` replaces the order's condition on `db`.
        ("db, api", &[after], "api=Ready"),
        ("db, api, web", &[("after.podgate.io/web", "db=Completed")], "db=Completed,api=Ready"),
    ] {
        let annotations = [&[("podgate.io/order", order)], more].concat();
        let plan = plan_of(&template(&["db", "cache", "queue", "api", "web"], &annotations));
        let until: Vec<String> =
            plan.get("web").unwrap().gate_or_hook_conditions().iter().map(ToString::to_string).collect();
        assert_eq!(until.join(","), expected, "{annotations:?}");
    }
    // Only a restart of `api`, which is in the step directly before `web`, restarts the command of `web`.
    let restart = [("podgate.io/order", "db, api, web"), ("podgate.io/on-dependency-restart", "restart")];
    assert_eq!(plan_of(&template(&["db", "api", "web"], &restart)).get("web").unwrap().restarts_with(), ["api"]);
    // By default, there is no stop order.
    for (stop_order, outlives) in [("none", &[][..]), ("reverse", &["api", "web"]), ("web, api, db", &["api", "web"])] {
        let annotations = [("podgate.io/order", "db, api, web"), ("podgate.io/stop-order", stop_order)];
        let plan = plan_of(&template(&["db", "api", "web"], &annotations));
        assert_eq!(plan.get("db").unwrap().outlives, outlives, "{stop_order}");
    }
    assert_eq!(plan_order(&["db", "api"], "db, api").get("db").unwrap().outlives, [] as [&str; 0]);
}

#[test]
fn plan_matches_the_handwritten_manifests() {
    let reverse = [("podgate.io/order", "db, api, web"), ("podgate.io/stop-order", "reverse")];
    let plan = plan_of(&template(&["db", "api", "web"], &reverse));
    let outlives: Vec<_> = plan.containers.iter().map(|p| (p.outlives.join(","), p.pre_stop_limit.as_secs())).collect();
    assert_eq!(outlives, [("api,web".to_owned(), 25), ("web".to_owned(), 20), (String::new(), 0)]);
    let parents: Vec<bool> = plan.containers.iter().map(needs_parent).collect();
    assert_eq!(parents, [false; 3], "the tether shows the exit of each container");
    assert!(plan.containers.iter().all(|p| p.timeout.as_secs() == 300 && !p.continue_on_timeout));
    assert_eq!((plan.grace.as_secs(), plan.publish), (30, Publish::Api));
}

#[test]
fn kubelet_holds_containers_with_unknown_commands() {
    let reverse = [("podgate.io/order", "db, api, web"), ("podgate.io/stop-order", "reverse")];
    let plan = plan_of(&template(&["web!", "api", "db!"], &reverse));
    assert_eq!(plan_summary(&plan), ["web hold db=Ready,api=Ready", "api entrypoint db=Ready", "db none reports"]);
    let reasons: Vec<&str> = plan.containers.iter().map(|planned| planned.mode_reason.as_str()).collect();
    let reported = "it waits for nothing; podgate's postStart hook reports its start";
    assert_eq!(reasons, ["its command is not known", "its command is known", reported]);
    assert!(plan.findings.iter().all(|one| one.rule == "short-grace"), "no container moves: {:?}", plan.findings);
    let outlives: Vec<_> = plan.containers.iter().map(|planned| planned.outlives.join(",")).collect();
    assert_eq!(outlives, ["", "web", "web,api"], "hold mode keeps the stop order");
    let set = [("podgate.io/order", "db, api"), ("mode.podgate.io/api", "hold"), ("mode.podgate.io/db", "hold")];
    let plan = plan_of(&template(&["db", "api"], &set));
    assert_eq!(plan_summary(&plan), ["db none reports", "api hold db=Ready"], "a known command can be held too");
    assert_eq!(plan.get("api").unwrap().mode_reason, "set by mode.podgate.io/api");
}

#[test]
fn impossible_hold_mode_is_rejected_with_the_ways_out() {
    let old = KnownFacts { kubernetes: Some(Version { major: 1, minor: 34 }), ..KnownFacts::default() };
    let any = KnownFacts::default();
    let unknown = "the command of api is not known, and hold mode ";
    let set = "api is set to hold mode, which ";
    for (known, more, start, end) in [
        (&old, ("podgate.io/on-timeout", "fail"), unknown, "needs Kubernetes 1.35, but this is 1.34"),
        (&old, ("mode.podgate.io/api", "hold"), set, "needs Kubernetes 1.35, but this is 1.34"),
        (
            &any,
            ("mode.podgate.io/web", "post-start"),
            unknown,
            "cannot be combined with post-start mode, which web has",
        ),
    ] {
        // Only `api` is held: `api` has no command in the spec, `web` has a command, and `db` waits for nothing.
        let order = [("podgate.io/order", "db, api"), ("after.podgate.io/web", "log"), more];
        let template = template(&["db", "api!", "log", "web"], &order);
        let findings = plan(&template, known).unwrap_err();
        assert_eq!((findings.len(), findings[0].rule), (1, "hold-impossible"), "{findings:#?}");
        assert_eq!(findings[0].message, format!("{start}{end}"));
        for way_out in ["--resolve-images", "command.podgate.io/api", "mode.podgate.io/api: post-start"] {
            assert!(findings[0].fix.contains(way_out), "{}", findings[0].fix);
        }
        let at = if start == set { annotation_place(more.0) } else { Place::root().to("spec").to("containers").to(1) };
        assert_eq!(findings[0].at, at);
        assert_eq!(findings[0].fix.starts_with("write mode.podgate.io/api: entrypoint, and set"), more.1 == "hold");
    }
    // If a container has a command, the fix is another mode.
    let hold = template(&["db", "api"], &[("podgate.io/order", "db, api"), ("podgate.io/mode", "hold")]);
    let fix = "write mode.podgate.io/api: entrypoint, or write mode.podgate.io/api: post-start";
    assert_eq!(plan(&hold, &old).unwrap_err()[0].fix, fix);
    let gated = plan(&template(&["db!", "api"], &[("podgate.io/order", "db, api")]), &old).unwrap();
    assert_eq!(plan_summary(&gated), ["db none reports", "api entrypoint db=Ready"]);
    let new = KnownFacts { kubernetes: Some(Version::FIRST_WITH_HOLD), ..KnownFacts::default() };
    let held = plan(&template(&["db!", "api!"], &[("podgate.io/order", "db, api")]), &new).unwrap();
    assert_eq!(plan_summary(&held), ["db none reports", "api hold db=Ready"]);
}

#[test]
fn hooks_hold_back_containers_in_post_start_mode() {
    let reverse =
        [("podgate.io/order", "db, api, web"), ("podgate.io/mode", "post-start"), ("podgate.io/stop-order", "reverse")];
    let plan = plan_of(&template(&["db!", "api!", "web!"], &reverse));
    assert_eq!(plan_summary(&plan), ["db post-start db=Ready", "api post-start api=Ready", "web none"]);
    let tethers: Vec<bool> = plan.containers.iter().map(|p| p.hook_needs_tether()).collect();
    assert_eq!(tethers, [false, true, true]);
    let plan = plan_hooks(&["db!", "api!", "web!"], "db, api, web");
    assert_eq!(
        plan_summary(&plan),
        ["db post-start db=Ready", "api post-start api=Ready", "web none"],
        "as in manifests/pod.yaml"
    );
    assert!(plan.containers.iter().all(|p| !p.hook_needs_tether() && p.outlives.is_empty()));
}

#[test]
fn hooked_container_makes_its_dependencies_use_hooks() {
    let hooks = [("podgate.io/order", "db, api, web"), ("mode.podgate.io/web", "post-start")];
    let plan = plan_of(&template(&["web", "api", "db!"], &hooks));
    assert_eq!(plan_summary(&plan), ["db post-start db=Ready", "api post-start api=Ready", "web none"]);
    assert_eq!(plan.get("db").unwrap().mode_reason, "web, which comes later, is in post-start mode");
}

/// The gate of `db` becomes the command, and the kubelet's own probe reports, so the database remains process 1.
#[test]
fn gate_that_waits_for_nothing_is_no_parent_for_an_exec_probe() {
    let stop = [("podgate.io/order", "db, api"), ("podgate.io/stop-order", "reverse")];
    let mut template = template(&["db", "api"], &stop);
    for own in template["spec"]["containers"].as_array_mut().unwrap() {
        own["readinessProbe"] = json!({"exec": {"command": ["pg_isready"]}});
    }
    let is_wrapped = |plan: &Plan, name: &str| {
        let planned = plan.get(name).unwrap();
        (planned.entrypoint_gate().unwrap().needs_parent, planned.wrapped_probe.is_some())
    };
    assert_eq!(is_wrapped(&plan_of(&template), "db"), (false, true));
    let mut waits = template.clone();
    waits["metadata"]["annotations"]["check.podgate.io/db"] = json!("tcp://db.example:1");
    assert_eq!(is_wrapped(&plan_of(&waits), "db"), (true, false), "after a wait, the kubelet's next run is late");
    template["spec"]["shareProcessNamespace"] = json!(true);
    assert_eq!(is_wrapped(&plan_of(&template), "db"), (true, false));
}

#[test]
fn hook_before_gates_only_reports_the_start() {
    let hook = [("podgate.io/order", "db, api"), ("mode.podgate.io/db", "post-start")];
    let plan = plan_of(&template(&["api", "db"], &hook));
    assert_eq!(
        plan_summary(&plan),
        ["api entrypoint db=Ready", "db none reports"],
        "the hook of db delays no container"
    );
    let mut template = template(&["db", "api"], &hook);
    template["spec"]["containers"][0]["readinessProbe"] = json!({"exec": {"command": ["pg_isready"]}});
    let plan = plan_of(&template);
    assert_eq!(
        plan_summary(&plan),
        ["db post-start db=Ready", "api entrypoint db=Ready"],
        "the exec probe must run inside db"
    );
}

#[test]
fn gates_start_in_parallel_and_hooks_one_after_another() {
    let plan = plan_order(&["db", "cache", "api"], "db & cache, api");
    assert_eq!(plan_summary(&plan), ["db entrypoint", "cache entrypoint", "api entrypoint db=Ready,cache=Ready"]);
    let plan = plan_hooks(&["db", "log", "cache", "api"], "db & cache, api");
    assert_eq!(plan_summary(&plan), ["db post-start db=Ready", "log none", "cache post-start cache=Ready", "api none"]);
}

#[test]
fn waiting_for_an_exit_needs_gates_or_the_kubelets_status() {
    let template = |policy: &str, containers: &[&str]| {
        let mut template = template(containers, &[("podgate.io/order", "migrate=Completed, api")]);
        template["spec"]["restartPolicy"] = json!(policy);
        template
    };
    let plan = plan_of(&template("OnFailure", &["migrate", "api"]));
    assert_eq!(plan_summary(&plan), ["migrate entrypoint", "api entrypoint migrate=Completed"]);
    assert!(needs_parent(&plan.containers[0]) && plan.containers[0].outlives.is_empty() && plan.findings.is_empty());

    let always = plan_of(&template("Always", &["migrate", "api"]));
    assert_eq!((always.findings[0].rule, always.findings[0].level), ("exit-not-final", Level::Warning));
    for (containers, expected) in [
        (["migrate!", "api"], ["migrate none", "api entrypoint migrate=Completed"]),
        (["migrate", "api!"], ["migrate entrypoint", "api hold migrate=Completed"]),
    ] {
        let plan = plan_of(&template("OnFailure", &containers));
        assert_eq!(plan_summary(&plan), expected);
        assert_eq!(needs_parent(&plan.containers[0]), containers[0] == "migrate");
    }
}

#[test]
fn conflicting_modes_are_rejected_with_the_reason() {
    let with = |containers: &[&str], more: &[(&str, &str)]| {
        let mut all = vec![("podgate.io/order", "migrate=Completed, api, web")];
        all.extend(more);
        let mut template = template(containers, &all);
        template["spec"]["restartPolicy"] = json!("OnFailure");
        plan_errors(&template)
    };
    for (containers, more, rule, what, fix) in [
        (
            ["migrate", "api", "web"],
            &[("mode.podgate.io/web", "post-start")][..],
            "mode-conflict",
            "but web comes after api and is in post-start mode",
            "write mode.podgate.io/web: auto",
        ),
        (
            ["migrate", "api", "web"],
            &[("podgate.io/mode", "post-start")],
            "mode-conflict",
            "api is in post-start mode, but api waits for migrate=Completed",
            "write mode.podgate.io/api: auto",
        ),
        (
            ["migrate", "api", "web!"],
            &[("mode.podgate.io/web", "entrypoint")],
            "unknown-command",
            "web is set to entrypoint mode, but its command is not known",
            "--resolve-images",
        ),
    ] {
        let findings = with(&containers, more);
        let found = findings.iter().find(|finding| finding.message.contains(what));
        let found = found.unwrap_or_else(|| panic!("{what}: {findings:#?}"));
        assert!(found.rule == rule && found.fix.contains(fix), "{found:#?}");
    }
    let explicit = template(
        &["db", "api", "web"],
        &[
            ("podgate.io/order", "db, api, web"),
            ("mode.podgate.io/api", "entrypoint"),
            ("mode.podgate.io/web", "post-start"),
        ],
    );
    let findings = plan_errors(&explicit);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].message.starts_with("api is in entrypoint mode, but web"), "{}", findings[0]);
    assert_eq!(findings[0].at, annotation_place("mode.podgate.io/api"));
}

#[test]
fn containers_own_auto_overrides_the_pods_mode() {
    let template = template(
        &["db", "api"],
        &[("podgate.io/order", "db, api"), ("podgate.io/mode", "post-start"), ("mode.podgate.io/api", "auto")],
    );
    assert_eq!(plan_summary(&plan_of(&template)), ["db none reports", "api entrypoint db=Ready"]);
}

#[test]
fn cycles_are_reported_at_the_closing_annotation() {
    for (order, more, expected) in [
        (
            "db, api, web",
            &[("after.podgate.io/db", "web")][..],
            "containers wait for each other: db waits for web, web waits for api, api waits for db",
        ),
        ("db, api, web", &[("after.podgate.io/api", "api")], "api waits for itself"),
        (
            "db, api",
            &[("after.podgate.io/db", "api=Started")],
            "containers wait for each other: db waits for api, api waits for db",
        ),
    ] {
        let mut all = vec![("podgate.io/order", order)];
        all.extend(more);
        let findings = plan_errors(&template(&["db", "api", "web"], &all));
        assert_eq!((findings.len(), findings[0].rule), (1, "cycle"), "{findings:#?}");
        assert_eq!(findings[0].message, expected);
        assert_eq!(findings[0].at, annotation_place(more[0].0));
    }
}

#[test]
fn sidecars_of_a_job_stop_after_the_others() {
    let template_of_job = |containers: &[&str]| {
        let all = [("podgate.io/order", "proxy, app"), ("podgate.io/job-sidecars", "proxy")];
        let mut template = template(containers, &all);
        template["spec"]["restartPolicy"] = json!("Never");
        template
    };
    let mut template = template_of_job(&["proxy", "app", "logs!"]);
    let plan = plan_of(&template);
    assert_eq!(
        plan_summary(&plan),
        ["proxy entrypoint", "app entrypoint proxy=Ready", "logs none"],
        "as in manifests/job.yaml"
    );
    assert_eq!(plan.get("proxy").unwrap().stop_after, ["app", "logs"]);
    assert!(plan.containers[..2].iter().all(|p| needs_parent(p) && p.outlives.is_empty()), "a Job has no stop order");

    let held = plan_errors(&template_of_job(&["proxy!", "app"]));
    assert_eq!((held.len(), held[0].rule), (1, "unknown-command"), "{held:#?}");
    assert!(held[0].message.contains("proxy must stop when the other containers have exited"), "{}", held[0]);
    assert!(held[0].fix.contains("command.podgate.io/proxy"), "{}", held[0]);

    template["spec"]["restartPolicy"] = json!("Always");
    assert_eq!(plan_errors(&template)[0].rule, "condition-never-met");
    template["spec"]["restartPolicy"] = json!("Never");
    template["metadata"]["annotations"]["podgate.io/job-sidecars"] = json!("proxy, app, logs");
    assert!(
        plan_errors(&template)
            .iter()
            .any(|finding| finding.message.starts_with("every container ends only after the others"))
    );
    template["metadata"]["annotations"] =
        json!({"podgate.io/order": "proxy=Completed, app", "podgate.io/job-sidecars": "proxy"});
    assert!(plan_errors(&template).iter().any(|finding| finding.message.contains("only after app has exited")));
}

#[test]
fn declared_stop_order_is_used() {
    let template = template(&["db!", "api", "log"], &[("podgate.io/stop-order", "api & log, db")]);
    let plan = plan_of(&template);
    assert_eq!(
        plan_summary(&plan),
        ["db none", "api entrypoint", "log entrypoint"],
        "gates show when api and log have exited"
    );
    assert_eq!(plan.containers[0].outlives, ["api", "log"]);
    assert!(plan.containers[0].is_modified() && !needs_parent(&plan.containers[1]));
}

#[test]
fn pre_stop_limits_decrease_along_the_chain() {
    for (seconds, limits) in [
        (30, [25_000, 20_000]),
        (60, [50_000, 40_000]),
        (10, [9_000, 8_000]),
        (3600, [3_570_000, 3_540_000]),
        (2, [1_667, 1_334]),
    ] {
        let reverse = [("podgate.io/order", "db, api, web"), ("podgate.io/stop-order", "reverse")];
        let mut template = template(&["db", "api", "web"], &reverse);
        template["spec"]["terminationGracePeriodSeconds"] = json!(seconds);
        let plan = plan_of(&template);
        let found: Vec<u128> = plan.containers[..2].iter().map(|p| p.pre_stop_limit.as_millis()).collect();
        assert_eq!(found, limits, "{seconds}");
        assert_eq!(plan.findings.iter().any(|f| f.rule == "short-grace" && f.level == Level::Warning), seconds == 2);
    }
    let reverse = [("podgate.io/order", "db, api"), ("podgate.io/stop-order", "reverse")];
    let mut template = template(&["db", "api"], &reverse);
    template["spec"]["terminationGracePeriodSeconds"] = json!(0);
    let plan = plan_of(&template);
    assert!(plan.findings[0].rule == "no-grace" && plan.containers.iter().all(|p| p.outlives.is_empty()));
}

#[test]
fn spec_command_wins_over_annotation_and_image() {
    let image = ImageCommand {
        entrypoint: vec!["/entry".into(), "$(X)".into()],
        cmd: vec!["serve".into()],
        ..ImageCommand::default()
    };
    let known = KnownFacts { images: [("api".to_owned(), image)].into(), ..KnownFacts::default() };
    let command = |container: Value, annotations: Value| {
        let template =
            json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "db"}, container]}});
        plan(&template, &known).unwrap().get("api").unwrap().entrypoint_gate().unwrap().command.clone()
    };
    let order = json!({"podgate.io/order": "db, api"});
    let given = json!({"podgate.io/order": "db, api", "command.podgate.io/api": "[\"/given\"]"});
    assert_eq!(command(json!({"name": "api", "command": ["/own"], "args": ["x"]}), given.clone()), ["/own", "x"]);
    assert_eq!(command(json!({"name": "api", "args": ["x"]}), given.clone()), ["/given", "x"]);
    assert_eq!(command(json!({"name": "api"}), given), ["/given"]);
    assert_eq!(command(json!({"name": "api"}), order.clone()), ["/entry", "$$(X)", "serve"]);
    assert_eq!(command(json!({"name": "api", "command": [], "args": ["x"]}), order), ["/entry", "$$(X)", "x"]);
}

#[test]
fn settings_without_effect_are_reported() {
    let template = template(
        &["db", "api", "log"],
        &[
            ("podgate.io/order", "db, api=Started"),
            ("timeout.podgate.io/log", "1m"),
            ("command.podgate.io/db", "[\"x\"]"),
        ],
    );
    let plan = plan_of(&template);
    let rules: Vec<&str> = plan.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["unused-annotation", "unused-annotation"]);
    let held = ["podgate.io/order", "mode.podgate.io/db", "mode.podgate.io/api", "command.podgate.io/api"];
    let held: Vec<_> = held.into_iter().zip(["db, api", "hold", "hold", r#"["/api"]"#]).collect();
    let messages: Vec<String> =
        plan_of(&self::template(&["db!", "api!"], &held)).findings.into_iter().map(|finding| finding.message).collect();
    assert_eq!(
        messages,
        ["api is in hold mode, which needs no command", "db waits for no container, so hold mode has no effect"]
    );
}

#[test]
fn limits_of_one_container_need_a_gate_or_hook_that_waits() {
    let findings = |containers: &[&str], mode: &str| {
        let own = ["on-timeout.podgate.io/db", "on-timeout.podgate.io/api", "fail-fast.podgate.io/api"];
        let mut annotations: Vec<_> = own.into_iter().zip(["continue", "continue", "true"]).collect();
        annotations.extend([("podgate.io/order", "db, api"), ("podgate.io/mode", mode)]);
        let plan = plan(&template(containers, &annotations), &KnownFacts::default());
        let findings = plan.map_or_else(|findings| findings, |plan| plan.findings);
        findings.into_iter().map(|finding| format!("{} {}", finding.rule, finding.at)).collect::<Vec<_>>()
    };
    let unused = |key: &str| format!("unused-annotation metadata.annotations[\"{key}\"]");
    let conflict = "mode-conflict metadata.annotations[\"fail-fast.podgate.io/api\"]".to_owned();
    assert_eq!(findings(&["db", "api"], "entrypoint"), [unused("on-timeout.podgate.io/db")]);
    assert_eq!(findings(&["db", "api!"], "auto"), [conflict, unused("on-timeout.podgate.io/db")]);
    // In post-start mode, only the hook of `db` waits, so the settings of `api` have no effect.
    let of_api = ["fail-fast.podgate.io/api", "on-timeout.podgate.io/api"].map(unused);
    assert_eq!(findings(&["db", "api"], "post-start"), of_api);

    let own = [("on-timeout.podgate.io/web", "continue"), ("fail-fast.podgate.io/api", "true")];
    let plan =
        plan_of(&template(&["db", "api", "web"], &[&own[..], &[("podgate.io/order", "db, api & web")]].concat()));
    let limits = plan.containers.iter().map(|own| (own.name.as_str(), own.continue_on_timeout, own.fail_fast));
    assert_eq!(limits.collect::<Vec<_>>(), [("db", false, false), ("api", false, true), ("web", true, false)]);
}

#[test]
fn container_that_is_asked_to_exit_is_the_last_one() {
    let quit = ("quit.podgate.io/proxy", "http://127.0.0.1:15020/quitquitquit");
    let job = |containers: &[&str], annotations: &[(&str, &str)]| {
        let mut template = template(containers, annotations);
        template["spec"]["restartPolicy"] = json!("OnFailure");
        plan(&template, &KnownFacts::default())
    };
    let all = ["proxy", "logs", "main"];
    let done = job(&all, &[quit, ("podgate.io/job-sidecars", "logs")]).unwrap();
    assert_eq!(done.get("proxy").unwrap().quit.as_ref().unwrap().to_string(), format!("POST {}", quit.1));
    assert_eq!(done.get("logs").unwrap().stop_after, ["main"], "it must not wait for proxy");
    assert_eq!(done.findings.iter().map(|finding| finding.rule).collect::<Vec<_>>(), ["known-by-kubelet"]);
    assert_eq!(Vec::from_iter(done.unprovable_conditions), ["that proxy must quit"]);

    let message = |containers: &[&str], annotations: &[(&str, &str)]| {
        let findings = job(containers, annotations).expect_err(annotations[annotations.len() - 1].1);
        assert!(findings.len() == 1 && findings[0].level == Level::Error, "{findings:#?}");
        findings.into_iter().next().unwrap().message
    };
    assert!(message(&all, &[quit, ("podgate.io/job-sidecars", "proxy")]).contains("stops proxy already"));
    assert!(message(&all, &[quit, ("podgate.io/publish", "none")]).contains("does not read it"));
    assert!(message(&["proxy"], &[quit]).contains("every container ends only after the others"));
    let waits = message(&["proxy", "main"], &[("podgate.io/order", "proxy=Completed, main"), quit]);
    assert!(waits.contains("main waits for the exit of proxy, but podgate ends proxy only after"), "{waits}");
    assert!(
        plan(&template(&all, &[quit]), &KnownFacts::default()).unwrap_err()[0]
            .message
            .contains("always restarts proxy")
    );
    for (value, expected) in [
        ("", "is not an HTTP URL"),
        ("https://127.0.0.1:1/", "is not an HTTP URL"),
        ("PUT http://127.0.0.1:1/", "\"PUT\" is neither GET nor POST"),
        ("POST http://10.0.0.1:1/", "10.0.0.1 is another host"),
    ] {
        assert!(message(&all, &[(quit.0, value)]).contains(expected), "{value}");
    }
}

#[test]
fn annotation_takes_precedence_over_the_callers_target() {
    for (set, caller, expected) in [
        ("api", Some(Publish::None), Publish::Api),
        ("none", Some(Publish::Api), Publish::None),
        ("", Some(Publish::None), Publish::None),
        ("", None, Publish::Api),
    ] {
        let annotations = [("podgate.io/order", "db, api"), ("podgate.io/publish", set)];
        let template = template(&["db", "api"], &annotations[..if set.is_empty() { 1 } else { 2 }]);
        let known = KnownFacts { publish: caller, ..KnownFacts::default() };
        assert_eq!(plan(&template, &known).unwrap().publish, expected, "{set} {caller:?}");
    }
}

#[test]
fn plan_without_a_declaration_changes_nothing() {
    let plan = plan_of(&template(&["a", "b!"], &[]));
    assert!(plan.findings.is_empty() && plan.containers.iter().all(|p| !p.is_modified()));
}
