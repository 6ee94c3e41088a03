//! A container's own lifecycle hooks, kept within podgate's.

use crate::core::argv::Argv;
use crate::core::command::{AgentCommand, agent_path};
use crate::core::container::{Container, HttpGet};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::checks::{self, AgentCheck};
use crate::order::inject::parts;
use serde_json::{Value, json};
use std::time::Duration;

/// How long a command of the user's is to have; the agent's own default of --then-timeout.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// A hook of the user's.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum UserHook {
    /// There is none.
    None,
    /// A command.
    Exec(Argv),
    /// The kubelet waits for so many seconds.
    Sleep(u64),
    /// The kubelet asks a web server.
    HttpGet(Box<HttpGet>),
    /// Nothing that Kubernetes runs.
    Invalid,
}

/// Reads a hook.
pub(super) fn user_hook(handler: Option<&Value>) -> UserHook {
    let Some(handler) = handler.filter(|handler| !handler.is_null()) else { return UserHook::None };
    let given = |field: &str| handler.get(field).filter(|value| !value.is_null());
    if given("exec").is_some() {
        let words = parts::exec_words(Some(handler)).unwrap_or_default();
        return checks::argv(&words).map_or(UserHook::Invalid, UserHook::Exec);
    }
    if let Some(sleep) = given("sleep") {
        return sleep.get("seconds").and_then(Value::as_u64).map_or(UserHook::Invalid, UserHook::Sleep);
    }
    match given("httpGet").map(|get| serde_json::from_value(get.clone())) {
        Some(Ok(get)) => UserHook::HttpGet(Box::new(get)),
        _ => UserHook::Invalid,
    }
}

/// The value of `--then` that runs the user's postStart hook `user_hook`, if there is one.
pub(super) fn then_post_start(own: UserHook, at: &Place) -> Result<Option<String>, Finding> {
    let (what, fix) = match own {
        UserHook::None => return Ok(None),
        UserHook::Exec(argv) => return Ok(Some(argv.to_string())),
        UserHook::Sleep(seconds) => return Ok(Some(sleep_command(seconds))),
        UserHook::HttpGet(_) => (
            "the container has a postStart hook of its own, an httpGet, which podgate's hook here can't take over: to the kubelet any \
             answer is a success",
            "write it as exec, which podgate runs first, or give this container an entrypoint gate, which needs no hook",
        ),
        UserHook::Invalid => {
            ("the container has a postStart hook of its own, and nothing that Kubernetes could run", "take it out")
        }
    };
    Err(Finding::error("own-post-start", at.clone(), what).fix(fix))
}

/// The user's preStop hook, run after the wait for others.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ThenCommand {
    /// The value of `--then`.
    pub(super) command: String,
    /// How long it takes, if that is known.
    pub(super) duration: Option<Duration>,
}

/// What runs the user's preStop hook `user_hook`, and what is to be said about it.
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
            let what = "the container has a preStop hook of its own, and nothing that Kubernetes could run";
            return Err(Finding::error("own-pre-stop", at.clone(), what).fix("take it out"));
        }
    };
    let asked = match container.resolve_port(&get.port).filter(|port| *port != 0) {
        Some(port) => checks::http_check(&get, port),
        None => AgentCheck::Unsupported("its port is not known"),
    };
    match asked {
        AgentCheck::Exact(check) => {
            let seconds = format!("{}s", COMMAND_TIMEOUT.as_secs());
            let command = agent_command(&["check", "--check-timeout", &seconds, &check.to_string()]);
            let what = format!(
                "the container's own preStop hook, an httpGet, is made from within the container, after the wait for others, and has \
                 {seconds}; an answer but 200 to 399 counts as a failure of the hook, which stops nothing"
            );
            Ok((
                Some(ThenCommand { command, duration: Some(COMMAND_TIMEOUT) }),
                Some(Finding::note("own-pre-stop", at.clone(), what)),
            ))
        }
        AgentCheck::PortOnly(_, why) | AgentCheck::Unsupported(why) => {
            let what = format!(
                "the container has a preStop hook of its own, an httpGet, which podgate's hook here can't take over: {why}"
            );
            Err(Finding::error("own-pre-stop", at.clone(), what)
                .fix("write it as exec, which podgate runs when the others are gone"))
        }
    }
}

/// Words of the agent's, as a value of `--then`.
fn agent_command(words: &[&str]) -> String {
    json!([&[agent_path().as_str()], words].concat()).to_string()
}

fn sleep_command(seconds: u64) -> String {
    agent_command(&["sleep", &format!("{seconds}s")])
}

/// What does nothing, in whatever image: for a hook that is there to be seen.
pub(super) fn no_op() -> ThenCommand {
    ThenCommand { command: agent_command(&["version"]), duration: Some(Duration::ZERO) }
}

/// The user's hook within `line`, podgate's: what `--then` holds, unless that is podgate's own doing.
pub(super) fn wrapped_hook(line: &[String]) -> Option<Value> {
    let line = AgentCommand::parse(line)?;
    let words: Vec<String> = serde_json::from_str(line.values("--then").first()?).ok()?;
    if words.first() != Some(&agent_path()) {
        return Some(json!({"exec": {"command": words}}));
    }
    // Otherwise it is there to be seen, or an httpGet, which the record has.
    let [_, sleep, time] = words.as_slice() else { return None };
    let seconds: u64 = time.strip_suffix('s').filter(|_| sleep == "sleep")?.parse().ok()?;
    Some(json!({"sleep": {"seconds": seconds}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_command_goes_in_and_comes_out_as_it_was() {
        for hook in
            [json!({"exec": {"command": ["sh", "-c", "echo \"$(X)\" -- --then \\"]}}), json!({"sleep": {"seconds": 7}})]
        {
            let then = then_post_start(user_hook(Some(&hook)), &Place::root()).unwrap().unwrap();
            let line = ["podgate", "post-start", "--then", &then].map(str::to_owned);
            assert_eq!(wrapped_hook(&line), Some(hook));
        }
        let line = ["podgate", "pre-stop", "--then", &no_op().command].map(str::to_owned);
        assert_eq!(wrapped_hook(&line), None);
    }

    #[test]
    fn what_the_agent_can_not_do_is_refused() {
        for hook in
            [json!({"sleep": {}}), json!({"httpGet": {"port": 1}}), json!({"tcpSocket": {"port": 1}}), json!({})]
        {
            assert!(then_post_start(user_hook(Some(&hook)), &Place::root()).is_err(), "{hook}");
        }
        let container = Container::default();
        let pre_stop = |hook: Value| then_pre_stop(user_hook(Some(&hook)), &container, &Place::root());
        assert!(pre_stop(json!({"httpGet": {"port": "web"}})).is_err());
        assert!(pre_stop(json!({"httpGet": {"port": 8080, "scheme": "HTTPS"}})).is_err());
        let (then, note) = pre_stop(json!({"httpGet": {"port": 8080, "path": "/quit"}})).unwrap();
        assert!(then.unwrap().command.ends_with(r#""http://127.0.0.1:8080/quit"]"#) && note.is_some());
        assert_eq!(user_hook(None), UserHook::None);
        assert_eq!(user_hook(Some(&Value::Null)), UserHook::None);
    }
}
