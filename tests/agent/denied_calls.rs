//! Tests of the agent on kernels and in sandboxes that lack a system call.

use crate::support::{Agent, Scene, wait_until};
use podgate::core::report::{GateState, Report};
use podgate::core::state::State;
use podgate::edge::process;
use std::fs;
use std::path::Path;

/// Errors of a denied system call: ENOSYS from an old kernel, EPERM from a seccomp profile.
const ERRORS: [i32; 2] = [libc::ENOSYS, libc::EPERM];

const FAILING: &str = r#"exec:["sh","-c","exit 3"]"#;

fn without_pidfd(agent: Agent, errno: i32) -> Agent {
    agent.denied(libc::SYS_pidfd_open, errno)
}

fn ready() -> Scene {
    let mut scene = Scene::with_sidecar();
    scene.set_state("db", State::Ready);
    scene
}

#[test]
fn hook_command_runs_without_pidfd_open() {
    for errno in ERRORS {
        let run = |script: &str| {
            let argv = serde_json::to_string(&["sh", "-c", script]).unwrap();
            without_pidfd(ready().hook().flag("then", argv).flag("timeout", "2s"), errno).run()
        };
        run("sleep 0.1").assert_released();
        run("echo no such database >&2; exit 7").assert_failed(7, "exited with 7: no such database");
        run("sleep 600").assert_failed(75, "was still running at the time limit");
    }
}

#[test]
fn exec_checks_run_without_pidfd_open() {
    let scene = Scene::new();
    let opened =
        Report { gate: Some(GateState::Opened), process: process::identify(std::process::id()), ..Report::default() };
    fs::write(scene.self_directory.join("report"), opened.to_text()).unwrap();
    for errno in ERRORS {
        let check = |url: &str| {
            let check = Agent::new(&["check", url, "--check-timeout", "2s"], Path::new("/nonexistent"));
            without_pidfd(check, errno).run()
        };
        check(r#"exec:["sleep","0.1"]"#).assert_released();
        check(FAILING).assert_failed(69, "exited with 3");
        check(r#"exec:["sleep","600"]"#).assert_failed(69, "timed out");
        let probe = |url: &str| {
            let probe = Agent::new(&["opened"], &scene.termination).flag("self", &scene.self_directory);
            without_pidfd(probe.flag("check", url).flag("check-timeout", "10s"), errno).run()
        };
        probe(r#"exec:["sleep","0.1"]"#).assert_released();
        probe(FAILING).assert_failed(69, "exited with 3");
    }
}

#[test]
fn waits_run_exec_checks_without_pidfd_open() {
    for errno in ERRORS {
        let scene = ready();
        let passes = r#"exec:["sleep","0.1"]"#;
        without_pidfd(scene.hook().flag("check", passes), errno).run().assert_released();
        let failed = without_pidfd(scene.hook().flag("check", FAILING).flag("timeout", "1s"), errno).run();
        failed.assert_failed(75, "exited with 3");
        let gate = without_pidfd(scene.gate().flag("check", passes).with_command(&["echo", "ran"]), errno).run();
        assert_eq!((gate.code, gate.stdout.as_str()), (0, "ran\n"), "{gate:?}");
        let gate = scene.gate().flag("ready-check", passes).with_command(&["sleep", "600"]);
        let gate = without_pidfd(gate, errno).spawn();
        wait_until("the parent reports the passed check", || scene.report().is_some_and(|report| report.check_passed));
        drop(gate);
    }
}

/// Checks the agent's part of the table "System calls" in `docs/by-hand.md`.
#[test]
fn other_calls_have_a_fallback_or_a_clear_error() {
    for errno in ERRORS {
        let mut scene = Scene::with_sidecar();
        scene.kill_sidecar();
        scene.set_state("db", State::Ready);
        for call in [libc::SYS_openat2, libc::SYS_close_range, libc::SYS_inotify_init1, libc::SYS_inotify_add_watch] {
            scene.hook().arg("--tether").denied(call, errno).run().assert_released();
        }
        let gate = scene.gate().with_command(&["true"]).denied(libc::SYS_signalfd4, errno).run();
        gate.assert_failed(78, "cannot receive signals");
    }
}
