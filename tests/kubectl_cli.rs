//! `kubectl podgate`, from outside and without a cluster: help is what the docs say, and what goes wrong is one clear line.

#[path = "common/api_server.rs"]
mod api_server;

use api_server::{Answer, FakeApiServer, Request, error_status, kubeconfig};
use assert_cmd::Command;
use std::fs;
use std::net::TcpListener;
use tempfile::TempDir;

/// The program, in a world of its own: no kubeconfig but the given one, no service account.
fn program(home: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-podgate"));
    command.env_clear().env("HOME", home.path());
    command
}

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Answers every request with `code` and `body`; its address.
fn serve(code: u16, body: impl ToString) -> String {
    let body = body.to_string();
    let answer = move |request: &Request| {
        let of_the_pod = request.method == "GET" && request.path.starts_with("/api/v1/namespaces/shop/pods/ordered");
        assert!(of_the_pod, "{request:?}");
        Answer::Text(code, body.clone())
    };
    FakeApiServer::new(answer).address
}

/// Answers every request as the API server does where it refuses; its address.
fn serve_refusal(code: u16, reason: &'static str, message: &'static str) -> String {
    FakeApiServer::new(move |_| error_status(code, reason, message)).address
}

/// Runs `status ARGUMENTS`: its exit code, its output, what it says on standard error.
fn status(home: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    let output = program(home).arg("status").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn pod(phase: &str) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"ordered","annotations":{{
            "sandbox.podgate.io/id":"3f2a9c1e-4097-1a0c5f3b","sandbox.podgate.io/epoch":"e1","sandbox.podgate.io/revision":"5",
            "sandbox.podgate.io/phase":"{phase}","sandbox.podgate.io/order":"db","status.podgate.io/db":"Started"}}}},
            "spec":{{"nodeName":"n","containers":[{{"name":"db"}}]}},"status":{{"phase":"Running"}}}}"#
    )
}

/// With `PODGATE_REGENERATE=1` in the environment the page is brought up to date.
#[test]
fn help_is_what_the_docs_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kubectl-podgate.md");
    let page = fs::read_to_string(path).unwrap();
    let mut fresh = page.clone();
    for command in [
        &["--help"][..],
        &["completion", "--help"],
        &["override", "--help"],
        &["status", "--help"],
        &["timeline", "--help"],
        &["version", "--help"],
    ] {
        let output = program(&home()).args(command).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && output.stderr.is_empty() && help.contains("Usage: kubectl podgate"));
        let prompt = format!("```text\n$ kubectl podgate {}\n", command.join(" "));
        let (before, rest) = fresh.split_once(&prompt).unwrap_or_else(|| panic!("{path} should hold {prompt}"));
        let (_, after) = rest.split_once("\n```\n").unwrap();
        fresh = format!("{before}{prompt}{}\n```\n{after}", help.trim_end());
    }
    if std::env::var_os("PODGATE_REGENERATE").is_some() {
        fs::write(path, &fresh).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), fresh, "run this test with PODGATE_REGENERATE=1");
}

#[test]
fn says_its_version() {
    for word in ["version", "--version"] {
        let output = program(&home()).arg(word).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            concat!("kubectl-podgate ", env!("CARGO_PKG_VERSION"), "\n")
        );
    }
}

#[test]
fn a_wrong_command_line_is_64_and_says_what_is_wrong() {
    for (arguments, says) in [
        (&[][..], "Usage: kubectl podgate"),
        (&["start"], "unrecognized subcommand 'start'"),
        (&["status"], "<POD>"),
        (&["status", "a", "b"], "unexpected argument 'b'"),
        (&["status", "A/b"], "no Pod's name"),
        (&["status", "a", "--nap"], "unexpected argument '--nap'"),
        (&["status", "a", "-o", "yaml"], "[possible values: text, json]"),
        (&["status", "a", "--request-timeout", "0s"], "between 1ms and 1day"),
        (&["status", "a", "--request-timeout", "soon"], "write 15s or 1m"),
        (&["status", "a", "-n"], "a value is required for '--namespace <NAME>'"),
    ] {
        let output = program(&home()).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty() && !said.contains('\u{1b}'), "{arguments:?}");
    }
}

#[test]
fn what_goes_wrong_is_one_line_and_1() {
    let home = home();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    for (server, says) in [
        (format!("http://{free}"), "Connection refused"),
        (format!("https://{free}"), "Connection refused"),
        ("http://no-such-host.invalid".to_owned(), "can't ask http://no-such-host.invalid"),
        (silent, "no answer from http://127.0.0.1:"),
        ("not a server".to_owned(), "can't use the kubeconfig: "),
        (serve_refusal(404, "NotFound", "x"), "no Pod \"ordered\" in the namespace \"shop\""),
        (serve_refusal(403, "Forbidden", "user u can't"), "not allowed to read the Pod \"ordered\": user u can't"),
        (serve_refusal(401, "Unauthorized", "Unauthorized"), "does not know who you are"),
        (serve(503, "down"), "answered 503"),
        (serve(200, "<html>"), "something that is no Pod"),
        (serve(200, "[]"), "something that is no Pod"),
    ] {
        let config = kubeconfig(home.path(), &server);
        let arguments = ["ordered", "--request-timeout", "2s", "--kubeconfig", config.to_str().unwrap()];
        let (code, out, err) = status(&home, &arguments);
        assert_eq!((code, out.as_str()), (1, ""), "{server}: {err}");
        assert!(err.starts_with("kubectl podgate: ") && err.contains(says), "{server}: {err}");
        assert_eq!(err.matches('\n').count(), 1, "{server}: {err}");
    }
}

#[test]
fn a_kubeconfig_that_is_missing_or_has_no_such_context_is_named() {
    let home = home();
    let (code, _, err) = status(&home, &["ordered"]);
    assert!(code == 1 && err.contains("no kubeconfig: ") && err.contains("--kubeconfig or KUBECONFIG"), "{err}");
    let (code, _, err) = status(&home, &["ordered", "--kubeconfig", "/nonexistent"]);
    assert!(code == 1 && err.contains("/nonexistent"), "{err}");
    let config = kubeconfig(home.path(), "http://127.0.0.1:1");
    let (code, _, err) = status(&home, &["ordered", "--context", "other", "--kubeconfig", config.to_str().unwrap()]);
    assert!(code == 1 && err.contains("other"), "{err}");
    assert_eq!(err.matches('\n').count(), 1, "{err}");
}

#[test]
fn the_exit_code_says_whether_all_have_started() {
    for (phase, code) in [("started", 0), ("starting", 3), ("terminating", 3)] {
        let home = home();
        let config = kubeconfig(home.path(), &serve(200, pod(phase)));
        let by_env = program(&home).env("KUBECONFIG", &config).args(["status", "pod/ordered"]).output().unwrap();
        assert_eq!(by_env.status.code(), Some(code), "{phase}");
        let text = String::from_utf8(by_env.stdout).unwrap();
        assert!(text.contains("Pod shop/ordered") && text.contains("3f2a9c1e-4097-1a0c5f3b"), "{text}");
        assert!(!text.contains('\u{1b}'), "colours for a terminal alone: {text:?}");

        let (json_code, json, _) =
            status(&home, &["ordered", "-n", "shop", "-o", "json", "--kubeconfig", config.to_str().unwrap()]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((json_code, &json["published"]["phase"]), (code, &phase.into()), "{phase}");
    }
}
