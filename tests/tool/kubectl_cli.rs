//! Tests of `kubectl podgate` without a cluster: its help, and its errors of one line each.

use crate::api_server::{Answer, FakeApiServer, Request, error_status, kubeconfig};
use crate::free_port::free_address;
use assert_cmd::Command;
use std::fs;
use std::net::TcpListener;
use tempfile::TempDir;

/// Returns a command that runs the program in a clean environment, without a kubeconfig and a service account.
fn program(home: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-podgate"));
    command.env_clear().env("HOME", home.path());
    command
}

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Starts a server that answers every request with `code` and `body`. Returns the server's address.
fn serve(code: u16, body: impl ToString) -> String {
    let body = body.to_string();
    let answer = move |request: &Request| {
        let is_pod_read = request.method == "GET" && request.path.starts_with("/api/v1/namespaces/shop/pods/ordered");
        assert!(is_pod_read, "{request:?}");
        Answer::Text(code, body.clone())
    };
    FakeApiServer::new(answer).address
}

/// Starts a server that denies every request with the API server's error format. Returns the server's address.
fn serve_refusal(code: u16, reason: &'static str, message: &'static str) -> String {
    FakeApiServer::new(move |_| error_status(code, reason, message)).address
}

/// Runs `status` with these arguments. Returns exit code, standard output and standard error.
fn status(home: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    let output = program(home).arg("status").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn pod(stage: &str) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"ordered","annotations":{{
            "sandbox.podgate.io/id":"3f2a9c1e-4097-1a0c5f3b","sandbox.podgate.io/epoch":"e1","sandbox.podgate.io/revision":"5",
            "sandbox.podgate.io/stage":"{stage}","sandbox.podgate.io/order":"db","status.podgate.io/db":"Started"}}}},
            "spec":{{"nodeName":"n","containers":[{{"name":"db"}}]}},"status":{{"phase":"Running"}}}}"#
    )
}

#[test]
fn help_is_short_or_long_and_in_its_file() {
    crate::help::check_help(env!("CARGO_BIN_EXE_kubectl-podgate"));
}

#[test]
fn version_is_printed() {
    for word in ["version", "--version"] {
        let output = program(&home()).arg(word).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            concat!("kubectl-podgate ", env!("CARGO_PKG_VERSION"), "\n")
        );
    }
}

#[test]
fn help_is_also_a_command() {
    for (command, flags) in [(&["help"][..], &["--help"][..]), (&["help", "status"], &["status", "--help"])] {
        let [command, flags] = [command, flags].map(|words| program(&home()).args(words).output().unwrap());
        assert!(command.status.success() && command.stdout == flags.stdout && !command.stdout.is_empty());
    }
}

#[test]
fn usage_error_exits_with_64_and_explains() {
    let table = [
        (&["start"][..], "unrecognized subcommand 'start'"),
        (&["statsu", "a"], "tip: a similar subcommand exists: 'status'"),
        (&["status", "a", "--nmespace", "b"], "tip: a similar argument exists: '--namespace'"),
        (&["status"], "<POD>"),
        (&["status", "a", "b"], "unexpected argument 'b'"),
        (&["status", "a", "--nap"], "unexpected argument '--nap'"),
        (&["status", "a", "-o", "yaml"], "[possible values: text, json]"),
        (&["status", "a", "-n"], "a value is required for '--namespace <NAME>'"),
    ];
    let names = ["", "pod/", "a/b", "sts/", "service/x", "../x", "A", "a b", "a?x=1", "a%2f"];
    let names = names.map(|name| (vec!["status", name], "not a Pod name"));
    let times = ["0s", "2days"].map(|time| (time, "between 1ms and 1day")).into_iter();
    let times = times.chain(["", "soon", "1", "99999999999999999999s"].map(|time| (time, "write a duration such as")));
    let times = times.map(|(time, expected)| (vec!["status", "a", "--request-timeout", time], expected));
    let table = table.map(|(arguments, expected)| (arguments.to_vec(), expected));
    for (arguments, expected) in table.into_iter().chain(names).chain(times) {
        let output = program(&home()).args(&arguments).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
        assert!(output.stdout.is_empty() && !err.contains('\u{1b}'), "{arguments:?}");
    }
}

