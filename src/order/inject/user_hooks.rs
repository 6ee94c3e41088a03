//! Runs a container's own lifecycle hooks from podgate's hooks.

use crate::core::argv::Argv;
use crate::core::command::{AgentCommand, agent_path};
use crate::core::container::{Container, HttpGet};
use crate::core::defaults::THEN_TIMEOUT;
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
pub(super) fn then_post_start(own: UserHook, name: &str, at: &Place) -> Result<Option<String>, Finding> {
    let (what, fix) = match own {
        UserHook::None => return Ok(None),
        UserHook::Exec(argv) => return Ok(Some(argv.to_string())),
        UserHook::Sleep(seconds) => return Ok(Some(sleep_command(seconds))),
        UserHook::HttpGet(_) => (
            "is an httpGet that podgate's hook cannot run: the kubelet accepts any HTTP answer, but the agent does not",
            "write it as exec, which podgate's hook runs first, or use entrypoint mode, which needs no hook",
        ),
        UserHook::Invalid => ("has no action that Kubernetes can run", "remove it"),
    };
    Err(Finding::error("own-post-start", at.clone(), format!("the postStart hook of {name} {what}")).fix(fix))
}

/// Command for the user's preStop hook, which runs after the wait for other containers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ThenCommand {
    pub(super) command: String,
    /// Duration of the command, if known.
    pub(super) duration: Option<Duration>,
}

/// Returns the command that runs the user's preStop hook, and a note for the user.
pub(super) fn then_pre_stop(
    own: UserHook,
    container: &Container,
    at: &Place,
) -> Result<(Option<ThenCommand>, Option<Finding>), Finding> {
    let get = match own {
        UserHook::None => return Ok((None, None)),
        UserHook::Exec(argv) => return Ok((Some(ThenCommand { command: argv.to_string(), duration: None }), None)),
        UserHook::Sleep(seconds) => {
            let takes = Some(Duration::from_secs(seconds));
            return Ok((Some(ThenCommand { command: sleep_command(seconds), duration: takes }), None));
        }
        UserHook::HttpGet(get) => get,
        UserHook::Invalid => {
            let what = format!("the preStop hook of {} has no action that Kubernetes can run", container.name);
            return Err(Finding::error("own-pre-stop", at.clone(), what).fix("remove it"));
        }
    };
    let converted = match container.resolve_port(&get.port).filter(|port| *port != 0) {
        Some(port) => checks::http_check(&get, port),
        None => Err("has no known port"),
    };
    match converted {
        Ok(check) => {
            let seconds = format!("{}s", THEN_TIMEOUT.as_secs());
            let command = agent_command(&["check", "--check-timeout", &seconds, &check.to_string()]);
            let what = format!(
                "when the other containers have exited, podgate's hook sends the preStop httpGet of {} from inside the container, for at \
                 most {seconds}. If the status is not 200 to 399, the hook fails, but the container stops anyway",
                container.name
            );
            Ok((
                Some(ThenCommand { command, duration: Some(THEN_TIMEOUT) }),
                Some(Finding::note("own-pre-stop", at.clone(), what)),
            ))
        }
        Err(why) => {
            let what = format!(
                "the preStop hook of {} is an httpGet that podgate's hook cannot run, because it {why}",
                container.name
            );
            Err(Finding::error("own-pre-stop", at.clone(), what)
                .fix("write it as exec, which podgate's hook runs when the other containers have exited"))
        }
    }
}

/// Returns a command line of the agent, as the value of `--then`.
fn agent_command(words: &[&str]) -> String {
    json!([&[agent_path().as_str()], words].concat()).to_string()
}

fn sleep_command(seconds: u64) -> String {
    agent_command(&["sleep", &format!("{seconds}s")])
}

/// Returns a command that does nothing and runs in any image. The hook needs no real command, because its start already
/// signals that the Pod stops.
pub(super) fn no_op() -> ThenCommand {
    ThenCommand { command: agent_command(&["version"]), duration: Some(Duration::ZERO) }
}

/// Extracts the user's hook from `--then` in podgate's hook `line`; `None` if `line` contains no hook of the user.
pub(super) fn wrapped_hook(line: &AgentCommand) -> Option<Value> {
    let words: Vec<String> = parse_json(line.values("--then").first()?)?;
    if words.first() != Some(&agent_path()) {
        return Some(json!({"exec": {"command": words}}));
    }
    // Any other command of the agent is a no-op, or replaces an httpGet that the record contains.
    let [_, sleep, time] = words.as_slice() else { return None };
    let seconds: u64 = time.strip_suffix('s').filter(|_| sleep == "sleep")?.parse().ok()?;
    Some(json!({"sleep": {"seconds": seconds}}))
}
