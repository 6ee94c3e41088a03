//! Tests of `completion` and `man`: shell scripts and manual pages.

use crate::api_server::{FakeApiServer, error_status};
use std::fs;

#[test]
fn completion_scripts_name_the_commands() {
    let server = FakeApiServer::new(|_| error_status(404, "NotFound", "x"));
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, out, err) = server.run(&["completion", shell]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.contains("until-started") && out.contains("kubectl-podgate"), "{shell}: {out}");
    }
    let (code, _, err) = server.run(&["completion", "tcsh"]);
    assert!(code == 64 && err.contains("possible values: bash, elvish, fish, powershell, zsh"), "{err}");
    assert!(server.requests().is_empty());
}

#[test]
fn manual_has_a_page_for_each_command() {
    let server = FakeApiServer::new(|_| error_status(404, "NotFound", "x"));
    let directory = tempfile::tempdir().unwrap();
    let (code, _, err) = server.run(&["man", directory.path().to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (_, help, _) = server.run(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"timeline") && !commands.contains(&"man"), "{commands:?}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        let page = fs::read_to_string(directory.path().join(format!("kubectl-podgate-{command}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    let (code, _, err) = server.run(&["man", "/nonexistent"]);
    assert!(code == 1 && err.contains("cannot write man pages into /nonexistent"), "{err}");
}
