//! Tests of `podgate probe`, which wraps the command of an exec readinessProbe.

use crate::support::{Agent, Scene, wait_until};
use podgate::core::report::{GateState, Report};
use podgate::core::state::State;
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;

/// Returns `podgate probe` for the container `db`, with more flags and a command.
fn probe_of(scene: &Scene, flags: &[(&str, &str)], command: &[&str]) -> Agent {
    let agent = Agent::new(&["probe"], &scene.termination).flag("container", "db");
    let agent = agent.flag("board", &scene.board).flag("self", &scene.self_directory);
    flags.iter().fold(agent, |agent, (flag, value)| agent.flag(flag, value)).with_command(command)
}

/// Returns the probe of the container `db`, and the file whose existence the container's own probe command checks.
fn probe(scene: &Scene, flags: &[(&str, &str)]) -> (Agent, PathBuf) {
    let file = scene.root.join("ready");
    (probe_of(scene, flags, &["sh", "-c", &format!("echo seen; test -e {}", file.display())]), file)
}

#[test]
fn probe_waits_until_its_command_passes_and_reports_that() {
    let mut scene = Scene::with_sidecar();
    let (agent, file) = probe(&scene, &[]);
    let mut waiting = agent.spawn();
    wait_until("the probe reports", || {
        scene.report().is_some_and(|report| report.started && scene.is_current(&report))
    });
    assert!(!scene.report().unwrap().check_passed && scene.report().unwrap().process.unwrap().pid == 1);
    assert!(waiting.is_running());
    fs::write(&file, "").unwrap();
    wait_until("the probe reports that its command passed", || {
        scene.report().is_some_and(|report| report.check_passed)
    });
    scene.set_state("db", State::Ready);
    waiting.wait().assert_released();
    assert_eq!(scene.termination_message(), "", "the program owns the termination message");

    // When the container is Ready, each probe runs the command once and prints the command's output.
    let run = probe(&scene, &[]).0.run();
    assert_eq!((run.code, run.stdout.as_str()), (0, "seen\n"));
    fs::remove_file(&file).unwrap();
    let run = probe(&scene, &[]).0.run();
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (69, "seen\n", "podgate check: exited with 1\n"));
    // The failure withdraws the report. The next probe does not wait either, so the kubelet counts its failure.
    assert!(!scene.report().unwrap().check_passed);
    scene.set_state("db", State::Started);
    assert_eq!(probe(&scene, &[]).0.run().code, 69);
    fs::write(&file, "").unwrap();
    assert_eq!(probe(&scene, &[]).0.run().code, 0);
    assert!(scene.report().unwrap().check_passed);

    // If a report names another first process, the report is from an earlier run of the container.
    let mut report = scene.report().unwrap();
    report.process.as_mut().unwrap().start_ticks += 1;
    fs::write(scene.self_directory.join("report"), report.to_text()).unwrap();
    let mut waiting = probe(&scene, &[]).0.spawn();
    wait_until("the probe reports again", || scene.report().is_some_and(|report| !report.check_passed));
    assert!(waiting.is_running());
    waiting.signal(Signal::KILL);
    waiting.wait();
}

/// A gate that has become the command cannot report any more. The probe adds its result to the gate's report.
#[test]
fn probe_keeps_the_report_of_a_gate() {
    let mut scene = Scene::with_sidecar();
    let (agent, file) = probe(&scene, &[]);
    fs::write(&file, "").unwrap();
    let waiting = agent.spawn();
    wait_until("the probe reports", || scene.report().is_some_and(|report| report.check_passed));
    scene.set_state("db", State::Ready);
    waiting.wait().assert_released();

    let process = scene.report().unwrap().process;
    let gate = |gate| Report { gate: Some(gate), ticket: Some("t1".to_owned()), process, ..scene.report().unwrap() };
    let write = |report: &Report| fs::write(scene.self_directory.join("report"), report.to_text()).unwrap();
    write(&gate(GateState::Waiting));
    let run = probe(&scene, &[]).0.run();
    assert_eq!((run.code, run.stderr.contains("the gate has not opened")), (69, true), "{run:?}");
    let opened = Report { check_passed: false, opened_at: Some(1), ..gate(GateState::Opened) };
    write(&opened);
    assert_eq!(probe(&scene, &[]).0.run().code, 0);
    assert_eq!(scene.report().unwrap(), Report { check_passed: true, ..opened.clone() });
    fs::remove_file(&file).unwrap();
    assert_eq!(probe(&scene, &[]).0.run().code, 69);
    assert_eq!(scene.report().unwrap(), Report { check_fails: true, ..opened });
}

#[test]
fn probe_does_not_wait_for_a_sidecar_that_does_not_answer() {
    let scene = Scene::with_sidecar();
    let (agent, file) = probe(&scene, &[]);
    fs::write(file, "").unwrap();
    agent.run().assert_released();
    assert!(scene.report().unwrap().check_passed);
}

#[test]
fn without_a_sidecar_the_command_runs_once() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.root.join("board")).unwrap();
    let (agent, file) = probe(&scene, &[]);
    let run = agent.run();
    assert_eq!((run.code, run.stdout.as_str()), (69, "seen\n"));
    fs::write(file, "").unwrap();
    assert_eq!(probe(&scene, &[]).0.run().code, 0);
}

#[test]
fn probe_fails_at_its_limit_and_not_before_its_delay() {
    let scene = Scene::with_sidecar();
    let (agent, file) = probe(&scene, &[("initial-delay", "50years"), ("limit", "200ms")]);
    fs::write(&file, "").unwrap();
    agent.run().assert_failed(69, "(not run yet) within 200ms");
    let run = probe(&scene, &[("initial-delay", "1ms")]).0.run();
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn slow_command_is_ended_at_its_time_limit() {
    let scene = Scene::with_sidecar();
    let flags = [("check-timeout", "100ms"), ("limit", "1s")];
    probe_of(&scene, &flags, &["sleep", "600"]).run().assert_failed(69, "(timed out) within 1s");
    let flags = [("check-timeout", "100ms"), ("board", "/nonexistent")];
    probe_of(&scene, &flags, &["sleep", "600"]).run().assert_failed(69, "podgate check: timed out");
}
