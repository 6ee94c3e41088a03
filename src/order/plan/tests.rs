mod properties;

use super::*;
use crate::core::container::Mode;
use crate::order::declare::{Publish, Sidecar, annotation};
use crate::order::finding::{Finding, Level};
use serde_json::{Value, json};

/// A template with these annotations; of the containers, those with a `!` have no command.
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

fn planned(template: &Value) -> Plan {
    plan(template, &Known::default()).unwrap_or_else(|findings| panic!("{findings:#?}"))
}

/// `name mode until`, in the order of the plan.
fn shown(plan: &Plan) -> Vec<String> {
    let one = |p: &Planned| {
        let mode = match p.mode {
            Mode::None => "none",
            Mode::PostStart => "hook",
            Mode::Entrypoint => "gate",
        };
        let until: Vec<String> = p.until.iter().map(ToString::to_string).collect();
        format!("{} {mode} {}", p.name, until.join(",")).trim_end().to_owned()
    };
    plan.containers.iter().map(one).collect()
}

fn order(containers: &[&str], order: &str) -> Plan {
    planned(&template(containers, &[("podgate.io/order", order)]))
}

fn refused(template: &Value) -> Vec<Finding> {
    plan(template, &Known::default()).unwrap_err()
}

#[test]
fn known_commands_wait_in_gates_wherever_they_stand() {
    let plan = order(&["web", "api", "db"], "db, api, web");
    assert_eq!(shown(&plan), ["web gate api=Ready", "api gate db=Ready", "db gate"]);
    assert_eq!(plan.containers[0].command.as_deref(), Some(&["/bin/run".to_owned(), "web".to_owned()][..]));
    assert_eq!(plan.containers[0].because, "its command is known");
    assert!(plan.findings.is_empty(), "{:?}", plan.findings);
}

#[test]
fn the_hand_written_manifests_are_what_comes_out() {
    let plan = order(&["db", "api", "web"], "db, api, web");
    let stays: Vec<_> = plan.containers.iter().map(|p| (p.stays_for.join(","), p.stop_grace.as_secs())).collect();
    assert_eq!(stays, [("api".to_owned(), 25), ("web".to_owned(), 20), (String::new(), 0)]);
    let parents: Vec<bool> = plan.containers.iter().map(|p| p.parent).collect();
    assert_eq!(parents, [false; 3], "the lock that each leaves behind tells of its end");
    assert!(plan.containers.iter().all(|p| p.timeout.as_secs() == 300 && !p.continue_on_timeout));
    assert_eq!((plan.grace.as_secs(), plan.sidecar, plan.publish), (30, Sidecar::Native, Publish::Api));
}

#[test]
fn unknown_commands_are_held_back_by_hooks_in_those_before() {
    let plan = order(&["db!", "api!", "web!"], "db, api, web");
    assert_eq!(shown(&plan), ["db hook db=Ready", "api hook api=Ready", "web hook web=Started"]);
    let tethers: Vec<bool> = plan.containers.iter().map(|p| p.tether).collect();
    assert_eq!(tethers, [false, true, true]);
    let template =
        template(&["db!", "api!", "web!"], &[("podgate.io/order", "db, api, web"), ("podgate.io/stop-order", "none")]);
    let plan = planned(&template);
    assert_eq!(shown(&plan), ["db hook db=Ready", "api hook api=Ready", "web none"], "as manifests/pod.yaml has it");
    assert!(plan.containers.iter().all(|p| !p.tether && p.stays_for.is_empty()));
}

#[test]
fn one_that_hooks_must_hold_back_makes_all_before_it_take_hooks() {
    let plan = order(&["web!", "api", "db"], "db, api, web");
    assert_eq!(shown(&plan), ["db hook db=Ready", "api hook api=Ready", "web hook web=Started"]);
    assert_eq!(plan.get("db").unwrap().because, "the command of web after it is not known");
    let moved = plan.findings.iter().find(|finding| finding.rule == "moved").unwrap();
    assert!(moved.what.ends_with("db, api, web"), "{moved}");
}

#[test]
fn one_that_only_gates_wait_for_holds_nobody_up() {
    let plan = order(&["api", "db!"], "db, api");
    assert_eq!(shown(&plan), ["db hook db=Started", "api gate db=Ready"], "and hooks come before gates");
    let mut template = template(&["db!", "api"], &[("podgate.io/order", "db, api")]);
    template["spec"]["containers"][0]["readinessProbe"] = json!({"exec": {"command": ["pg_isready"]}});
    let plan = planned(&template);
    assert_eq!(shown(&plan), ["db hook db=Ready", "api gate db=Ready"], "its check must run inside");
}