#[test]
fn request_error_is_one_line_and_exits_with_1() {
    let home = home();
    let free = free_address();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    for (server, expected) in [
        (
            format!("http://{free}"),
            "): Connection refused; check that the cluster runs, or pass --context or --kubeconfig\n",
        ),
        (format!("https://{free}"), "): Connection refused; "),
        ("http://no-such-host.invalid".to_owned(), "request to http://no-such-host.invalid"),
        (silent, "no answer from http://127.0.0.1:"),
        ("not a server".to_owned(), "cannot use the kubeconfig: "),
        (serve_refusal(404, "NotFound", "x"), "no Pod \"ordered\" in namespace \"shop\""),
        (
            serve_refusal(403, "Forbidden", "user u cannot"),
            "access to the Pod \"ordered\" denied: user u cannot; ask for this permission",
        ),
        (serve_refusal(401, "Unauthorized", "Unauthorized"), "not logged in"),
        (serve(503, "down"), "answered 503"),
        (serve(200, "<html>"), "the response is not a Pod; check the server's address in the kubeconfig\n"),
        (serve(200, "[]"), "the response is not a Pod"),
    ] {
        let config = kubeconfig(home.path(), &server);
        let arguments = ["ordered", "--request-timeout", "2s", "--kubeconfig", config.to_str().unwrap()];
        let (code, out, err) = status(&home, &arguments);
        assert_eq!((code, out.as_str()), (1, ""), "{server}: {err}");
        assert!(err.starts_with("error: ") && err.contains(expected), "{server}: {err}");
        assert_eq!(err.matches('\n').count(), 1, "{server}: {err}");
        let origin = format!("(context \"c\" of {})", config.display());
        let is_silent = ["request to", "no answer"].iter().any(|start| err.contains(start));
        assert!(err.contains(&origin) == is_silent && !err.contains("ServiceError"), "{server}: {err}");
    }
}

#[test]
fn unusable_kubeconfig_is_reported() {
    let home = home();
    let (code, _, err) = status(&home, &["ordered"]);
    assert!(
        code == 1 && err.contains("cannot read the kubeconfig: ") && err.contains("--kubeconfig or KUBECONFIG"),
        "{err}"
    );
    let (code, _, err) = status(&home, &["ordered", "--kubeconfig", "/nonexistent"]);
    assert!(code == 1 && err.contains(" \"/nonexistent\": no such file; "), "{err}");
    fs::write(home.path().join("broken"), "a: [").unwrap();
    let (code, _, err) = status(&home, &["ordered", "--kubeconfig", home.path().join("broken").to_str().unwrap()]);
    assert!(code == 1 && err.contains("cannot read the kubeconfig: it is not a kubeconfig in YAML; pass "), "{err}");
    let config = kubeconfig(home.path(), "http://127.0.0.1:1");
    let (code, _, err) = status(&home, &["ordered", "--context", "other", "--kubeconfig", config.to_str().unwrap()]);
    assert!(code == 1 && err.contains("other"), "{err}");
    assert_eq!(err.matches('\n').count(), 1, "{err}");
}

#[test]
fn exit_code_tells_if_all_containers_started() {
    for (stage, code) in [("started", 0), ("starting", 3), ("terminating", 3)] {
        let home = home();
        let config = kubeconfig(home.path(), &serve(200, pod(stage)));
        let by_env = program(&home).env("KUBECONFIG", &config).args(["status", "pod/ordered"]).output().unwrap();
        assert_eq!(by_env.status.code(), Some(code), "{stage}");
        let text = String::from_utf8(by_env.stdout).unwrap();
        assert!(text.contains("Pod shop/ordered") && text.contains("3f2a9c1e-4097-1a0c5f3b"), "{text}");
        assert!(!text.contains('\u{1b}'), "colors without a terminal: {text:?}");

        for name in ["ordered", "pods/ordered", "po/ordered"] {
            let (json_code, json, _) =
                status(&home, &[name, "-n", "shop", "-o", "json", "--kubeconfig", config.to_str().unwrap()]);
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!((json_code, &json["published"]["stage"]), (code, &stage.into()), "{name} {stage}");
        }
    }
}

#[test]
fn habits_of_kubectl_work_or_get_a_hint() {
    let home = home();
    let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"annotations":{"podgate.io/order":"a"}},"spec":{"containers":[{"name":"a"}]}}"#;
    for name in ["a.json", "b.json"] {
        fs::write(home.path().join(name), pod).unwrap();
    }
    let run = |arguments: &[&str], input: &str| {
        let output = program(&home).current_dir(home.path()).args(arguments).write_stdin(input).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = run(&[], "");
    assert!(code == 0 && out.contains("Usage: kubectl podgate") && err.is_empty(), "{err}");
    let (code, out, _) = run(&["check", "-f", "a.json,b.json"], "");
    assert!(code == 0 && out.contains("2 templates checked"), "{out}");
    for command in ["check", "inject", "resolve-images", "uninject"] {
        let (code, _, err) = run(&[command], pod);
        assert!(code == 0 && err.starts_with("note: reading the manifest from standard input\n"), "{err}");
        let (code, out, err) = run(&[command], "");
        assert!(code == 64 && out.is_empty() && err.contains("pass - as FILE"), "{err}");
        let (_, out, err) = run(&[command, "https://example.com/a.yaml"], "");
        assert!((out + &err).contains("`curl -fsSL https://example.com/a.yaml | kubectl podgate "), "{err}");
        let (code, _, err) = run(&[command, "--unknown", "-"], "");
        assert!(code == 64 && err.contains("unexpected argument") && !err.contains("as a value"), "{err}");
    }
    let (_, _, err) = run(&["timeline", "deployment/shop"], "");
    assert!(err.contains("kubectl get pods -l"), "{err}");
}
