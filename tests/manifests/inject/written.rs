//! Tests that the agent and the sidecar can parse the command lines and lists that `inject` writes.

use super::{corpus::each_injected, injected};
use podgate::core::command::AgentCommand;
use podgate::core::container::{Container, Mode};
use podgate::core::container_list::parse_list;
use podgate::order::inject::is_injected_without_sidecar;
use serde_json::{Value, json};
use std::process::Command;

/// Expands a text as the kubelet does if no variables are set: `$$` becomes `$`, and `$(NAME)` remains
/// (`k8s.io/kubernetes/third_party/forked/golang/expansion`).
fn expanded(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        out.push(c);
        if c == '$' && rest.peek() == Some(&'$') {
            rest.next();
        }
    }
    out
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|word| word.as_str().expect("a word").to_owned()).collect()
}

fn sidecar(template: &Value) -> &Value {
    let spec = &template["spec"];
    let first = [&spec["initContainers"][0], &spec["containers"][0]].into_iter().find(|one| one["name"] == "podgate");
    first.unwrap_or_else(|| panic!("the sidecar does not come first: {template:#}"))
}

fn is_held(container: &Value) -> bool {
    list(container, "env").any(|one| one["name"] == "PODGATE_HOLD")
}

pub(super) fn sidecar_containers(template: &Value) -> Vec<Container> {
    let text = list(sidecar(template), "env").find(|one| one["name"] == "PODGATE_CONTAINERS").expect("the variable");
    let text = expanded(text["value"].as_str().expect("a text"));
    parse_list(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn hook(container: &Value, which: &str) -> Vec<String> {
    strings(&container["lifecycle"][which]["exec"]["command"])
}

/// Parses a command line. Returns `None` unless the command line runs the agent's `subcommand`.
fn line(words: &[String], subcommand: &str) -> Option<AgentCommand> {
    AgentCommand::parse(words).filter(|line| line.subcommand == *subcommand)
}

/// Returns the agent's command lines in a container. Omits arguments from `--` on.
fn agent_lines(container: &Value) -> Vec<Vec<String>> {
    let all = [
        strings(&container["command"]),
        hook(container, "postStart"),
        hook(container, "preStop"),
        strings(&container["startupProbe"]["exec"]["command"]),
        strings(&container["readinessProbe"]["exec"]["command"]),
    ];
    let own = all.into_iter().filter(|line| line.first().is_some_and(|program| program == "/podgate/bin/podgate"));
    own.map(|line| line.split(|word| word == "--").next().unwrap_or_default().to_vec()).collect()
}

/// Calls `with` for each manifest of the corpus with a sidecar.
fn each_with_sidecar(mut with: impl FnMut(&str, &Value, &Value)) {
    each_injected(|file, original, injected| {
        if !is_injected_without_sidecar(injected) {
            with(file, original, injected);
        }
    });
}

#[test]
fn agent_accepts_every_injected_command_line() {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    each_injected(|file, _, injected| {
        for line in list(&injected["spec"], "containers").flat_map(agent_lines) {
            // The agent parses the flags before `--help`, then prints the help and exits.
            let output =
                Command::new(env!("CARGO_BIN_EXE_podgate")).args(&line[1..]).arg("--help").output().expect("the agent");
            assert_eq!(output.status.code(), Some(0), "{file}: {line:?}\n{}", String::from_utf8_lossy(&output.stderr));
            *seen.entry(line[1].clone()).or_default() += 1;
        }
    });
    let kinds: Vec<&str> = seen.keys().map(String::as_str).collect();
    assert_eq!(kinds, ["entrypoint", "opened", "post-start", "pre-stop", "probe"], "{seen:?}");
    let wrong = Command::new(env!("CARGO_BIN_EXE_podgate")).args(["pre-stop", "--until", "A", "--help"]).output();
    assert_eq!(wrong.expect("the agent").status.code(), Some(64), "the agent must reject a wrong flag");
}

#[test]
fn agent_accepts_the_command_lines_of_the_docs() {
    for (page, expected) in [("in-the-pod.md", 7), ("by-hand.md", 20)] {
        let path = format!("{}/docs/{page}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut seen = 0;
        for block in text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let block: Value = serde_saphyr::from_str(block).unwrap_or_else(|error| panic!("{error}: {block}"));
            // A block is a Pod, its spec, its containers, or one container.
            let containers = [&block["spec"]["containers"], &block["containers"], &block];
            let containers = containers.into_iter().find_map(Value::as_array);
            let containers = containers.map_or(std::slice::from_ref(&block), Vec::as_slice);
            for line in containers.iter().flat_map(agent_lines) {
                let help = Command::new(env!("CARGO_BIN_EXE_podgate")).args(&line[1..]).arg("--help").output();
                let help = help.expect("the agent");
                assert_eq!(help.status.code(), Some(0), "{line:?}\n{}", String::from_utf8_lossy(&help.stderr));
                seen += 1;
            }
        }
        assert_eq!(seen, expected, "{page}");
    }
}

#[test]
fn sidecar_list_matches_the_containers() {
    each_with_sidecar(|file, original, injected| {
        let entries = sidecar_containers(injected);
        // A native sidecar is in the list if a container waits for its readinessProbe.
        let is_waited_for = |one: &&Value| {
            entries.iter().any(|entry| entry.until.iter().any(|until| one["name"] == until.container.as_str()))
        };
        let natives = list(&injected["spec"], "initContainers").filter(is_waited_for);
        let regular = list(&injected["spec"], "containers").filter(|one| one["name"] != "podgate");
        let containers: Vec<&Value> = natives.chain(regular).collect();
        let names: Vec<&str> = containers.iter().map(|one| one["name"].as_str().expect("a name")).collect();
        assert_eq!(
            entries.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
            names,
            "{file}: must be in list order"
        );
        for (entry, container) in entries.iter().zip(containers) {
            let name = &entry.name;
            let gate = strings(&container["command"]);
            let post_start = hook(container, "postStart");
            let only_reports = |hook: &AgentCommand| hook.values("--until") == [format!("{name}=Started")];
            let hook_line = line(&post_start, "post-start");
            let is_wrapped = line(&strings(&container["readinessProbe"]["exec"]["command"]), "probe").is_some();
            assert_eq!(
                entry.reports_start,
                is_wrapped || hook_line.as_ref().is_some_and(only_reports),
                "{file}: {name}"
            );
            let (mode, read) = if let Some(hook) = hook_line.filter(|hook| !only_reports(hook)) {
                (Mode::PostStart, hook)
            } else if let Some(gate) = line(&gate, "entrypoint") {
                (Mode::Entrypoint, gate)
            } else if is_held(container) {
                (Mode::Hold, AgentCommand::new("none"))
            } else {
                (Mode::None, AgentCommand::new("none"))
            };
            assert_eq!(entry.mode, mode, "{file}: {name}");
            let conditions: Vec<_> =
                read.values("--until").iter().map(|one| one.parse().expect("a condition")).collect();
            // Without --until, a hook waits for its own container.
            if mode == Mode::Entrypoint || !conditions.is_empty() {
                assert_eq!(entry.until, conditions, "{file}: {name}");
            }
            let pre_stop = line(&hook(container, "preStop"), "pre-stop");
            assert_eq!(entry.pre_stop, pre_stop.is_some(), "{file}: {name}");
            // The start of the other container's hook is the sign that the whole Pod stops.
            for other in pre_stop.iter().flat_map(|hook| hook.values("--until")) {
                assert!(entries.iter().any(|one| one.name == *other && one.pre_stop), "{file}: {name}, {other}");
            }
            // The sidecar's list has the original probes.
            let mut before = list(&original["spec"], "initContainers").chain(list(&original["spec"], "containers"));
            let before = before.find(|one| one["name"] == name.as_str()).expect("the container");
            let is_replaced = !original["metadata"]["annotations"][format!("ready.podgate.io/{name}")].is_null();
            let has = |field: &str| !is_replaced && !before[field].is_null();
            assert_eq!(entry.startup_probe.is_some(), has("startupProbe"), "{file}: {name}");
            let has_ready = entry.readiness_probe.is_some() || entry.ready_check.is_some();
            assert_eq!(has_ready, has("readinessProbe") || is_replaced, "{file}: {name}");
            let same = ["readinessProbe", "livenessProbe", "image", "envFrom", "ports", "resources", "securityContext"];
            let unless_held =
                ["env", "command", "args", "startupProbe"].into_iter().skip(usize::from(mode == Mode::Hold));
            let unless_gated = unless_held.take(if mode == Mode::Entrypoint { 1 } else { 4 });
            let same = same.into_iter().skip(usize::from(is_wrapped));
            for field in same.chain(unless_gated) {
                assert_eq!(container.get(field), before.get(field), "{file}: {name}");
            }
        }
    });
}

#[test]
fn gate_keeps_the_original_command_and_args() {
    let mut compared = 0;
    each_injected(|file, original, injected| {
        for container in list(&injected["spec"], "containers") {
            let command = strings(&container["command"]);
            let Some(end) =
                command.iter().position(|word| word == "--").filter(|_| line(&command, "entrypoint").is_some())
            else {
                continue;
            };
            let before = list(&original["spec"], "containers")
                .find(|one| one["name"] == container["name"])
                .expect("the container");
            assert_eq!(container.get("args"), before.get("args"), "{file}");
            let own = strings(&before["command"]);
            if !own.is_empty() {
                assert_eq!(command[end + 1..], own, "{file}");
                compared += 1;
            }
        }
    });
    assert!(compared > 20, "only {compared} commands");
}

#[test]
fn mounts_match_the_volumes() {
    each_with_sidecar(|file, _, injected| {
        let spec = &injected["spec"];
        let volumes: Vec<&str> = list(spec, "volumes").filter_map(|one| one["name"].as_str()).collect();
        let all = || list(spec, "containers").chain(list(spec, "initContainers"));
        for volume in volumes.iter().filter(|volume| volume.starts_with("podgate")) {
            let is_mounted = all().any(|one| list(one, "volumeMounts").any(|mount| mount["name"] == *volume));
            assert!(is_mounted, "{file}: no container mounts {volume}");
        }
        let has_api = strings(&sidecar(injected)["args"]) != ["--publish", "none"];
        let has_exec = sidecar_containers(injected).iter().any(Container::uses_kubelet_ready);
        for container in all() {
            let name = container["name"].as_str().expect("a name");
            let waits = |line: &Vec<String>| line[1] == "post-start" && !line.contains(&format!("{name}=Started"));
            let has_hook = agent_lines(container).iter().any(waits);
            let reads_annotations = list(container, "volumeMounts").any(|one| one["name"] == "podgate-info");
            assert_eq!(reads_annotations, has_hook || name == "podgate" && has_api && has_exec, "{file}: {name}");
            for mount in list(container, "volumeMounts") {
                let volume = mount["name"].as_str().expect("a name");
                if volume.starts_with("podgate") {
                    assert!(volumes.contains(&volume), "{file}: {name} mounts {volume}");
                    assert!(
                        volume != "podgate-api" || name == "podgate",
                        "{file}: {name} can read the sidecar's token"
                    );
                }
            }
            let own: Vec<&Value> =
                list(container, "volumeMounts").filter(|one| one["name"] == "podgate-self").collect();
            let needs = name == "podgate" || !agent_lines(container).is_empty();
            assert_eq!(own.len(), usize::from(needs), "{file}: {name}");
            let sub_path = own.first().and_then(|one| one["subPath"].as_str());
            assert_eq!(sub_path, (needs && name != "podgate").then_some(name), "{file}");
        }
        assert_eq!(volumes.contains(&"podgate-api"), has_api, "{file}");
        let names: Vec<&str> = list(sidecar(injected), "env").filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names.contains(&"POD_UID"), has_api, "{file}");
    });
}

#[test]
fn held_container_gets_a_variable_and_a_mount() {
    let mut seen = 0;
    each_with_sidecar(|file, original, injected| {
        let entries = sidecar_containers(injected);
        let mount_paths: Vec<&str> =
            list(sidecar(injected), "volumeMounts").filter_map(|one| one["mountPath"].as_str()).collect();
        let has_hold = entries.iter().any(|entry| entry.mode == Mode::Hold);
        let volume = list(&injected["spec"], "volumes").find(|one| one["name"] == "podgate-hold");
        let emptydir = json!({"name": "podgate-hold", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}});
        assert_eq!(volume, has_hold.then_some(&emptydir), "{file}");
        for path in ["/podgate-hold", "/podgate-hold-canary"] {
            assert_eq!(mount_paths.contains(&path), has_hold, "{file}");
        }
        for entry in entries.iter().filter(|entry| entry.mode == Mode::Hold) {
            let find =
                |value: &Value| list(&value["spec"], "containers").find(|one| one["name"] == *entry.name).cloned();
            let (before, held) = (find(original).expect("the original"), find(injected).expect("the container"));
            let from = json!({"volumeName": "podgate-hold", "path": format!("keys/{}", entry.name), "key": "OPEN"});
            let variable = json!({"name": "PODGATE_HOLD", "valueFrom": {"fileKeyRef": from}});
            let env: Vec<Value> = list(&before, "env").cloned().chain([variable]).collect();
            assert_eq!(held["env"], json!(env), "{file}");
            let mount = json!({"name": "podgate-hold", "mountPath": "/podgate-hold",
                "subPathExpr": "gate/$(PODGATE_HOLD)", "readOnly": true});
            assert!(list(&held, "volumeMounts").any(|one| *one == mount), "{file}: {held:#}");
            let probes = (before["startupProbe"].is_null(), held["startupProbe"].is_null());
            assert!(!entry.until.is_empty() && probes.0 == probes.1, "{file}");
            seen += 1;
        }
    });
    assert!(seen >= 5, "{seen}");
}

