//! What a container's spec says of its hook or its gate, read from the command line that the agent gets.

use crate::pod::Container;
use podgate::core::agent_line;
use podgate::core::container::Mode;
use podgate::core::until::Until;

/// A hook that holds back what comes after its container, or a gate in front of its container's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) mode: Mode,
    /// The states that it waits for.
    pub(crate) until: Vec<Until>,
    /// The checks that it waits for besides, as they are written.
    pub(crate) checks: Vec<String>,
    /// How long it waits, as it is written.
    pub(crate) timeout: String,
}

/// The agent's own default.
const TIMEOUT: &str = "5m";

/// The container's hook or gate, if it has one.
pub(crate) fn gate(container: &Container) -> Option<Gate> {
    let command: Vec<String> = container.command.iter().chain(&container.args).cloned().collect();
    let (mode, line) = if agent_line::runs(container.post_start(), "post-start") {
        (Mode::PostStart, container.post_start())
    } else if agent_line::runs(&command, "entrypoint") {
        (Mode::Entrypoint, command.as_slice())
    } else {
        return None;
    };
    let words = Words { line: &line[2..], container };
    let of = words.all("--container", "PODGATE_CONTAINER").pop().unwrap_or_else(|| container.name.clone());
    let listed = words.all("--until", "PODGATE_UNTIL");
    let mut until: Vec<Until> =
        listed.iter().flat_map(|list| list.split(',')).filter_map(|one| one.trim().parse().ok()).collect();
    if until.is_empty() && mode == Mode::PostStart {
        until.extend(of.parse::<Until>().ok());
    }
    Some(Gate {
        mode,
        until,
        checks: words.all("--check", "PODGATE_CHECK"),
        timeout: words.all("--timeout", "PODGATE_TIMEOUT").pop().unwrap_or_else(|| TIMEOUT.to_owned()),
    })
}

/// Whether it is podgate's sidecar.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    let runs =
        |line: &[String]| line.first().is_some_and(|program| agent_line::file_name(program) == "podgate-controller");
    runs(&container.command)
        || runs(container.post_start())
        || container.env.iter().any(|variable| variable.name == "PODGATE_CONTAINERS")
}

struct Words<'a> {
    line: &'a [String],
    container: &'a Container,
}

impl Words<'_> {
    /// The values of a flag, else the one of its environment twin.
    fn all(&self, flag: &str, twin: &str) -> Vec<String> {
        let mut values: Vec<String> = agent_line::values(self.line, flag).into_iter().map(str::to_owned).collect();
        if values.is_empty() {
            let set = self.container.env.iter().filter(|variable| variable.name == twin && !variable.value.is_empty());
            values.extend(set.map(|variable| variable.value.clone()));
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(value: serde_json::Value) -> Container {
        serde_json::from_value(value).unwrap()
    }

    fn hook(words: &[&str]) -> Gate {
        let line: Vec<&str> = ["/podgate/bin/podgate", "post-start"].iter().chain(words).copied().collect();
        gate(&container(json!({"name": "db", "lifecycle": {"postStart": {"exec": {"command": line}}}}))).unwrap()
    }

    fn untils(gate: &Gate) -> String {
        gate.until.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn reads_a_hook_as_the_agent_would() {
        for (words, until, checks, timeout) in [
            (&["--container", "db"][..], "db=Ready", &[][..], "5m"),
            (&["--container=db", "--until=db=Started", "--timeout", "2m"], "db=Started", &[], "2m"),
            (&["--until", "a,b=Started", "--until", "c"], "a=Ready b=Started c=Ready", &[], "5m"),
            (
                &["--check", "tcp://127.0.0.1:1", "--check=file:///x"],
                "db=Ready",
                &["tcp://127.0.0.1:1", "file:///x"],
                "5m",
            ),
            (&["--fallback-check", "tcp://127.0.0.1:1", "--check-timeout", "1s"], "db=Ready", &[], "5m"),
        ] {
            let gate = hook(words);
            assert_eq!((untils(&gate).as_str(), gate.timeout.as_str()), (until, timeout), "{words:?}");
            assert_eq!(gate.checks, checks, "{words:?}");
            assert_eq!(gate.mode, Mode::PostStart);
        }
    }

    #[test]
    fn an_environment_twin_counts_where_the_flag_is_not_given() {
        let twin = gate(&container(json!({
            "name": "db", "lifecycle": {"postStart": {"exec": {"command": ["podgate", "post-start"]}}},
            "env": [{"name": "PODGATE_UNTIL", "value": "db=Started"}, {"name": "PODGATE_TIMEOUT", "value": "1h"},
                    {"name": "PODGATE_CHECK", "valueFrom": {}}]})))
        .unwrap();
        assert_eq!((untils(&twin).as_str(), twin.timeout.as_str(), twin.checks.len()), ("db=Started", "1h", 0));
    }

    #[test]
    fn a_gate_reads_its_own_words_alone() {
        let words = json!(["--until", "db", "--", "sh", "--until", "x"]);
        let mut line = vec![json!("/podgate/bin/podgate"), json!("entrypoint")];
        line.extend(words.as_array().unwrap().clone());
        for value in
            [json!({"name": "api", "command": line}), json!({"name": "api", "command": line[..1], "args": line[1..]})]
        {
            let gate = gate(&container(value)).unwrap();
            assert_eq!((gate.mode, untils(&gate).as_str()), (Mode::Entrypoint, "db=Ready"));
        }
    }

    #[test]
    fn anything_else_is_no_gate() {
        for value in [
            json!({"name": "db"}),
            json!({"name": "db", "command": ["podgate"]}),
            json!({"name": "db", "command": ["podgate", "version"]}),
            json!({"name": "db", "lifecycle": {"postStart": {"exec": {"command": ["sh", "post-start"]}}}}),
            json!({"name": "db", "lifecycle": {"postStart": {"sleep": {"seconds": 3}}}}),
        ] {
            assert_eq!(gate(&container(value.clone())), None, "{value}");
        }
    }

    #[test]
    fn knows_the_sidecar_however_it_is_run() {
        for value in [
            json!({"name": "x", "command": ["/usr/bin/podgate-controller"]}),
            json!({"name": "x", "lifecycle": {"postStart": {"exec": {"command": ["/usr/bin/podgate-controller", "ready"]}}}}),
            json!({"name": "x", "env": [{"name": "PODGATE_CONTAINERS", "value": "[]"}]}),
        ] {
            assert!(is_sidecar(&container(value.clone())), "{value}");
        }
        assert!(!is_sidecar(&container(json!({"name": "podgate", "command": ["/podgate/bin/podgate"]}))));
    }
}
