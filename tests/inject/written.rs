//! What is written is what agent and sidecar read: their own parsers are the judges.

use crate::corpus::each_injected;
use podgate::core::command::AgentCommand;
use podgate::core::container::{Container, Mode};
use podgate::core::container_list::parse_list;
use serde_json::Value;
use std::process::Command;

/// A text as the kubelet hands it on, no variable being known
/// (`k8s.io/kubernetes/third_party/forked/golang/expansion`): `$$` is `$`, and `$(NAME)` stays.
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
    first.unwrap_or_else(|| panic!("no sidecar comes first: {template:#}"))
}

fn told(template: &Value) -> Vec<Container> {
    let text = list(sidecar(template), "env").find(|one| one["name"] == "PODGATE_CONTAINERS").expect("the variable");
    let text = expanded(text["value"].as_str().expect("a text"));
    parse_list(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn hook(container: &Value, which: &str) -> Vec<String> {
    strings(&container["lifecycle"][which]["exec"]["command"])
}

/// The line that runs the agent's `subcommand`, if it does.
fn line(words: &[String], subcommand: &str) -> Option<AgentCommand> {
    AgentCommand::parse(words).filter(|line| line.has_subcommand(subcommand))
}

/// The agent's own words of a container: its command lines, up to `--`.
fn agent_lines(container: &Value) -> Vec<Vec<String>> {
    let command = strings(&container["command"]);
    let end = command.iter().position(|word| word == "--").unwrap_or(command.len());
    let all = [
        command[..end].to_vec(),
        hook(container, "postStart"),
        hook(container, "preStop"),
        strings(&container["startupProbe"]["exec"]["command"]),
    ];
    all.into_iter().filter(|line| line.first().is_some_and(|program| program == "/podgate/bin/podgate")).collect()
}

#[test]
fn the_agent_takes_every_command_line() {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    each_injected(|file, _, injected| {
        for line in list(&injected["spec"], "containers").flat_map(agent_lines) {
            // With --help nothing is done, but what stands before it is read.
            let output =
                Command::new(env!("CARGO_BIN_EXE_podgate")).args(&line[1..]).arg("--help").output().expect("the agent");
            assert_eq!(output.status.code(), Some(0), "{file}: {line:?}\n{}", String::from_utf8_lossy(&output.stderr));
            *seen.entry(line[1].clone()).or_default() += 1;
        }
    });
    let kinds: Vec<&str> = seen.keys().map(String::as_str).collect();
    assert_eq!(kinds, ["entrypoint", "opened", "post-start", "pre-stop"], "{seen:?}");
    let wrong = Command::new(env!("CARGO_BIN_EXE_podgate")).args(["pre-stop", "--until", "A", "--help"]).output();
    assert_eq!(wrong.expect("the agent").status.code(), Some(64), "a wrong one would be seen");
}

#[test]
fn the_agent_takes_the_lines_of_the_documents() {
    let path = format!("{}/docs/injected.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut seen = 0;
    for block in text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        let container: Value = serde_saphyr::from_str(block).unwrap_or_else(|error| panic!("{error}: {block}"));
        for line in agent_lines(&container) {
            let output =
                Command::new(env!("CARGO_BIN_EXE_podgate")).args(&line[1..]).arg("--help").output().expect("the agent");
            assert_eq!(output.status.code(), Some(0), "{line:?}\n{}", String::from_utf8_lossy(&output.stderr));
            seen += 1;
        }
    }
    assert_eq!(seen, 4);
}

#[test]
fn the_sidecar_is_told_what_the_containers_do() {
    each_injected(|file, original, injected| {
        let told = told(injected);
        let containers: Vec<&Value> =
            list(&injected["spec"], "containers").filter(|one| one["name"] != "podgate").collect();
        let names: Vec<&str> = containers.iter().map(|one| one["name"].as_str().expect("a name")).collect();
        assert_eq!(told.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), names, "{file}: in the list's order");
        for (told, container) in told.iter().zip(containers) {
            let name = &told.name;
            let gate = strings(&container["command"]);
            let post_start = hook(container, "postStart");
            let (mode, read) = if let Some(hook) = line(&post_start, "post-start") {
                (Mode::PostStart, hook)
            } else if let Some(gate) = line(&gate, "entrypoint") {
                (Mode::Entrypoint, gate)
            } else {
                (Mode::None, AgentCommand::new("none"))
            };
            assert_eq!(told.mode, mode, "{file}: {name}");
            let untils: Vec<_> = read.values("--until").iter().map(|one| one.parse().expect("a condition")).collect();
            // A hook waits for its own container if nothing is said.
            if mode == Mode::Entrypoint || !untils.is_empty() {
                assert_eq!(told.until, untils, "{file}: {name}");
            }
            assert_eq!(told.pre_stop, line(&hook(container, "preStop"), "pre-stop").is_some(), "{file}: {name}");
            // Probes as they were before.
            let before =
                list(&original["spec"], "containers").find(|one| one["name"] == name.as_str()).expect("the container");
            assert_eq!(told.startup_probe.is_some(), !before["startupProbe"].is_null(), "{file}: {name}");
            assert_eq!(told.readiness_probe.is_some(), !before["readinessProbe"].is_null(), "{file}: {name}");
            for field in
                ["readinessProbe", "livenessProbe", "image", "env", "envFrom", "ports", "resources", "securityContext"]
            {
                assert_eq!(container.get(field), before.get(field), "{file}: {name}");
            }
        }
    });
}

#[test]
fn a_gate_stands_in_front_of_exactly_what_ran_before() {
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
            }
        }
    });
}

