//! Tests of `podgate pre-stop`: conditions, time limits and reports.

use crate::support::{Agent, RunningAgent, Scene, wait_until};
use podgate::core::report::{GateState, PreStopState, Process, Report};
use podgate::core::state::{Stage, State};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::os::unix::fs::symlink;
use std::time::Duration;

/// Time after which a hook returns if the pod as a whole does not stop.
const SIGN_TIMEOUT: Duration = podgate::core::pre_stop::POD_STOP_DETECTION_TIMEOUT;

/// Returns a pod that is being deleted while `api` still runs.
fn terminating_pod() -> Scene {
    let mut scene = Scene::with_sidecar();
    scene.publish(|s| {
        s.stage = Stage::Terminating;
        s.states = [("db".to_owned(), State::Ready), ("api".to_owned(), State::Ready)].into();
    });
    scene
}

fn running_pod() -> Scene {
    let mut scene = terminating_pod();
    scene.publish(|s| s.stage = Stage::Started);
    scene
}

fn spawn_waiting(scene: &Scene, hook: Agent) -> RunningAgent {
    let hook = hook.spawn();
    wait_until("the hook logs what it waits for", || scene.log_text().contains("waiting for"));
    hook
}

fn shell(script: &str) -> String {
    serde_json::to_string(&["sh", "-c", script]).unwrap()
}

fn stopping(scene: &Scene) -> PreStopState {
    scene.report().unwrap().stopping
}

#[test]
fn at_pod_deletion_the_hook_waits_until_the_other_exits() {
    for end_state in [State::Failed, State::Completed] {
        let mut scene = terminating_pod();
        let hook = spawn_waiting(&scene, scene.pre_stop().flag("until", "api"));
        assert!(scene.log_text().contains("waiting for api=Exited (now Ready)"), "{}", scene.log_text());
        let report = scene.report().unwrap();
        assert_eq!((report.stopping, report.started), (PreStopState::Begun, true));
        assert!(scene.is_current(&report));
        std::thread::sleep(SIGN_TIMEOUT + SIGN_TIMEOUT / 5);
        scene.set_state("api", end_state);
        hook.wait().assert_released();
        assert_eq!(stopping(&scene), PreStopState::Finished);
    }
}

#[test]
fn exited_and_unstarted_containers_are_not_waited_for() {
    for state in [State::Failed, State::Waiting] {
        let mut scene = terminating_pod();
        scene.set_state("api", state);
        scene.pre_stop().flag("until", "api,stranger").run().assert_released();
        assert!(!scene.log_text().contains("waiting for"), "{}", scene.log_text());
        assert_eq!(stopping(&scene), PreStopState::Finished);
    }
}

#[test]
fn at_a_single_restart_the_hook_returns_without_a_sign() {
    let scene = running_pod();
    let run = scene.pre_stop().flag("until", "api").run();
    run.assert_released();
    assert!(run.took >= SIGN_TIMEOUT, "{run:?}");
    assert!(scene.log_text().contains("only this container stops"), "{}", scene.log_text());
    assert_eq!(stopping(&scene), PreStopState::Finished);
}

#[test]
fn hook_waits_once_it_knows_that_the_pod_stops() {
    type Sign = fn(&mut podgate::core::snapshot::Snapshot);
    let deleted: Sign = |s| s.stage = Stage::Terminating;
    let stops_too: Sign = |s| s.stopping = ["api".to_owned()].into();
    for sign in [deleted, stops_too] {
        let mut scene = running_pod();
        scene.publish(sign);
        let hook = spawn_waiting(&scene, scene.pre_stop().flag("until", "api"));
        // Publish a later state in which the sidecar has not yet detected that the pod stops.
        scene.publish(|s| (s.stage, s.stopping) = (Stage::Starting, [].into()));
        std::thread::sleep(SIGN_TIMEOUT * 3 / 2);
        scene.set_state("api", State::Failed);
        hook.wait().assert_released();
        let log = scene.log_text();
        assert!(log.contains("nothing is left to wait for") && !log.contains("only this container stops"), "{log}");
    }
}

#[test]
fn hook_wakes_up_without_a_sidecar() {
    let mut scene = terminating_pod();
    scene.kill_sidecar();
    let hook = spawn_waiting(&scene, scene.pre_stop().flag("until", "api"));
    assert!(scene.log_text().contains("by=inotify"), "{}", scene.log_text());
    scene.set_state("api", State::Failed);
    hook.wait().assert_released();
}

