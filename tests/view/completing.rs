//! Completion and the manual: what kubectl and shells are answered.

use crate::pod;
use crate::server::{Answer, Request, Server, refuse};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

/// The program by the name under which kubectl asks it, with these words.
fn ask(server: &Server, words: &[&str]) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let link = home.path().join("kubectl_complete-podgate");
    symlink(env!("CARGO_BIN_EXE_kubectl-podgate"), &link).unwrap();
    let output = Command::new(&link)
        .env_clear()
        .env("HOME", home.path())
        .env("KUBECONFIG", server.kubeconfig())
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn cluster() -> Server {
    Server::new(|request: &Request| {
        let meta = |name: &str| json!({"metadata": {"name": name}});
        let list = |items: Vec<serde_json::Value>| json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": items});
        match request.path.split('?').next().unwrap() {
            "/api/v1/namespaces/shop/pods" => {
                let mut with = meta("ordered");
                with["metadata"]["annotations"] = json!({"sandbox.podgate.io/phase": "starting"});
                Answer::Json(200, list(vec![with, meta("other")]))
            }
            "/api/v1/namespaces/else/pods" => Answer::Json(200, list(vec![meta("elsewhere")])),
            "/api/v1/namespaces" => Answer::Json(200, list(vec![meta("shop"), meta("else")])),
            "/api/v1/namespaces/shop/pods/ordered" => Answer::Json(200, pod(1, "starting", "Started", "Waiting")),
            _ => refuse(404, "NotFound", "x"),
        }
    })
}

#[test]
fn kubectl_is_told_of_commands_flags_pods_and_containers() {
    let server = cluster();
    for (words, told) in [
        (
            &["sta"][..],
            &["status\tShow each container of a Pod: its state, what it waits for, what it holds back", ":4"][..],
        ),
        (&["status", ""], &["ordered\tstarting", "other", ":4"]),
        (&["status", "or"], &["ordered\tstarting", ":4"]),
        (&["timeline", "-n", "else", ""], &["elsewhere", ":4"]),
        (&["timeline", "--namespace=else", "x"], &[":4"]),
        (&["status", "-n", "s"], &["shop", ":4"]),
        (&["status", "--context", ""], &["c", ":4"]),
        (&["override", "ordered", ""], &["api=\tWaiting", "db=\tStarted", ":4"]),
        (&["override", "ordered", "db=R"], &["db=Ready", ":4"]),
        (&["override", "gone", ""], &["--remove\tTake what was set by hand back: of these containers, or of all"]),
        (&["timeline", "ordered", "-o", "s"], &["svg", ":4"]),
        (
            &["status", "--until"],
            &["--until-started\tFollow the Pod until all its containers have started, or can't any more", ":4"],
        ),
        (&["inject", ""], &[":0"]),
        (&["check", "-o", "s"], &["sarif", ":0"]),
    ] {
        let answer = ask(&server, words);
        assert_eq!(answer[..told.len().min(answer.len())], *told, "{words:?}: {answer:#?}");
        assert!(answer.last().unwrap().starts_with(':'), "{answer:?}");
    }
    assert!(ask(&server, &[""]).iter().any(|line| line.starts_with("override\t")));
    assert_eq!(ask(&server, &[]), ask(&server, &[""]));
}

#[test]
fn a_cluster_that_does_not_answer_is_not_waited_for() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = cluster();
    let config = fs::read_to_string(server.kubeconfig()).unwrap();
    let at = config.find("http://").unwrap();
    let end = config[at..].find('\'').unwrap();
    let config = config.replace(&config[at..at + end], &format!("http://{}", silent.local_addr().unwrap()));
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("silent");
    fs::write(&path, config).unwrap();
    let kubeconfig = format!("--kubeconfig={}", path.display());
    assert_eq!(ask(&server, &["status", &kubeconfig, "o"]), [":4"]);
}

#[test]
fn each_shell_gets_a_script_that_names_the_commands() {
    let server = cluster();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let (code, out, err) = server.run(&["completion", shell]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.contains("until-started") && out.contains("kubectl-podgate"), "{shell}: {out}");
    }
    let (code, _, err) = server.run(&["completion", "tcsh"]);
    assert!(code == 64 && err.contains("possible values: bash, zsh, fish, powershell"), "{err}");
    assert!(server.asked().is_empty());
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let server = cluster();
    let folder = tempfile::tempdir().unwrap();
    let (code, _, err) = server.run(&["man", folder.path().to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (_, help, _) = server.run(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"timeline") && !commands.contains(&"man"), "{commands:?}");
    for command in commands {
        let page = fs::read_to_string(folder.path().join(format!("kubectl-podgate-{command}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    let (code, _, err) = server.run(&["man", "/nonexistent"]);
    assert!(code == 1 && err.contains("can't write the pages into /nonexistent"), "{err}");
}
