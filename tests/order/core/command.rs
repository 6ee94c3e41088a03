//! Tests of `podgate::core::command`.

use podgate::core::command::*;
use podgate::core::container::Mode;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn parse(line: &str, variables: EnvLookup<'_>) -> Option<Gate> {
    Gate::from_command(&AgentCommand::parse(&words(line))?, variables)
}

#[test]
fn gate_has_the_agents_defaults() {
    for (line, until, checks, timeout) in [
        ("post-start --container db", "db=Ready", "", "5m"),
        ("post-start --container=db --until=db=Started --timeout 2m", "db=Started", "", "2m"),
        ("post-start --until a,b=Started --until c", "a=Ready b=Started c=Ready", "", "5m"),
        ("post-start --container db --check tcp://h:1 --check=file:///x", "db=Ready", "tcp://h:1 file:///x", "5m"),
        ("post-start --container db --fallback-check tcp://h:1 --check-timeout 1s", "db=Ready", "", "5m"),
        ("entrypoint --container api", "", "", "5m"),
        ("entrypoint --until db -- sh --until x --timeout 1s", "db=Ready", "", "5m"),
    ] {
        let gate = parse(&format!("/podgate/bin/podgate {line}"), &|_| None).unwrap();
        let conditions: Vec<String> = gate.until.iter().map(ToString::to_string).collect();
        let found = (conditions.join(" "), gate.checks.join(" "), gate.timeout.as_str());
        assert_eq!(found, (until.to_owned(), checks.to_owned(), timeout), "{line}");
        assert_eq!(gate.mode == Mode::PostStart, line.starts_with("post-start"));
    }
    for other in ["podgate", "podgate version", "podgate opened --check tcp://h:1", "sh post-start"] {
        assert_eq!(parse(other, &|_| None), None, "{other}");
    }
}

#[test]
fn environment_variable_replaces_an_omitted_flag() {
    let variables = |name: &str| match name {
        "PODGATE_UNTIL" => Some("a,b=Started".to_owned()),
        "PODGATE_TIMEOUT" => Some("1h".to_owned()),
        "PODGATE_STOP_GRACE" => Some("9s".to_owned()),
        _ => None,
    };
    let gate = parse("podgate entrypoint --timeout 2m", &variables).unwrap();
    assert_eq!((gate.until.len(), gate.timeout.as_str()), (2, "2m"));
    let hook = AgentCommand::parse(&words("podgate pre-stop --container db")).unwrap();
    assert_eq!(
        (hook.values_or_env("--grace", &variables), hook.conditions(&variables)),
        (vec!["9s".to_owned()], vec![])
    );
}