#[test]
fn side_by_side_is_so_with_gates_and_said_with_hooks() {
    let plan = order(&["db", "cache", "api"], "db & cache, api");
    assert_eq!(shown(&plan), ["db gate", "cache gate", "api gate db=Ready,cache=Ready"]);
    let plan = order(&["db!", "log", "cache!", "api!"], "db & cache, api");
    assert_eq!(shown(&plan), ["db hook db=Ready", "log none", "cache hook cache=Ready", "api hook api=Started"]);
    let note = plan.findings.iter().find(|finding| finding.rule == "not-side-by-side").unwrap();
    assert!(note.what.contains("holds back log, cache too"), "{note}");
}

#[test]
fn the_end_of_a_container_takes_gates_on_both_sides() {
    let template = |policy: &str, containers: &[&str]| {
        let mut template = template(containers, &[("podgate.io/order", "migrate=Completed, api")]);
        template["spec"]["restartPolicy"] = json!(policy);
        template
    };
    let plan = planned(&template("OnFailure", &["migrate", "api"]));
    assert_eq!(shown(&plan), ["migrate gate", "api gate migrate=Completed"]);
    assert!(plan.containers[0].parent && plan.containers[0].stays_for.is_empty() && plan.findings.is_empty());

    let always = planned(&template("Always", &["migrate", "api"]));
    assert_eq!((always.findings[0].rule, always.findings[0].level), ("end-does-not-last", Level::Warning));
    for containers in [["migrate!", "api"], ["migrate", "api!"]] {
        let findings = refused(&template("OnFailure", &containers));
        assert_eq!(findings[0].rule, "unknown-command", "{findings:#?}");
        let name = containers.iter().find_map(|name| name.strip_suffix('!')).unwrap();
        assert!(findings[0].mend.contains(&format!("command.podgate.io/{name}")), "{findings:#?}");
    }
}

#[test]
fn a_mode_that_breaks_the_order_is_refused_with_the_reason() {
    let with = |containers: &[&str], more: &[(&str, &str)]| {
        let mut all = vec![("podgate.io/order", "migrate=Completed, api, web")];
        all.extend(more);
        let mut template = template(containers, &all);
        template["spec"]["restartPolicy"] = json!("OnFailure");
        refused(&template)
    };
    for (containers, more, rule, what, mend) in [
        (
            ["migrate", "api", "web!"],
            &[][..],
            "mode-conflict",
            "api waits for migrate=Completed, but web, which comes after api, has a command that is not known",
            "command.podgate.io/web",
        ),
        (
            ["migrate", "api", "web"],
            &[("mode.podgate.io/web", "post-start")],
            "mode-conflict",
            "but web, which comes after api, is in post-start mode",
            "write mode.podgate.io/web: entrypoint",
        ),
        (
            ["migrate", "api", "web"],
            &[("podgate.io/mode", "post-start")],
            "mode-conflict",
            "api is in post-start mode, but api waits for migrate=Completed",
            "write mode.podgate.io/api: entrypoint",
        ),
        (
            ["migrate", "api", "web!"],
            &[("mode.podgate.io/web", "entrypoint")],
            "unknown-command",
            "web is to be in entrypoint mode, but its command is not known",
            "--resolve-images",
        ),
    ] {
        let findings = with(&containers, more);
        let found = findings.iter().find(|finding| finding.what.contains(what));
        let found = found.unwrap_or_else(|| panic!("{what}: {findings:#?}"));
        assert!(found.rule == rule && found.mend.contains(mend), "{found:#?}");
    }
    let explicit = template(
        &["db", "api", "web!"],
        &[("podgate.io/order", "db, api, web"), ("mode.podgate.io/api", "entrypoint")],
    );
    let findings = refused(&explicit);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].what.starts_with("api is in entrypoint mode, but web"), "{}", findings[0]);
    assert_eq!(findings[0].at, annotation("mode.podgate.io/api"));
}

#[test]
fn auto_for_one_outweighs_what_is_said_for_all() {
    let template = template(
        &["db", "api"],
        &[("podgate.io/order", "db, api"), ("podgate.io/mode", "post-start"), ("mode.podgate.io/api", "auto")],
    );
    assert_eq!(shown(&planned(&template)), ["db hook db=Started", "api gate db=Ready"]);
}

#[test]
fn cycles_are_shown_with_the_annotation_that_closes_them() {
    for (order, more, says) in [
        (
            "db, api, web",
            &[("after.podgate.io/db", "web")][..],
            "containers wait for each other: db -> web -> api -> db",
        ),
        ("db, api, web", &[("after.podgate.io/api", "api")], "api waits for itself"),
        ("db, api", &[("after.podgate.io/db", "api=Started")], "containers wait for each other: db -> api -> db"),
    ] {
        let mut all = vec![("podgate.io/order", order)];
        all.extend(more);
        let findings = refused(&template(&["db", "api", "web"], &all));
        assert_eq!((findings.len(), findings[0].rule), (1, "cycle"), "{findings:#?}");
        assert_eq!(findings[0].what, says);
        assert_eq!(findings[0].at, annotation(more[0].0));
    }
}

