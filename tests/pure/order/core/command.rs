//! Tests of `podgate::core::command`.

use podgate::core::command::*;
use podgate::core::container::Mode;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn parse(line: &str) -> Option<Gate> {
    Gate::from_command(&AgentCommand::parse(&words(line))?)
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
        let gate = parse(&format!("/podgate/bin/podgate {line}")).unwrap();
        let conditions: Vec<String> = gate.until.iter().map(ToString::to_string).collect();
        let found = (conditions.join(" "), gate.checks.join(" "), gate.timeout.as_str());
        assert_eq!(found, (until.to_owned(), checks.to_owned(), timeout), "{line}");
        assert_eq!(gate.mode == Mode::PostStart, line.starts_with("post-start"));
    }
    for other in ["podgate", "podgate version", "podgate opened --check tcp://h:1", "sh post-start"] {
        assert_eq!(parse(other), None, "{other}");
    }
}
