//! Tests of the gate's `execve`: the gate replaces itself with the command, and leaves nothing behind except the
//! tether.

use crate::support::{Agent, AgentOutput, Scene, signal, wait_until};
use podgate::core::state::State;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Runs `command` behind a gate that first waits for `db` and runs a check. Returns the gate's pid, output and scene.
fn behind_a_gate(command: &[&str], change: impl FnOnce(Agent) -> Agent) -> (u32, AgentOutput, Scene) {
    let mut scene = Scene::with_sidecar();
    let gate = scene.gate().flag("until", "db").flag("check", r#"exec:["true"]"#);
    let gate = change(gate).with_command(command).spawn_waiting();
    let pid = gate.id();
    scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    (pid, gate.wait(), scene)
}

fn output(command: &[&str]) -> String {
    let (_, run, _) = behind_a_gate(command, |gate| gate);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    run.stdout
}

#[test]
fn command_keeps_the_gates_pid() {
    let (pid, run, _) = behind_a_gate(&["sh", "-c", "echo $$"], |gate| gate);
    assert_eq!(run.stdout, format!("{pid}\n"));
}

#[test]
fn command_keeps_its_arguments_and_exit_code() {
    let command = ["sh", "-c", r#"printf '<%s>' "$@"; exit 17"#, "sh", "a b", "", "--until", "--", "-x", "$HOME"];
    let (_, run, _) = behind_a_gate(&command, |gate| gate);
    assert_eq!((run.code, run.stdout.as_str()), (17, "<a b><><--until><--><-x><$HOME>"), "{run:?}");
    let (_, run, _) = behind_a_gate(&["sh", "-c", "kill -TERM $$"], |gate| gate);
    assert_eq!(run.code, 143);
}

#[test]
fn command_inherits_environment_and_working_directory_unchanged() {
    let odd = OsStr::from_bytes(b"caf\xe9\nline");
    let (_, run, scene) =
        behind_a_gate(&["cat", "/proc/self/environ"], |gate| gate.env("EMPTY", "").env("PODGATE_X", "1"));
    let termination = format!("PODGATE_TERMINATION_LOG={}", scene.termination.display());
    let expected: BTreeSet<&str> = ["PATH=/usr/bin:/bin", "EMPTY=", "PODGATE_X=1", &termination].into();
    assert_eq!(run.stdout.trim_end_matches('\0').split('\0').collect::<BTreeSet<_>>(), expected);
    // The gate passes an environment value that is not UTF-8 to the command unchanged.
    let (_, run, _) = behind_a_gate(&["sh", "-c", "printf %s \"$ODD\" | od -An -tx1"], |gate| gate.env("ODD", odd));
    assert_eq!(run.stdout.split_whitespace().collect::<String>(), "636166e90a6c696e65");
    let here = std::env::current_dir().unwrap();
    assert_eq!(output(&["readlink", "/proc/self/cwd"]).trim_end(), here.to_str().unwrap());
}

#[test]
fn gate_leaves_blocked_and_ignored_signals_unchanged() {
    let masks = |status: &str| -> Vec<u64> {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        ["SigBlk:", "SigIgn:", "SigPnd:", "ShdPnd:"].map(|name| u64::from_str_radix(&field(name), 16).unwrap()).into()
    };
    let plain = Command::new("cat").arg("/proc/self/status").output().unwrap();
    let behind = masks(&output(&["cat", "/proc/self/status"]));
    assert_eq!(behind, masks(std::str::from_utf8(&plain.stdout).unwrap()));
    assert_eq!(behind[0], 0, "the command must not have blocked signals");
    assert_eq!(behind[1] & (1 << (PIPE - 1)), 0, "the command must not ignore SIGPIPE");
}

const PIPE: i32 = Signal::PIPE.as_raw();

#[test]
fn check_command_runs_without_blocked_signals() {
    let scene = Scene::new();
    let check = r#"exec:["sh","-c","grep -q 'SigBlk:.0000000000000000' /proc/self/status"]"#;
    let run = scene.gate().flag("check", check).flag("timeout", "2s").with_command(&["true"]).run();
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn command_inherits_no_child_and_adopts_no_orphan() {
    assert_eq!(output(&["cat", "/proc/thread-self/children"]), "");
    let script =
        r#"pid=$(sh -c 'sleep 600 >/dev/null 2>&1 & echo $!'); grep PPid /proc/$pid/status; kill $pid; echo $$"#;
    let printed = output(&["sh", "-c", script]);
    let numbers: Vec<&str> = printed.split_whitespace().filter(|word| *word != "PPid:").collect();
    assert_eq!(numbers.len(), 2, "{printed}");
    assert_ne!(numbers[0], numbers[1], "the command must not be a subreaper");
}

#[test]
fn command_inherits_only_the_tether_descriptor() {
    let numbers = |listed: &str| -> BTreeSet<u32> { listed.split_whitespace().map(|n| n.parse().unwrap()).collect() };
    let before = Command::new("ls").arg("/proc/self/fd").stdin(Stdio::null()).output().unwrap();
    let before = numbers(std::str::from_utf8(&before.stdout).unwrap());
    let behind = numbers(&output(&["ls", "/proc/self/fd"]));
    let added: Vec<u32> = behind.difference(&before).copied().collect();
    assert!(behind.is_superset(&before) && added.len() == 1 && added[0] >= 400, "{before:?} {behind:?}");
    let (_, run, _) = behind_a_gate(&["ls", "/proc/self/fd"], |gate| gate.flag("tether", "none"));
    assert_eq!(numbers(&run.stdout), before);
}

#[test]
fn tether_is_kept_until_the_gate_or_command_is_killed() {
    let mut scene = Scene::with_sidecar();
    let gate = || scene.gate().flag("until", "db").with_command(&["sleep", "600"]);
    let killed = gate().spawn_waiting();
    assert!(scene.is_tethered());
    killed.signal(Signal::KILL);
    assert_eq!(killed.wait().code, 137);
    assert!(!scene.is_tethered());
    fs::write(&scene.termination, "").unwrap();
    let gate = gate().spawn_waiting();
    scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    let name = || fs::read_to_string(format!("/proc/{}/comm", gate.id())).unwrap();
    wait_until("the gate has become the command", || name() == "sleep\n");
    assert!(scene.is_tethered());
    assert!(podgate::edge::process::is_alive(scene.report().unwrap().process.unwrap()));
    signal(gate.id(), Signal::KILL);
    assert_eq!(gate.wait().code, 137);
    assert!(!scene.is_tethered());
}

#[test]
fn gate_works_with_a_limit_of_64_descriptors() {
    let mut scene = Scene::with_sidecar();
    let mut gate = scene.gate().flag("until", "db").flag("check", r#"exec:["true"]"#).with_command(&["echo", "ran"]);
    let script = r#"ulimit -n 64; exec "$@""#;
    gate.arguments.splice(0..0, ["-c", script, "sh", crate::support::PROGRAM].map(Into::into));
    gate.program = "/bin/sh".into();
    let gate = gate.spawn_waiting();
    assert!(scene.is_tethered());
    scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    assert_eq!(gate.wait().stdout, "ran\n");
}

#[test]
fn error_names_the_command_that_cannot_run_and_the_fix() {
    let scene = Scene::new();
    let at = |name: &str| scene.root.join(name).display().to_string();
    let write = |name: &str, content: &[u8], mode: u32| {
        fs::write(at(name), content).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        at(name)
    };
    let not_executable = write("not-executable", b"#!/bin/sh\n", 0o644);
    let script = write("script", b"#!/nonexistent/interpreter\n", 0o755);
    for (command, code, message) in [
        (not_executable.as_str(), 126, "permission denied; make the file executable, and mount"),
        (&at("board"), 126, "board is a directory"),
        (&script, 126, "exists, but its interpreter or dynamic loader is missing in this image"),
        (&at("nothing"), 127, "nothing: command not found; use a path inside this image"),
        (&format!("{not_executable}/x"), 127, "command not found"),
        ("./nothing-here", 127, "searched from the working directory /"),
        ("nothing-of-this-name", 127, "nothing-of-this-name: command not found; searched in PATH=/usr/bin:/bin"),
        ("", 127, "command not found"),
    ] {
        let run = scene.gate().with_command(&[command]).run();
        run.assert_failed(code, message);
        assert_eq!(scene.termination_message(), run.stderr.trim_end());
        assert!(!scene.is_tethered());
    }
    scene.gate().with_command(&[&"x".repeat(100_000)]).run().assert_failed(126, "xxx …");
    // Development builds use glibc, which runs a file without a first `#!` line in a shell. The released binary uses
    // musl, which does not run such a file.
    let text = write("text", b"echo ran\n", 0o755);
    let run = scene.gate().with_command(&[&text]).run();
    if cfg!(target_env = "musl") {
        run.assert_failed(126, "text is not a program for this machine; a script needs a first line such as #!/bin/sh");
    } else {
        assert_eq!((run.code, run.stdout.as_str()), (0, "ran\n"));
    }
}

/// In a shared directory, another container can replace the termination message by a link.
#[test]
fn termination_message_never_goes_through_a_link() {
    let scene = Scene::new();
    let (victim, link) = (scene.root.join("victim"), scene.root.join("link"));
    fs::write(&victim, "podgate: content").unwrap();
    for target in [&victim, &scene.root.join("missing")] {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(target, &link).unwrap();
        for (command, code) in [("true", 0), ("/nonexistent", 127)] {
            let agent = scene.gate().without_flag("termination-log").flag("termination-log", &link);
            assert_eq!(agent.with_command(&[command]).run().code, code, "{command}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "podgate: content", "{command}");
            assert!(!scene.root.join("missing").exists(), "{command}");
        }
    }
}