#[test]
fn edges_add_up_and_what_excludes_each_other_is_refused() {
    let both =
        |after: &str| template(&["db", "api"], &[("podgate.io/order", "db, api"), ("after.podgate.io/api", after)]);
    assert_eq!(shown(&planned(&both("db=Started")))[1], "api gate db=Ready");
    let findings = refused(&both("db=Exited"));
    assert_eq!(findings[0].rule, "can-never-hold");
    assert!(findings[0].what.contains("never hold at the same moment"), "{}", findings[0]);
}

#[test]
fn sidecars_of_a_job_are_ended_when_the_others_have() {
    let mut template =
        template(&["proxy", "app", "logs!"], &[("podgate.io/order", "proxy, app"), ("podgate.io/sidecars", "proxy")]);
    template["spec"]["restartPolicy"] = json!("Never");
    let plan = planned(&template);
    assert_eq!(shown(&plan), ["proxy gate", "app gate proxy=Ready", "logs none"], "as manifests/job.yaml has it");
    assert_eq!(plan.get("proxy").unwrap().stop_after, ["app", "logs"]);
    assert!(plan.containers[..2].iter().all(|p| p.parent && p.stays_for.is_empty()), "nobody stays in a Job");

    template["spec"]["restartPolicy"] = json!("Always");
    assert_eq!(refused(&template)[0].rule, "can-never-hold");
    template["spec"]["restartPolicy"] = json!("Never");
    template["metadata"]["annotations"]["podgate.io/sidecars"] = json!("proxy, app, logs");
    assert!(refused(&template).iter().any(|finding| finding.what.starts_with("all containers are sidecars")));
    template["metadata"]["annotations"] =
        json!({"podgate.io/order": "proxy=Completed, app", "podgate.io/sidecars": "proxy"});
    assert!(refused(&template).iter().any(|finding| finding.what.contains("is ended when app has")));
}

#[test]
fn a_stop_order_of_its_own() {
    let template = template(&["db!", "api", "log"], &[("podgate.io/stop-order", "api & log, db")]);
    let plan = planned(&template);
    assert_eq!(shown(&plan), ["db none", "api gate", "log gate"], "tethers for those that are stayed for");
    assert_eq!(plan.containers[0].stays_for, ["api", "log"]);
    assert!(plan.containers[0].is_touched() && !plan.containers[1].parent);
}

#[test]
fn graces_go_down_along_the_chain_and_stay_within_the_pods() {
    for (seconds, graces) in [
        (30, [25_000, 20_000]),
        (60, [50_000, 40_000]),
        (10, [9_000, 8_000]),
        (3600, [3_570_000, 3_540_000]),
        (2, [1_667, 1_334]),
    ] {
        let mut template = template(&["db", "api", "web"], &[("podgate.io/order", "db, api, web")]);
        template["spec"]["terminationGracePeriodSeconds"] = json!(seconds);
        let plan = planned(&template);
        let found: Vec<u128> = plan.containers[..2].iter().map(|p| p.stop_grace.as_millis()).collect();
        assert_eq!(found, graces, "{seconds}");
        assert_eq!(plan.findings.iter().any(|f| f.rule == "short-grace"), seconds == 2);
    }
    let mut template = template(&["db", "api"], &[("podgate.io/order", "db, api")]);
    template["spec"]["terminationGracePeriodSeconds"] = json!(0);
    let plan = planned(&template);
    assert!(plan.findings[0].rule == "no-grace" && plan.containers.iter().all(|p| p.stays_for.is_empty()));
}

#[test]
fn commands_come_from_the_spec_then_the_annotation_then_the_image() {
    let image = ImageCommand { entrypoint: vec!["/entry".into(), "$(X)".into()], cmd: vec!["serve".into()] };
    let known = Known { images: [("api".to_owned(), image)].into() };
    let command = |container: Value, annotations: Value| {
        let template =
            json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "db"}, container]}});
        plan(&template, &known).unwrap().get("api").unwrap().command.clone().unwrap()
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
fn settings_that_say_nothing_are_named() {
    let template = template(
        &["db", "api", "log"],
        &[
            ("podgate.io/order", "db, api=Started"),
            ("timeout.podgate.io/log", "1m"),
            ("command.podgate.io/db", "[\"x\"]"),
        ],
    );
    let plan = planned(&template);
    let rules: Vec<&str> = plan.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["state-unused", "unused-annotation", "unused-annotation"]);
}

#[test]
fn nothing_declared_is_nothing_to_do() {
    let plan = planned(&template(&["a", "b!"], &[]));
    assert!(plan.findings.is_empty() && plan.containers.iter().all(|p| !p.is_touched()));
}
