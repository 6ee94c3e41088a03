//! Runs a container's own lifecycle hooks from podgate's hooks.

use crate::core::argv::Argv;
use crate::core::command::{AgentCommand, agent_path};
use crate::core::container::{Container, HttpGet, is_http};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::checks;
use crate::order::inject::parts;
use crate::order::limits::parse_json;
use serde_json::{Value, json};
use std::time::Duration;

/// Lifecycle hook in the user's manifest.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum UserHook {
    /// No hook.
    None,
    /// Command that runs inside the container.
    Exec(Argv),
    /// Sleep by the kubelet, in seconds.
    Sleep(u64),
    /// HTTP request from the kubelet.
    HttpGet(Box<HttpGet>),
    /// Hook that Kubernetes cannot run.
    Invalid,
}

pub(super) fn user_hook(handler: Option<&Value>) -> UserHook {
    let Some(handler) = handler.filter(|handler| !handler.is_null()) else { return UserHook::None };
    let given = |field: &str| handler.get(field).filter(|value| !value.is_null());
    if given("exec").is_some() {
        let words = parts::exec_words(Some(handler)).unwrap_or_default();
        return Argv::new(words).map_or(UserHook::Invalid, UserHook::Exec);
    }
    if let Some(sleep) = given("sleep") {
        return sleep.get("seconds").and_then(Value::as_u64).map_or(UserHook::Invalid, UserHook::Sleep);
    }
    match given("httpGet").map(|get| serde_json::from_value(get.clone())) {
        Some(Ok(get)) => UserHook::HttpGet(Box::new(get)),
        _ => UserHook::Invalid,
    }
}

/// Returns the value of `--then` that runs the user's postStart hook; `None` if the container has no such hook.
pub(super) fn then_post_start(own: UserHook, container: &Container, at: &Place) -> Result<Option<String>, Finding> {
    then_command(own, container).map_err(|(what, fix)| {
        let what = format!("the postStart hook of {} {what}", container.name);
        Finding::error("own-post-start", at.clone(), what).fix(fix)
    })
}

/// Command for the user's preStop hook, which runs after the wait for other containers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ThenCommand {
    pub(super) command: String,
    /// Duration of the command, if known.
    pub(super) duration: Option<Duration>,
}

/// Returns the command that runs the user's preStop hook.
pub(super) fn then_pre_stop(own: UserHook, container: &Container, at: &Place) -> Result<Option<ThenCommand>, Finding> {
    let duration = match own {
        UserHook::Sleep(seconds) => Some(Duration::from_secs(seconds)),
        _ => None,
    };
    let command = then_command(own, container).map_err(|(what, fix)| {
        let what = format!("the preStop hook of {} {what}", container.name);
        Finding::error("own-pre-stop", at.clone(), what).fix(fix)
    })?;
    Ok(command.map(|command| ThenCommand { command, duration }))
}

/// Returns the command that does the same as the user's hook. The error is the problem of the hook, and the fix.
fn then_command(own: UserHook, container: &Container) -> Result<Option<String>, (&'static str, &'static str)> {
    let get = match own {
        UserHook::None => return Ok(None),
        UserHook::Exec(argv) => return Ok(Some(argv.to_string())),
        UserHook::Sleep(seconds) => return Ok(Some(agent_command(&["sleep", &format!("{seconds}s")]))),
        UserHook::Invalid => return Err(("has no action that Kubernetes can run", "remove it")),
        UserHook::HttpGet(get) => get,
    };
    let port = container.resolve_port(&get.port).filter(|port| *port != 0);
    let check = port.map(|port| checks::http_check(&get, port)).filter(checks::is_valid);
    match check {
        Some(check) if is_http(&get.scheme) => Ok(Some(agent_command(&["check", "--hook", &check.to_string()]))),
        Some(_) => Err(("is an httpGet with HTTPS, and podgate's agent has no TLS", "write it as exec")),
        None => Err(("is an httpGet whose host, port or header is invalid", "correct it")),
    }
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