#[test]
fn time_limit_of_a_held_container_is_in_the_sidecars_list() {
    let done = super::injected(&super::corpus::templates("hold.yaml").remove(0)).value;
    let limits: Vec<_> = sidecar_containers(&done)
        .iter()
        .map(|entry| (entry.name.clone(), entry.mode, entry.timeout_seconds, entry.continue_on_timeout))
        .collect();
    let held = |name: &str, seconds| (name.to_owned(), Mode::Hold, Some(seconds), true);
    let db = ("db".to_owned(), Mode::None, None, false);
    assert_eq!(limits, [held("web", 2), db, held("api", 300), held("worker", 300)], "seconds are rounded up");
}

#[test]
fn startup_probe_outlasts_the_gate() {
    let mut compared = 0;
    each_injected(|file, _, injected| {
        for container in list(&injected["spec"], "containers") {
            let gate = line(&strings(&container["command"]), "entrypoint");
            let Some(gate) = gate.filter(|gate| !gate.values("--until").is_empty()) else { continue };
            let timeout = humantime::parse_duration(gate.values("--timeout")[0]).expect("a duration").as_secs();
            let probe = &container["startupProbe"];
            if probe.is_null() {
                let (ready, live) = (&container["readinessProbe"], &container["livenessProbe"]);
                let fails = ready["httpGet"].is_object() || ready["grpc"].is_object();
                assert!(fails && live.is_null(), "{file}: {container}");
                continue;
            }
            assert!(line(&strings(&probe["exec"]["command"]), "opened").is_some(), "{file}: {}", container["name"]);
            assert_eq!(probe["periodSeconds"], 1, "{file}");
            assert!(
                probe["timeoutSeconds"].as_u64() > Some(timeout),
                "{file}: the gate must give up before the kubelet does"
            );
            compared += 1;
        }
    });
    assert!(compared > 20, "only {compared} gates");
}