#[test]
fn mounts_and_volumes_go_together() {
    each_injected(|file, _, injected| {
        let spec = &injected["spec"];
        let volumes: Vec<&str> = list(spec, "volumes").filter_map(|one| one["name"].as_str()).collect();
        let all = list(spec, "containers").chain(list(spec, "initContainers"));
        for container in all {
            let name = container["name"].as_str().expect("a name");
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
        let is_board = strings(&sidecar(injected)["args"]) == ["--publish", "board"];
        assert_eq!(volumes.contains(&"podgate-api"), !is_board, "{file}");
    });
}

#[test]
fn nobody_is_killed_for_waiting_in_a_gate() {
    each_injected(|file, _, injected| {
        for container in list(&injected["spec"], "containers") {
            let gate = line(&strings(&container["command"]), "entrypoint");
            let Some(gate) = gate.filter(|gate| !gate.values("--until").is_empty()) else { continue };
            let timeout = humantime::parse_duration(gate.values("--timeout")[0]).expect("a duration").as_secs();
            let probe = &container["startupProbe"];
            assert!(line(&strings(&probe["exec"]["command"]), "opened").is_some(), "{file}: {}", container["name"]);
            assert_eq!(probe["periodSeconds"], 1, "{file}");
            assert!(
                probe["failureThreshold"].as_u64() > Some(timeout),
                "{file}: the gate gives up before the kubelet does"
            );
        }
    });
}

#[test]
fn a_users_sleep_goes_on_sleeping() {
    let template = crate::corpus::templates("hooks-sleep.yaml").remove(0);
    let done = crate::injected(&template).value;
    let (db, app) = (&done["spec"]["containers"][0], &done["spec"]["containers"][1]);
    let line = |which: &str| AgentCommand::parse(&hook(db, which)).expect("a line of the agent's");
    let then = |which: &str| line(which).values("--then").concat();
    assert_eq!(then("postStart"), r#"["/podgate/bin/podgate","sleep","2s"]"#);
    assert_eq!(then("preStop"), r#"["/podgate/bin/podgate","sleep","10s"]"#);
    assert_eq!(line("preStop").values("--then-timeout"), ["11s"], "what the wait leaves is enough");
    assert_eq!(app["lifecycle"]["preStop"], template["spec"]["containers"][1]["lifecycle"]["preStop"]);
    let record = done["metadata"]["annotations"]["podgate.io/injected"].as_str().expect("a record");
    assert!(!record.contains("sleep"), "what can be derived is not stored: {record}");
}