#[test]
fn grace_ends_the_wait_and_keeps_the_programs_message() {
    let scene = terminating_pod();
    std::fs::write(&scene.termination, "the program's own message").unwrap();
    let run = scene.pre_stop().flag("until", "api").flag("grace", "300ms").run();
    run.assert_failed(75, "podgate pre-stop: db: timed out after 300ms, still waiting for api=Exited (now Ready)");
    assert!(run.took >= Duration::from_millis(300), "{run:?}");
    assert_eq!(stopping(&scene), PreStopState::Finished);
    // The message also contains the conditions if the hook times out before it detects that the pod stops.
    running_pod()
        .pre_stop()
        .flag("until", "api")
        .flag("grace", "0s")
        .run()
        .assert_failed(75, "after 0s, still waiting for api=Exited");
    assert_eq!(scene.termination_message(), "the program's own message");
}

#[test]
fn own_command_runs_after_the_others_have_exited() {
    let mut scene = terminating_pod();
    let done = scene.root.join("done");
    let touch = shell(&format!("echo out; touch {}", done.display()));
    let hook = spawn_waiting(&scene, scene.pre_stop().flag("until", "api").flag("then", &touch));
    assert!(!done.exists());
    scene.set_state("api", State::Completed);
    hook.wait().assert_released();
    assert!(done.exists());
    // The hook also runs the command of `--then` if only the container restarts, and without conditions.
    for until in [&["api"][..], &[]] {
        let scene = running_pod();
        let done = scene.root.join("done");
        let hook = scene.pre_stop().flag("then", shell(&format!("touch {}", done.display())));
        until.iter().fold(hook, |hook, name| hook.flag("until", name)).run().assert_released();
        assert!(done.exists());
        assert_eq!(stopping(&scene), PreStopState::Finished);
    }
}

