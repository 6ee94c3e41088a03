//! Runs a container's own lifecycle hooks from podgate's hooks.

use crate::core::argv::Argv;
use crate::core::checks;
use crate::core::command::{AgentCommand, agent_path};
use crate::core::container::{Container, HttpGet, is_http};
use crate::order::declare::limits::parse_json;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::parts;
use serde_json::{Value, json};

/// Returns the seconds of a hook with the action `sleep`.
pub(super) fn sleep_seconds(hook: Option<&Value>) -> Option<u64> {
    hook?.pointer("/sleep/seconds")?.as_u64()
}

/// Returns the value of `--then`: a command that does the same as the user's `hook` in `field`. Fails with a finding of
/// `rule` if the agent cannot do the same. Returns `None` without a hook.
pub(super) fn then_command(
    hook: Option<&Value>,
    container: &Container,
    (field, rule): (&str, &'static str),
    at: &Place,
) -> Result<Option<String>, Finding> {
    let Some(own) = hook.filter(|hook| !hook.is_null()) else { return Ok(None) };
    if let Some(Ok(argv)) = parts::exec_words(hook).map(Argv::new) {
        return Ok(Some(argv.to_string()));
    }
    if let Some(seconds) = sleep_seconds(hook) {
        return Ok(Some(agent_command(&["sleep", &format!("{seconds}s")])));
    }
    let (problem, fix) = match serde_json::from_value::<HttpGet>(own["httpGet"].clone()) {
        Err(_) => ("has no action that Kubernetes can run", "remove it"),
        Ok(get) => {
            let port = container.resolve_port(&get.port).filter(|port| *port != 0);
            match port.map(|port| checks::http_check_without_scheme(&get, port)).filter(checks::is_valid) {
                Some(check) if is_http(&get.scheme) => {
                    return Ok(Some(agent_command(&["check", "--hook", &check.to_string()])));
                }
                Some(_) => ("is an httpGet with HTTPS, and podgate's agent has no TLS", "write it as exec"),
                None => ("is an httpGet whose host, port or header is invalid", "correct it"),
            }
        }
    };
    Err(Finding::error(rule, at.clone(), format!("the {field} hook of {} {problem}", container.name)).fix(fix))
}

/// Returns a command line of the agent, as the value of `--then`.
fn agent_command(words: &[&str]) -> String {
    json!([&[agent_path().as_str()], words].concat()).to_string()
}

/// Extracts the user's hook from `--then` in podgate's hook `line`; `None` if `line` contains no hook of the user.
pub(super) fn wrapped_hook(line: &AgentCommand) -> Option<Value> {
    let words: Vec<String> = parse_json(line.values("--then").first()?)?;
    if words.first() != Some(&agent_path()) {
        return Some(json!({"exec": {"command": words}}));
    }
    // Any other command of the agent replaces an httpGet that the record contains.
    let [_, sleep, time] = words.as_slice() else { return None };
    let seconds: u64 = time.strip_suffix('s').filter(|_| sleep == "sleep")?.parse().ok()?;
    Some(json!({"sleep": {"seconds": seconds}}))
}
