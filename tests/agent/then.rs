//! Tests of `--then`, the container's own postStart command, and of `--log-to`.

use crate::support::{AgentOutput, Scene, wait_until};
use podgate::core::state::State;
use std::os::fd::AsRawFd;

fn ready() -> Scene {
    let mut scene = Scene::with_sidecar();
    scene.set_state("db", State::Ready);
    scene
}

fn run(argv: &str) -> AgentOutput {
    ready().hook().flag("then", argv).run()
}

fn shell(script: &str) -> String {
    serde_json::to_string(&["sh", "-c", script]).unwrap()
}

#[test]
fn command_runs_before_the_wait_and_succeeds_silently() {
    let scene = Scene::with_sidecar();
    let done = scene.root.join("done");
    let script = shell(&format!("echo out; echo err >&2; touch {}", done.display()));
    let mut hook = scene.hook().flag("then", script).spawn();
    hook.wait_until_waiting();
    assert!(done.exists(), "the command must end before the wait begins");
    assert!(scene.report().unwrap().started);
    let mut scene = scene;
    scene.set_state("db", State::Ready);
    hook.wait().assert_released();
}

#[test]
fn command_failure_becomes_the_hooks_failure() {
    let scene = ready();
    let run = scene.hook().flag("then", shell("echo no such database >&2; exit 7")).run();
    run.assert_failed(7, "exited with 7: no such database");
    assert_eq!(scene.termination_message(), run.stderr.trim_end());
    self::run(&shell("kill -9 $$")).assert_failed(137, "exited with 137");
    self::run(r#"["/nonexistent/command"]"#).assert_failed(127, "command not found");
    self::run(r#"["/etc/passwd"]"#).assert_failed(126, "permission denied");
    self::run(r#"["/"]"#).assert_failed(126, "is a directory");
    self::run(&shell("exit 255")).assert_failed(255, "exited with 255");
}

#[test]
fn on_timeout_continue_does_not_apply_to_the_command() {
    ready().hook().flag("then", shell("exit 3")).flag("on-timeout", "continue").run().assert_failed(3, "exited with 3");
}

#[test]
fn command_and_its_group_are_killed_at_the_time_limit() {
    let scene = ready();
    let pid = scene.root.join("pid");
    let script = shell(&format!("sleep 600 & echo $! > {}; wait", pid.display()));
    let run = scene.hook().flag("then", script).flag("timeout", "200ms").run();
    run.assert_failed(75, "was still running at the time limit");
    let pid = std::fs::read_to_string(pid).unwrap();
    wait_until("the command's child has exited", || !is_alive(pid.trim()));
}

#[test]
fn large_output_does_not_block_and_is_not_printed() {
    let flood = run(&shell("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end >&2; exit 9"));
    flood.assert_failed(9, "the end");
    run(&shell("head -c 3000000 /dev/zero; exit 0")).assert_released();
    let endless = ready().hook().flag("then", r#"["yes"]"#).flag("timeout", "200ms").run();
    endless.assert_failed(75, "was still running");
    // The message contains no line breaks, no terminal control sequences and no invalid UTF-8.
    let odd = run(&shell(r"printf 'a\033[2Jb\r\nc\377d\001\n'; exit 9"));
    odd.assert_failed(9, "a [2Jb c\u{fffd}d");
    assert!(!odd.stderr.trim_end().contains(|c: char| c.is_control()), "{odd:?}");
}

#[test]
fn a_background_child_survives_and_does_not_block_the_hook() {
    let scene = ready();
    let pid = scene.root.join("pid");
    // The child inherits standard output and standard error. The hook must still return and close its own output.
    let script = shell(&format!("sleep 600 & echo $! > {}", pid.display()));
    scene.hook().flag("then", script).run().assert_released();
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(is_alive(pid.trim()));
    let id = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
}

fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

#[test]
fn an_unwritable_log_is_named_only_if_the_hook_fails() {
    let scene = ready();
    let hook = |log: &str| scene.hook().flag("log-to", log);
    let file = std::fs::File::create(scene.root.join("file")).unwrap();
    let file = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    for (log, message) in [
        ("/proc/self/fd/99", "No such file"),
        ("/dev/missing-log", "No such file"),
        (&file, "is neither a pipe nor a device"),
    ] {
        hook(log).run().assert_released();
        let run = hook(log).flag("until", "api").flag("timeout", "0s").run();
        run.assert_failed(75, "(cannot open the log: ");
        assert!(run.stderr.contains(message), "{run:?}");
    }
    // If the log is full, lines are lost, but the hook does not block.
    scene.log.fill();
    scene.hook().run().assert_released();
    hook("/dev/full").run().assert_released();
}

#[test]
fn log_on_a_mount_is_a_usage_error() {
    for log in ["/logs/podgate", "log", "", "/", "/dev", "/dev/shm/log", "/proc/1/root/log", "/proc/1/fd/../root/log"] {
        ready().hook().flag("log-to", log).run().assert_failed(64, "not an output of a process; write /proc/1/fd/2");
    }
}

#[test]
fn log_can_go_to_a_file_descriptor() {
    let scene = Scene::with_sidecar();
    for log in ["/proc/self/fd/2", "/dev/stderr"] {
        let run = scene.hook().flag("timeout", "0s").flag("log-to", log).run();
        assert_eq!(run.code, 75);
        assert!(run.stderr.contains("INFO waiting by=bell") && run.stderr.contains("ERROR"), "{run:?}");
    }
}
