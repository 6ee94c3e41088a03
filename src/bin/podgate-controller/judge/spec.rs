//! What a container's spec says of its part in the order: podgate's own commands in it are read back. Pure.

use crate::input::observe::{ApiContainer, Handler};
use podgate::core::agent_line;
use podgate::core::argv::Check;
use podgate::core::container::{self, Container, HttpGet, Mode, PortRef, Probe, TcpSocket};
use podgate::core::until::Until;

/// The container as it is declared by its spec.
pub(crate) fn declared(container: &ApiContainer) -> Container {
    let hook = |handler: &Option<Handler>, subcommand: &str| -> Option<Vec<String>> {
        let command = handler.as_ref()?.exec.as_ref()?.command.clone();
        agent_line::runs(&command, subcommand).then_some(command)
    };
    let whole = [container.command.as_slice(), &container.args].concat();
    let (mode, until) = if let Some(command) = hook(&container.lifecycle.post_start, "post-start") {
        (Mode::PostStart, untils(&command))
    } else if agent_line::runs(&whole, "entrypoint") {
        (Mode::Entrypoint, untils(&whole))
    } else {
        (Mode::None, Vec::new())
    };
    Container {
        name: container.name.clone(),
        ports: container.ports.clone(),
        startup_probe: container.startup_probe.as_ref().and_then(originally),
        readiness_probe: container.readiness_probe.clone(),
        restart_policy: container.restart_policy.clone(),
        mode,
        pre_stop: hook(&container.lifecycle.pre_stop, "pre-stop").is_some(),
        until,
    }
}

/// The conditions of the agent's command line `words`; what is written otherwise, by the environment say, is not known here.
fn untils(words: &[String]) -> Vec<Until> {
    let lists = agent_line::values(words, "--until");
    lists.iter().flat_map(|list| list.split(',')).filter_map(|item| item.parse().ok()).collect()
}

/// A startupProbe without podgate's part in it: of `podgate opened --check URL` the check is left, of `podgate opened` nothing.
/// Neither could tell more from outside, where it can't be run.
fn originally(probe: &Probe) -> Option<Probe> {
    let container::Handler::Exec(exec) = &probe.handler else { return Some(probe.clone()) };
    if !agent_line::runs(&exec.command, "opened") {
        return Some(probe.clone());
    }
    let check = agent_line::values(&exec.command, "--check").into_iter().find_map(|url| url.parse().ok())?;
    let handler = match check {
        Check::Tcp { host, port } => {
            container::Handler::TcpSocket(TcpSocket { port: PortRef::Number(port), host: Some(host) })
        }
        Check::Http { host, port, path } => container::Handler::HttpGet(HttpGet {
            path: Some(path),
            port: PortRef::Number(port),
            host: Some(host),
            scheme: None,
            http_headers: Vec::new(),
        }),
        Check::Exec(argv) => container::Handler::Exec(container::Exec { command: argv.as_slice().to_vec() }),
        Check::File { .. } => return None,
    };
    Some(Probe { handler, ..probe.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(command: &[&str]) -> Probe {
        serde_json::from_value(
            serde_json::json!({"exec": {"command": command}, "periodSeconds": 1, "failureThreshold": 300}),
        )
        .unwrap()
    }

    #[test]
    fn of_podgates_own_startup_probe_the_check_is_left() {
        let agent = "/podgate/bin/podgate";
        assert_eq!(originally(&probe(&[agent, "opened"])), None);
        let http = originally(&probe(&[agent, "opened", "--check", "http://127.0.0.1:8080/ready"])).unwrap();
        assert!(matches!(&http.handler, container::Handler::HttpGet(get) if get.port == PortRef::Number(8080)));
        assert_eq!((http.period_seconds, http.failure_threshold), (1, 300));
        let exec = originally(&probe(&[agent, "opened", "--check=exec:[\"pg_isready\"]"])).unwrap();
        assert!(exec.is_exec());
        let foreign = probe(&["opened"]);
        assert_eq!(originally(&foreign), Some(foreign));
    }
}
