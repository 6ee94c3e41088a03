//! A container's own lifecycle hooks, kept within podgate's.

use crate::core::argv::Argv;
use crate::core::container::{Container, HttpGet};
use crate::core::edit::Place;
use crate::core::finding::Finding;
use crate::core::inject::checks::{self, Asked};
use crate::core::inject::parts;
use serde_json::Value;

/// A hook of the user's.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Own {
    /// There is none.
    None,
    /// A command.
    Exec(Argv),
    /// The kubelet waits so many seconds.
    Sleep,
    /// The kubelet asks a web server.
    HttpGet(Box<HttpGet>),
    /// Nothing that Kubernetes runs.
    Odd,
}

/// Reads a hook.
pub(super) fn own(handler: Option<&Value>) -> Own {
    let Some(handler) = handler.filter(|handler| !handler.is_null()) else { return Own::None };
    let given = |field: &str| handler.get(field).filter(|value| !value.is_null());
    if given("exec").is_some() {
        let words = parts::exec_words(Some(handler)).unwrap_or_default();
        return checks::argv(&words).map_or(Own::Odd, Own::Exec);
    }
    if given("sleep").is_some() {
        return Own::Sleep;
    }
    match given("httpGet").map(|get| serde_json::from_value(get.clone())) {
        Some(Ok(get)) => Own::HttpGet(Box::new(get)),
        _ => Own::Odd,
    }
}

/// The value of `--then` that runs the user's postStart hook `own`, if there is one.
pub(super) fn then_post_start(own: Own, at: &Place) -> Result<Option<String>, Finding> {
    let (what, mend) = match own {
        Own::None => return Ok(None),
        Own::Exec(argv) => return Ok(Some(argv.to_string())),
        Own::Sleep => (
            "the container has a postStart hook of its own, a sleep, which podgate's hook here can't take over",
            "write it as exec: [\"sleep\", \"5\"], which podgate runs first, or leave it out: podgate waits until the container is ready",
        ),
        Own::HttpGet(_) => (
            "the container has a postStart hook of its own, an httpGet, which podgate's hook here can't take over: to the kubelet any \
             answer is a success",
            "write it as exec, which podgate runs first, or give this container an entrypoint gate, which needs no hook",
        ),
        Own::Odd => {
            ("the container has a postStart hook of its own, and nothing that Kubernetes could run", "take it out")
        }
    };
    Err(Finding::error("own-post-start", at.clone(), what).mend(mend))
}

/// The value of `--then` that runs the user's preStop hook `own`, and what is to be said about it.
pub(super) fn then_pre_stop(
    own: Own,
    container: &Container,
    at: &Place,
) -> Result<(Option<String>, Option<Finding>), Finding> {
    let get = match own {
        Own::None => return Ok((None, None)),
        Own::Exec(argv) => return Ok((Some(argv.to_string()), None)),
        Own::HttpGet(get) => get,
        Own::Sleep => {
            let what =
                "the container has a preStop hook of its own, a sleep, which podgate's hook here can't take over";
            return Err(Finding::error("own-pre-stop", at.clone(), what).mend(
                "write it as exec: [\"sleep\", \"5\"] if the image has that program, or let nobody be stayed for here: podgate.io/stop-order: none",
            ));
        }
        Own::Odd => {
            let what = "the container has a preStop hook of its own, and nothing that Kubernetes could run";
            return Err(Finding::error("own-pre-stop", at.clone(), what).mend("take it out"));
        }
    };
    let asked = match container.port(&get.port).filter(|port| *port != 0) {
        Some(port) => checks::http(&get, port),
        None => Asked::Nothing("its port is not known"),
    };
    match asked {
        Asked::Same(check) => {
            let words =
                [parts::agent(), "check".to_owned(), "--check-timeout".to_owned(), "5s".to_owned(), check.to_string()];
            let what = "the container's own preStop hook, an httpGet, is made from within the container, after the wait for others, \
                        and has 5 s; an answer but 200 to 399 counts as a failure of the hook, which stops nothing";
            Ok((
                checks::argv(&words).map(|argv| argv.to_string()),
                Some(Finding::note("own-pre-stop", at.clone(), what)),
            ))
        }
        Asked::Port(_, why) | Asked::Nothing(why) => {
            let what = format!(
                "the container has a preStop hook of its own, an httpGet, which podgate's hook here can't take over: {why}"
            );
            Err(Finding::error("own-pre-stop", at.clone(), what)
                .mend("write it as exec, which podgate runs when the others are gone"))
        }
    }
}

/// The user's hook within `line`, podgate's: what `--then` holds, unless that is podgate's own doing.
pub(super) fn within(line: &[String]) -> Option<Value> {
    let then = crate::core::agent_line::values(line, "--then").into_iter().next()?;
    let words: Vec<String> = serde_json::from_str(then).ok()?;
    // A sign of life, or an httpGet, which the record has.
    (words.first() != Some(&parts::agent())).then(|| serde_json::json!({"exec": {"command": words}}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_users_command_goes_in_and_comes_out_as_it_was() {
        let hook = json!({"exec": {"command": ["sh", "-c", "echo \"$(X)\" -- --then \\"]}});
        let then = then_post_start(own(Some(&hook)), &Place::root()).unwrap().unwrap();
        let line = ["x", "post-start", "--then", &then].map(str::to_owned);
        assert_eq!(within(&line), Some(hook));
    }

    #[test]
    fn what_the_agent_can_not_do_is_refused() {
        for hook in [
            json!({"sleep": {"seconds": 5}}),
            json!({"httpGet": {"port": 1}}),
            json!({"tcpSocket": {"port": 1}}),
            json!({}),
        ] {
            assert!(then_post_start(own(Some(&hook)), &Place::root()).is_err(), "{hook}");
        }
        let container = Container::default();
        let pre_stop = |hook: Value| then_pre_stop(own(Some(&hook)), &container, &Place::root());
        assert!(pre_stop(json!({"httpGet": {"port": "web"}})).is_err());
        assert!(pre_stop(json!({"httpGet": {"port": 8080, "scheme": "HTTPS"}})).is_err());
        let (then, note) = pre_stop(json!({"httpGet": {"port": 8080, "path": "/quit"}})).unwrap();
        assert!(then.unwrap().ends_with(r#""http://127.0.0.1:8080/quit"]"#) && note.is_some());
        assert_eq!(own(None), Own::None);
        assert_eq!(own(Some(&Value::Null)), Own::None);
    }
}