#[test]
fn users_sleep_hook_is_kept() {
    let template = super::corpus::templates("hooks-sleep.yaml").remove(0);
    let done = super::injected(&template).value;
    let [db, app, other] = [0, 1, 2].map(|at| &done["spec"]["containers"][at]);
    let line = |of, which: &str| AgentCommand::parse(&hook(of, which)).expect("a command line of the agent");
    let then = |of, which: &str| line(of, which).values("--then").concat();
    assert_eq!(then(db, "postStart"), r#"["/podgate/bin/podgate","sleep","2s"]"#);
    assert_eq!(then(db, "preStop"), r#"["/podgate/bin/podgate","sleep","10s"]"#);
    assert_eq!(line(db, "preStop").values("--then-timeout"), ["11s"], "the wait must leave enough time for the sleep");
    assert_eq!(then(app, "preStop"), r#"["/podgate/bin/podgate","sleep","5s"]"#);
    assert_eq!(other, &template["spec"]["containers"][2]);
    let record = done["metadata"]["annotations"]["podgate.io/injected"].as_str().expect("a record");
    assert!(!record.contains("sleep"), "the record must not store data that can be derived: {record}");
}

/// The rules can restart a container despite its policy. If podgate cannot read the rules, the policy is unknown.
#[test]
fn list_has_the_policy_and_the_restart_rules() {
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let container = |name: &str, policy: &str, rules: Value| {
        json!({"name": name, "image": "x", "command": ["x"], "readinessProbe": {"tcpSocket": {"port": 1}},
            "restartPolicy": policy, "restartPolicyRules": rules})
    };
    let containers = json!([
        container("a", "Never", rules.clone()),
        container("b", "Never", Value::Null),
        container("c", "Never", json!("unreadable"))
    ]);
    let metadata = json!({"annotations": {"podgate.io/order": "a, b, c"}});
    let done = injected(&json!({"metadata": metadata, "spec": {"containers": containers}}));
    let listed = sidecar_containers(&done.value).into_iter();
    let listed: Vec<_> = listed.map(|own| (own.restart_policy, json!(own.restart_policy_rules))).collect();
    let never = || Some("Never".to_owned());
    assert_eq!(listed, [(never(), rules), (never(), json!([])), (None, json!([]))]);
}
