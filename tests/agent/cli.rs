//! Tests of the agent's command line: flags, exit codes, help, usage errors, `install`.

use crate::support::{Agent, AgentOutput, PROGRAM, Scene, write_annotations};
use podgate::core::snapshot::REASON_ENDED_FOR_GOOD;
use podgate::core::state::{Stage, State};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

fn podgate(arguments: &[&str]) -> AgentOutput {
    Agent::new(arguments, Path::new("/nonexistent")).run()
}

/// Asserts the result of the hook with the flag.
#[track_caller]
fn with_flag(hook: impl Fn() -> Agent, flag: &str, value: impl AsRef<OsStr>, code: i32, expected: &str) {
    let run = hook().flag(flag, &value).run();
    if code == 0 { run.assert_released() } else { run.assert_failed(code, expected) }
}

#[test]
fn each_flag_of_a_hook_works() {
    let mut scene = Scene::with_sidecar();
    scene.publish(|s| _ = s.stuck.insert("api".to_owned(), "ImagePullBackOff".to_owned()));
    let at_once = || scene.hook().flag("timeout", "0s");

    with_flag(|| scene.bare_hook().flag("timeout", "0s"), "container", "api", 75, "api=Ready (now Waiting, Image");
    with_flag(at_once, "until", "db=Exited,api=Started", 75, "db=Exited (now Started); api=Started (now W");
    with_flag(at_once, "check", "file:///nonexistent", 75, "file:///nonexistent (");
    with_flag(
        || scene.hook().flag("check", r#"exec:["sleep","60"]"#).flag("timeout", "300ms"),
        "check-timeout",
        "10ms",
        75,
        "(timed out)",
    );
    let passes = || at_once().flag("check", "tcp://127.0.0.1:1").flag("timeout", "300ms");
    with_flag(passes, "initial-delay", "1m", 75, "tcp://127.0.0.1:1 (not run yet)");
    let passes = || scene.hook().flag("check", r#"exec:["true"]"#).flag("timeout", "300ms");
    with_flag(passes, "passing-for", "1m", 75, "(has passed, but must pass for longer)");
    with_flag(|| scene.bare_hook().flag("container", "db"), "timeout", "1ms", 75, "timed out after 1ms");
    with_flag(at_once, "on-timeout", "continue", 0, "");
    with_flag(at_once, "on-timeout", "fail", 75, "timed out after 0s");
    with_flag(|| scene.hook(), "then", r#"["false"]"#, 1, "postStart command [\"false\"] exited with 1");
    let mut dead = Scene::with_sidecar();
    dead.kill_sidecar();
    let expected = "the sidecar is not running; fallback check file:///nonexistent (";
    with_flag(|| dead.hook().flag("timeout", "0s"), "fallback-check", "file:///nonexistent", 75, expected);

    let without = |name: &'static str| move || at_once().without_flag(name);
    with_flag(without("board"), "board", &scene.board, 75, "db=Ready (now Started)");
    with_flag(without("board"), "board", "/nonexistent", 75, "the board is missing");
    with_flag(without("self"), "self", "/nonexistent", 75, "cannot report to the sidecar (/nonexistent:");
    let volume = Scene::new();
    write_annotations(&volume.podinfo, &scene.snapshot);
    let frozen = || at_once().flag("board", "/nonexistent").without_flag("podinfo");
    let expected = "the kubelet does not update the downward-API volume while a hook runs";
    with_flag(frozen, "podinfo", &volume.podinfo, 75, expected);

    scene.hook().flag("until", "api").arg("--fail-fast").run().assert_failed(69, "stuck in ImagePullBackOff");
}

#[test]
fn log_flags_set_format_and_destination() {
    let scene = Scene::with_sidecar();
    let hook = Agent::new(&["post-start", "--container", "db", "--timeout", "0s"], Path::new("/nonexistent"))
        .flag("board", &scene.board)
        .flag("self", &scene.self_directory);
    let message = scene.root.join("message");
    std::fs::write(&message, "").unwrap();
    let hook = hook.flag("log-format", "json").flag("log-to", &scene.log.path).flag("termination-log", &message);
    hook.run().assert_failed(75, "timed out");
    let lines: Vec<serde_json::Value> =
        scene.log_text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["msg"], "waiting");
    assert_eq!((&lines[0]["by"], &lines[0]["level"]), (&"bell".into(), &"info".into()));
    assert_eq!(lines.last().unwrap()["level"], "error");
    assert!(std::fs::read_to_string(&message).unwrap().contains("timed out"));
}

#[test]
fn log_level_leaves_out_the_lower_levels() {
    let scene = Scene::with_sidecar();
    scene.hook().flag("timeout", "0s").flag("log-level", "error").run().assert_failed(75, "timed out");
    let text = scene.log_text();
    assert!(text.lines().count() == 1 && text.contains(" ERROR "), "{text}");
}

#[test]
fn help_is_short_or_long_and_in_its_file() {
    crate::help::check_help(env!("CARGO_BIN_EXE_podgate"));
}

#[test]
fn help_and_version_go_to_standard_output() {
    for arguments in [&["--help"][..], &["-h"], &["post-start", "--help"], &["install", "-h"], &["check", "--help"]] {
        let run = podgate(arguments);
        assert!(run.code == 0 && run.stderr.is_empty(), "{run:?}");
        assert!(run.stdout.contains("Usage: podgate"), "{run:?}");
    }
    assert_eq!(podgate(&["help", "opened"]).stdout, podgate(&["opened", "--help"]).stdout);
    assert_eq!(podgate(&["help"]).stdout, podgate(&["--help"]).stdout);
    for arguments in [["version"], ["--version"], ["-V"]] {
        let version = concat!("podgate ", env!("CARGO_PKG_VERSION"), "\n");
        assert_eq!((podgate(&arguments).code, podgate(&arguments).stdout.as_str()), (0, version));
    }
}

#[test]
fn each_usage_error_is_one_line() {
    let post_start = |rest: &[&'static str]| [&["post-start", "--container", "db"], rest].concat();
    for (arguments, expected) in [
        (vec![], "no command given"),
        (vec!["serve"], "podgate: unrecognized subcommand 'serve'; see podgate --help"),
        (
            post_start(&["--untl", "a"]),
            "podgate post-start: unexpected argument '--untl' found (did you mean --until?); see podgate post-start --help",
        ),
        (post_start(&["--utnil=a"]), "did you mean --until?"),
        (post_start(&["--bogus"]), "'--bogus' found; see podgate post-start --help"),
        (vec!["post-start"], "not provided: --container <NAME>"),
        (vec!["post-start", "--container", "DB"], "not a container name"),
        (vec!["post-start", "--container", ""], "--container"),
        (post_start(&["--bogus"]), "unexpected argument '--bogus'"),
        (post_start(&["stray"]), "unexpected argument 'stray'"),
        (post_start(&["--timeout"]), "a value is required for '--timeout"),
        (post_start(&["--timeout", "soon"]), "write 90s, 5m or 1h 30m"),
        (post_start(&["--timeout", ""]), "value was empty"),
        (post_start(&["--timeout", "5"]), "time unit needed"),
        (post_start(&["--timeout", "-1s"]), "unexpected argument '-1'"),
        (post_start(&["--timeout", "99999999999999999999h"]), "number is too large"),
        (post_start(&["--timeout", "101y"]), "longer than 100 years"),
        (post_start(&["--timeout", "1s", "--timeout", "2s"]), "cannot be used multiple times"),
        (post_start(&["--check-timeout", "x"]), "--check-timeout"),
        (vec!["opened", "--check-period", "0ms"], "an interval cannot be zero"),
        (post_start(&["--until", "db=ready"]), "use Started, Ready, Completed or Exited"),
        (post_start(&["--until", "../db"]), "not a container name"),
        (post_start(&["--until", ""]), "not a container name"),
        (post_start(&["--check", "https://h/"]), "the agent has no TLS"),
        (post_start(&["--check", "127.0.0.1:80"]), "not a check"),
        (post_start(&["--check", "exec:pg_isready"]), "not a JSON list of strings"),
        (post_start(&["--fallback-check", "tcp://h:0"]), "no port from 1 to 65535"),
        (post_start(&["--on-timeout", "ignore"]), "use fail or continue"),
        (post_start(&["--log-format", "xml"]), "use text or json"),
        (post_start(&["--then", "echo"]), "not a JSON list of strings"),
        (post_start(&["--then", "[]"]), "a command needs a program"),
        (vec!["install"], "<DIR>"),
        (vec!["check"], "<URL>"),
        (vec!["check", "ftp://h:1"], "not a check"),
    ] {
        podgate(&arguments).assert_failed(64, expected);
    }
    let long = "x".repeat(100_000);
    podgate(&["post-start", "--container", &long]).assert_failed(64, "invalid value 'xxxx");
}

#[test]
fn invalid_utf_8_is_accepted_only_in_paths() {
    let scene = Scene::new();
    let invalid_utf8 = OsString::from_vec(b"d\xffb".to_vec());
    scene.bare_hook().flag("container", &invalid_utf8).run().assert_failed(64, "invalid UTF-8");
    assert!(scene.termination_message().contains("invalid UTF-8"), "the termination message lacks the usage error");
    let board = Scene::with_sidecar();
    let odd = board.root.join(&invalid_utf8);
    std::os::unix::fs::symlink(&board.board, &odd).unwrap();
    let hook = Agent::new(&["post-start", "--container", "db", "--timeout", "0s"], &board.termination);
    hook.flag("board", &odd).flag("self", &board.self_directory).run().assert_failed(75, "db=Ready (now Started)");
}

#[test]
fn time_limit_of_99_years_is_accepted() {
    let mut scene = Scene::with_sidecar();
    scene.set_state("db", State::Ready);
    scene.bare_hook().flag("container", "db").flag("timeout", "99y").run().assert_released();
}

#[test]
fn each_cause_has_its_exit_code() {
    let mut scene = Scene::with_sidecar();
    let why = "db=Ready (now Started): db runs, but has not passed its probes; see kubectl podgate status POD";
    scene
        .hook()
        .flag("timeout", "1ms")
        .run()
        .assert_failed(75, &format!("timed out after 1ms, still waiting for {why}"));
    assert!(
        scene.termination_message().starts_with("podgate post-start: db: timed out")
            && scene.termination_message().len() < 1024
    );
    let no_volumes = Agent::new(&["post-start", "--container", "db"], &scene.termination);
    no_volumes
        .run()
        .assert_failed(78, "the hook needs the board, but /podgate does not exist; mount podgate's volumes");
    scene.set_state("db", State::Failed);
    scene.publish(|s| _ = s.stuck.insert("db".to_owned(), REASON_ENDED_FOR_GOOD.to_owned()));
    scene.hook().arg("--fail-fast").run().assert_failed(
        69,
        "db=Ready cannot be met: the container is Failed and will not be restarted; see kubectl logs POD -c db",
    );
    scene.set_state("db", State::Ready);
    scene.hook().run().assert_released();
    assert_eq!(scene.termination_message(), "", "the message is not cleared on release");
    for stage in [Stage::Started, Stage::Terminating] {
        let mut scene = Scene::with_sidecar();
        scene.publish(|s| s.stage = stage);
        scene.hook().run().assert_released();
        assert!(scene.report().is_none(), "a hook that does not wait must not wake the idle sidecar");
    }
}

#[test]
fn closed_output_pipe_causes_no_panic() {
    let scene = Scene::with_sidecar();
    for (arguments, code) in
        [(&["version"][..], 0), (&["--help"], 0), (&["bogus"], 64), (&["check", "tcp://127.0.0.1:1"], 69)]
    {
        let agent = Agent::new(arguments, &scene.termination);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let errors = writer.try_clone().unwrap();
        let status = agent.command().stdout(writer).stderr(errors).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn sleep_command_takes_the_given_time() {
    let since = Instant::now();
    Agent::new(&["sleep", "300ms"], Path::new("/nonexistent")).run().assert_released();
    assert!(since.elapsed() >= Duration::from_millis(300));
    Agent::new(&["sleep", "5"], Path::new("/nonexistent")).run().assert_failed(64, "write 90s");
}

#[test]
fn install_replaces_a_running_binary() {
    let directory = tempfile::tempdir().unwrap();
    let bin = directory.path().join("deep/bin");
    let target = bin.join("podgate");
    let install = |at: &Path| Agent::new(&["install"], Path::new("/nonexistent")).arg(at).run();
    install(&bin).assert_released();
    assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o7777, 0o555);
    assert_eq!(std::fs::read(&target).unwrap(), std::fs::read(PROGRAM).unwrap());
    let scene = Scene::with_sidecar();
    let mut hook = scene.hook();
    hook.program.clone_from(&target);
    let mut running = hook.spawn_waiting();
    install(&bin).assert_released();
    assert!(running.is_running());
    let again = std::process::Command::new(&target).arg("install").arg(&bin).status().unwrap();
    assert!(again.success(), "the installed binary cannot install over itself");
    assert_eq!(std::fs::read_dir(&bin).unwrap().count(), 1, "temporary files are left");
}

#[test]
fn install_names_a_directory_that_is_not_writable() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    for bad in [file.clone(), file.join("x"), "/proc/podgate".into(), "/sys".into()] {
        let run = Agent::new(&["install"], Path::new("/nonexistent")).arg(&bad).run();
        run.assert_failed(78, "use a directory that this user can write");
        assert!(run.stderr.contains(bad.to_str().unwrap()));
    }
}