#[test]
fn command_failure_becomes_the_hooks_failure() {
    let hook = |argv: &str| running_pod().pre_stop().flag("then", argv).run();
    hook(&shell("echo no way >&2; exit 7")).assert_failed(7, "own preStop command");
    hook(&shell("echo no way >&2; exit 7")).assert_failed(7, "exited with 7: no way");
    hook(&shell("kill -9 $$")).assert_failed(137, "exited with 137");
    hook(r#"["/nonexistent/command"]"#).assert_failed(127, "command not found");
    hook(r#"["/"]"#).assert_failed(126, "is a directory");
}

#[test]
fn command_runs_in_the_last_part_of_the_grace() {
    let scene = terminating_pod();
    let done = scene.root.join("done");
    let then = shell(&format!("touch {}", done.display()));
    let hook = || scene.pre_stop().flag("until", "api").flag("grace", "1500ms").flag("then-timeout", "1s");
    let run = hook().flag("then", then).run();
    run.assert_failed(75, "timed out after 500ms, still waiting for api=Exited");
    assert!(done.exists() && run.took >= Duration::from_millis(500), "{run:?}");
    let run = hook().flag("then", shell("exit 3")).run();
    run.assert_failed(3, "exited with 3: ; before that, timed out after 500ms, still waiting for api=Exited");
    let run = hook().flag("then", shell("sleep 600")).run();
    run.assert_failed(75, "was still running at the time limit");
    assert!(run.took >= Duration::from_millis(1500), "{run:?}");
}

#[test]
fn hook_without_conditions_only_reports_the_stop() {
    let scene = running_pod();
    scene.pre_stop().run().assert_released();
    assert_eq!(stopping(&scene), PreStopState::Finished);
}

#[test]
fn wrong_value_is_a_usage_error() {
    for (flag, value, message) in
        [("until", "api=Ready", "write api=Exited"), ("then", "rm", "not a JSON list"), ("grace", "x", "write 90s")]
    {
        let scene = running_pod();
        std::fs::write(&scene.termination, "the program's own message").unwrap();
        scene.pre_stop().flag(flag, value).run().assert_failed(64, message);
        assert_eq!(scene.termination_message(), "the program's own message");
    }
}

#[test]
fn without_a_board_the_hook_returns_without_a_sign() {
    for prepare in [|_: &Scene| {}, |s: &Scene| std::fs::remove_dir(&s.board).unwrap()] {
        let scene = Scene::new();
        prepare(&scene);
        let run = scene.pre_stop().flag("until", "api").run();
        run.assert_released();
        assert!(run.took >= SIGN_TIMEOUT, "{run:?}");
        assert!(scene.log_text().contains("no state from the sidecar"), "{}", scene.log_text());
        assert_eq!(stopping(&scene), PreStopState::Finished);
    }
}

#[test]
fn a_board_of_another_sandbox_is_ignored() {
    let mut scene = terminating_pod();
    scene.publish(|s| s.sandbox = "00000000-1-00000001".parse().unwrap());
    let run = scene.pre_stop().flag("until", "api").run();
    run.assert_released();
    assert!(scene.log_text().contains("no state from the sidecar"), "{}", scene.log_text());
}

fn put_report(scene: &Scene, report: &Report) {
    podgate::edge::files::replace(&scene.self_directory, "report", report.to_text().as_bytes(), 0o644).unwrap();
}

fn gate_report(scene: &Scene) -> Report {
    Report {
        sandbox: Some(scene.snapshot.sandbox.clone()),
        epoch: "e0".to_owned(),
        agent_version: "0.0.9".to_owned(),
        gate: Some(GateState::Opened),
        started: true,
        check_passed: true,
        ticket: Some("t1".to_owned()),
        process: Some(Process { pid: 1, start_ticks: 4711 }),
        watched_containers: vec!["app".to_owned()],
        ..Report::default()
    }
}

#[test]
fn hook_keeps_the_gates_report_and_reports_per_epoch() {
    let mut scene = terminating_pod();
    let before = gate_report(&scene);
    put_report(&scene, &before);
    let hook = spawn_waiting(&scene, scene.pre_stop().flag("until", "api"));
    let begun = Report { stopping: PreStopState::Begun, epoch: "e1".to_owned(), ..before.clone() };
    assert_eq!(scene.report().unwrap(), begun);
    scene.publish(|s| s.epoch = "e2".to_owned());
    wait_until("the hook reports again", || {
        scene.report().unwrap() == Report { epoch: "e2".to_owned(), ..begun.clone() }
    });
    // A gate that keeps running as the parent overwrites the report that the hook has written.
    put_report(&scene, &Report { epoch: "e2".to_owned(), exit_code: Some(3), ..before.clone() });
    wait_until("the hook restores its state in the report", || stopping(&scene) == PreStopState::Begun);
    scene.set_state("api", State::Failed);
    hook.wait().assert_released();
    let finished = Report { stopping: PreStopState::Finished, epoch: "e2".to_owned(), exit_code: Some(3), ..before };
    assert_eq!(scene.report().unwrap(), finished);
}

#[test]
fn a_report_of_another_sandbox_is_not_kept() {
    let scene = terminating_pod();
    put_report(&scene, &Report { sandbox: Some("00000000-1-00000001".parse().unwrap()), ..gate_report(&scene) });
    scene.pre_stop().flag("until", "api").flag("grace", "0s").run().assert_failed(75, "api=Exited");
    let report = scene.report().unwrap();
    assert!(scene.is_current(&report));
    assert_eq!((report.gate, report.ticket, report.started), (None, None, true));
}

#[test]
fn report_of_a_newer_incarnation_is_not_overwritten() {
    let mut scene = terminating_pod();
    put_report(&scene, &gate_report(&scene));
    let hook = spawn_waiting(&scene, scene.pre_stop().flag("until", "api"));
    let next = Report { ticket: Some("t2".to_owned()), ..gate_report(&scene) };
    put_report(&scene, &next);
    scene.set_state("api", State::Failed);
    hook.wait().assert_released();
    assert_eq!(scene.report().unwrap(), next);
}

#[test]
fn hostile_files_in_its_directory_do_not_delay_the_hook() {
    type Trap = fn(&Scene);
    let link: Trap = |s| symlink(s.root.join("secret"), s.self_directory.join("report")).unwrap();
    let fifo: Trap =
        |s| mknodat(CWD, s.self_directory.join("report"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let huge: Trap = |s| std::fs::write(s.self_directory.join("report"), vec![b'x'; 10_000_000]).unwrap();
    let torn: Trap = |s| std::fs::write(s.self_directory.join("report"), "stopping=\"").unwrap();
    for (trap, name) in [(link, "link"), (fifo, "fifo"), (huge, "huge"), (torn, "torn")] {
        let mut scene = terminating_pod();
        std::fs::write(scene.root.join("secret"), "secret").unwrap();
        trap(&scene);
        let hook = spawn_waiting(&scene, scene.pre_stop().flag("until", "api"));
        assert_eq!(stopping(&scene), PreStopState::Begun, "{name}");
        scene.set_state("api", State::Failed);
        hook.wait().assert_released();
        assert_eq!(stopping(&scene), PreStopState::Finished, "{name}");
        assert_eq!(std::fs::read_to_string(scene.root.join("secret")).unwrap(), "secret");
    }
    let directory: Trap = |s| std::fs::create_dir(s.self_directory.join("report")).unwrap();
    let missing: Trap = |s| std::fs::remove_dir(&s.self_directory).unwrap();
    let file: Trap = |s| {
        std::fs::remove_dir(&s.self_directory).unwrap();
        std::fs::write(&s.self_directory, "").unwrap();
    };
    for trap in [directory, missing, file] {
        let mut scene = terminating_pod();
        trap(&scene);
        let hook = spawn_waiting(&scene, scene.pre_stop().flag("until", "api"));
        scene.set_state("api", State::Failed);
        hook.wait().assert_released();
        assert_eq!(
            scene.log_text().matches("cannot report that this container is stopping").count(),
            1,
            "{}",
            scene.log_text()
        );
    }
}
