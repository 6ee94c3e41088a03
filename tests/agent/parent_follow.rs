//! Tests of `podgate entrypoint` while its command runs. Exits and restarts of other containers end the command. The
//! container's own checks keep running until they pass.

use crate::support::{Agent, RunningAgent, Scene, Shell, send, wait_until};
use podgate::core::report::Report;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::{Stage, State};
use rustix::process::Signal;
use std::fs;
use std::time::Duration;

const LONG_RUNNING: &str = "echo up > UP; exec sleep 600";

/// Adds a shell script as the command, and replaces `UP` and `ROOT` in the script with paths.
fn command(scene: &Scene, gate: Agent, script: &str) -> Agent {
    let up = scene.root.join("up").display().to_string();
    let script = script.replace("UP", &up).replace("ROOT", &scene.root.display().to_string());
    gate.arg("--").arg("sh").arg("-c").arg(script)
}

fn wait_until_up(scene: &Scene) {
    wait_until("the command runs", || fs::read_to_string(scene.root.join("up")).is_ok_and(|text| text.ends_with('\n')));
}

/// Returns a gate whose command must end after `app` and `job` have exited.
fn stop_after(scene: &Scene) -> Agent {
    scene.gate().arg("--stop-after").arg("app").arg("--stop-after").arg("job")
}

fn with_app_and_job() -> Scene {
    let mut scene = Scene::with_sidecar();
    scene.set_state("app", State::Ready);
    scene.set_state("job", State::Started);
    scene
}

fn assert_still_running(agent: &mut RunningAgent) {
    std::thread::sleep(Duration::from_millis(100));
    assert!(agent.is_running());
}

#[test]
fn command_ends_when_all_watched_containers_have_exited() {
    // A container that has failed may restart, so its end counts only after 10 s (`RESTART_WINDOW`).
    for end in [State::Failed, State::Completed] {
        let mut scene = with_app_and_job();
        let mut agent = command(&scene, stop_after(&scene), LONG_RUNNING).spawn();
        wait_until_up(&scene);
        let report = scene.report().unwrap();
        assert_eq!(report.watched_containers, ["app", "job"]);
        scene.set_state("job", end);
        assert_still_running(&mut agent);
        scene.set_state("app", State::Completed);
        let output = agent.wait();
        assert_eq!((output.code, output.stderr.as_str()), (0, ""));
        assert_eq!(scene.report().unwrap().exit_code, Some(0));
        assert!(scene.log_text().contains("app, job has exited; ending the command"));
    }
}

#[test]
fn command_that_ignores_sigterm_is_killed_after_its_grace() {
    let mut scene = with_app_and_job();
    let gate = stop_after(&scene).flag("grace", "200ms");
    let agent = command(&scene, gate, "trap '' TERM; echo up > UP; while :; do sleep 0.01; done").spawn();
    wait_until_up(&scene);
    scene.publish(|s| s.states.extend([("app".to_owned(), State::Completed), ("job".to_owned(), State::Completed)]));
    assert_eq!(agent.wait().code, 0);
    assert!(scene.log_text().contains("sending SIGKILL"));
}

#[test]
fn stop_signal_ends_the_command_in_place_of_sigterm() {
    for signal in ["SIGUSR1", "SIGRTMIN+3"] {
        let mut scene = with_app_and_job();
        let gate = stop_after(&scene).flag("stop-signal", signal).flag("grace", "60s");
        let script = format!(
            "trap 'echo {signal} > ROOT/trapped; exit 7' {}; echo up > UP; while :; do sleep 0.01; done",
            &signal[3..]
        );
        let agent = command(&scene, gate, &script).spawn();
        wait_until_up(&scene);
        scene
            .publish(|s| s.states.extend([("app".to_owned(), State::Completed), ("job".to_owned(), State::Completed)]));
        assert_eq!(agent.wait().code, 0, "{signal}");
        assert_eq!(fs::read_to_string(scene.root.join("trapped")).unwrap(), format!("{signal}\n"));
    }
    let scene = Scene::new();
    command(&scene, scene.gate().flag("stop-signal", "QUIT"), "true").run().assert_failed(64, "not a signal");
}

#[test]
fn command_that_ends_first_keeps_its_exit_code() {
    let scene = with_app_and_job();
    assert_eq!(command(&scene, stop_after(&scene), "exit 5").run().code, 5);
}

#[test]
fn command_does_not_start_after_all_have_exited() {
    let mut scene = with_app_and_job();
    scene.publish(|s| s.states.extend([("app".to_owned(), State::Completed), ("job".to_owned(), State::Completed)]));
    let post = scene.root.join("post");
    command(&scene, stop_after(&scene).flag("post-file", &post), "echo up > UP").run().assert_released();
    assert!(!scene.root.join("up").exists());
    let report = scene.report().unwrap();
    assert!(report.has_gate_opened() && report.exit_code == Some(0));
    assert!(scene.log_text().contains("app, job had already exited; not running the command"));
    assert_eq!(fs::read_to_string(post).unwrap(), "0\n");
}

#[test]
fn only_current_exits_of_this_sandbox_end_the_command() {
    let mut scene = with_app_and_job();
    let mut agent = command(&scene, stop_after(&scene), LONG_RUNNING).spawn();
    wait_until_up(&scene);
    scene.publish(|s| s.stage = Stage::Terminating);
    assert_still_running(&mut agent);
    let here = scene.snapshot.clone();
    scene.publish(|s| {
        s.sandbox = "00000000-1-00000001".parse().unwrap();
        s.states.extend([("app".to_owned(), State::Completed), ("job".to_owned(), State::Completed)]);
    });
    assert_still_running(&mut agent);
    scene.kill_sidecar();
    fs::remove_file(scene.board.join("annotations")).unwrap();
    assert_still_running(&mut agent);
    // After a restart of the sidecar, an exit counts only if the sidecar publishes the exit in its new epoch.
    scene.snapshot = Snapshot { epoch: "e2".to_owned(), revision: 100, stage: Stage::Started, ..here };
    scene.start_sidecar();
    assert_still_running(&mut agent);
    scene.publish(|s| s.states.extend([("app".to_owned(), State::Completed), ("job".to_owned(), State::Completed)]));
    assert_eq!(agent.wait().code, 0);
    assert_eq!(scene.report().unwrap().epoch, "e2");
}

#[test]
fn unknown_container_in_stop_after_is_logged() {
    let scene = Scene::with_sidecar();
    let gate = scene.gate().arg("--stop-after").arg("ghost");
    let agent = command(&scene, gate, LONG_RUNNING).spawn();
    wait_until("the log names the unknown container", || {
        scene.log_text().contains("--stop-after ghost: the pod has no such container")
    });
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}

#[test]
fn stop_after_without_volumes_is_a_setup_error() {
    let scene = Scene::new();
    let gate = stop_after(&scene).flag("board", "/nonexistent");
    command(&scene, gate, "true").run().assert_failed(78, "--stop-after needs the board");
}

#[test]
fn idle_parent_wakes_only_for_the_slow_reread() {
    let mut scene = with_app_and_job();
    let agent = command(&scene, stop_after(&scene), LONG_RUNNING).spawn();
    wait_until_up(&scene);
    agent.assert_idle();
    scene.kill_sidecar();
    agent.assert_idle();
    scene.start_sidecar();
    scene.publish(|s| s.states.extend([("app".to_owned(), State::Completed), ("job".to_owned(), State::Completed)]));
    assert_eq!(agent.wait().code, 0);
}

/// Starts a gate with `--until` and `--restart-with db`. Returns when the gate is open and the command runs.
fn spawn_follower(scene: &mut Scene, until: &str, script: &str) -> RunningAgent {
    let gate = scene.gate().flag("until", until).flag("restart-with", "db").flag("grace", "5s");
    let agent = command(scene, gate, script).spawn_waiting();
    scene.set_state("db", if until.ends_with("Completed") { State::Completed } else { State::Ready });
    let ticket = scene.report().unwrap().ticket.unwrap();
    scene.publish(|s| _ = s.confirmed_tickets.insert("api".to_owned(), ticket));
    wait_until_up(scene);
    agent
}

#[test]
fn command_ends_when_its_provider_was_restarted() {
    let changes: [fn(&mut Snapshot); 4] = [
        |s| _ = s.restarts.insert("db".to_owned(), 1),
        |s| _ = s.states.insert("db".to_owned(), State::Waiting),
        |s| _ = s.states.insert("db".to_owned(), State::Completed),
        |s| _ = s.states.insert("db".to_owned(), State::Failed),
    ];
    for change in changes {
        let mut scene = Scene::with_sidecar();
        let agent = spawn_follower(&mut scene, "db", LONG_RUNNING);
        assert_eq!(scene.report().unwrap().watched_containers, ["db"]);
        scene.publish(change);
        agent.wait().assert_failed(69, "db was restarted; ended the command so that this container restarts too");
        assert!(scene.termination_message().contains("db was restarted"));
        assert_eq!(scene.report().unwrap().exit_code, Some(69));
    }
}

#[test]
fn unready_provider_and_pod_deletion_do_not_end_the_command() {
    let mut scene = Scene::with_sidecar();
    scene.publish(|s| _ = s.restarts.insert("db".to_owned(), 7));
    let mut agent = spawn_follower(&mut scene, "db", LONG_RUNNING);
    for state in [State::NotReady, State::Started, State::Ready] {
        scene.set_state("db", state);
        assert_still_running(&mut agent);
    }
    scene.publish(|s| {
        s.stage = Stage::Terminating;
        s.states.insert("db".to_owned(), State::Failed);
    });
    assert_still_running(&mut agent);
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}

#[test]
fn completed_provider_ends_the_command_only_when_it_restarts() {
    let mut scene = Scene::with_sidecar();
    let mut agent = spawn_follower(&mut scene, "db=Completed", LONG_RUNNING);
    assert_still_running(&mut agent);
    scene.publish(|s| {
        s.restarts.insert("db".to_owned(), 1);
        s.states.insert("db".to_owned(), State::Started);
    });
    assert_eq!(agent.wait().code, 69);
}

#[test]
fn a_new_epoch_without_observations_is_not_a_restart() {
    let mut scene = Scene::with_sidecar();
    scene.publish(|s| _ = s.restarts.insert("db".to_owned(), 2));
    let mut agent = spawn_follower(&mut scene, "db", LONG_RUNNING);
    scene.kill_sidecar();
    scene.snapshot.epoch = "e2".to_owned();
    scene.snapshot.restarts.clear();
    scene.snapshot.states.insert("db".to_owned(), State::Waiting);
    scene.start_sidecar();
    wait_until("the parent reports in the new epoch", || scene.report().unwrap().epoch == "e2");
    for state in [State::Started, State::Ready] {
        assert_still_running(&mut agent);
        scene.set_state("db", state);
    }
    assert_still_running(&mut agent);
    scene.publish(|s| _ = s.restarts.insert("db".to_owned(), 1));
    assert_eq!(agent.wait().code, 69);
}

#[test]
fn restart_is_ignored_without_the_flag() {
    let mut scene = Scene::with_sidecar();
    scene.set_state("db", State::Ready);
    let gate = scene.gate().flag("until", "db").flag("tether", "parent");
    let agent = command(&scene, gate, LONG_RUNNING).spawn_waiting();
    let ticket = scene.report().unwrap().ticket.unwrap();
    scene.publish(|s| _ = s.confirmed_tickets.insert("api".to_owned(), ticket));
    wait_until_up(&scene);
    assert_eq!(scene.report().unwrap().watched_containers, Vec::<String>::new());
    scene.set_state("db", State::Failed);
    std::thread::sleep(Duration::from_millis(100));
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}

/// Returns a gate with `--ready-check` and a check that runs the script `check`, in which `ROOT` is replaced with the
/// scene's directory.
fn gate_with_check(scene: &Scene, check: &str) -> Agent {
    let check = check.replace("ROOT", &scene.root.display().to_string());
    let check = format!("exec:{}", serde_json::to_string(&["sh", "-c", &check]).unwrap());
    scene.gate().flag("ready-check", check)
}

fn has_passed(scene: &Scene) -> bool {
    scene.report().is_some_and(|Report { check_passed, .. }| check_passed)
}

#[test]
fn own_checks_run_with_the_command_until_they_pass() {
    let mut scene = Scene::with_sidecar();
    let script = "echo up > UP; while [ ! -e ROOT/ready ]; do sleep 0.01; done; echo x > ROOT/passes; exec sleep 600";
    let gate = gate_with_check(&scene, "echo run >> ROOT/check-runs; test -e ROOT/passes");
    let agent = command(&scene, gate, script).spawn();
    wait_until("the check has run three times", || {
        fs::read_to_string(scene.root.join("check-runs")).is_ok_and(|text| text.lines().count() > 2)
    });
    assert!(!has_passed(&scene) && scene.report().unwrap().has_gate_opened());
    fs::write(scene.root.join("ready"), "").unwrap();
    wait_until("the passed check is reported", || has_passed(&scene));
    let check_runs = fs::read_to_string(scene.root.join("check-runs")).unwrap();
    scene.publish(|s| s.epoch = "e2".to_owned());
    wait_until("the parent reports again", || scene.report().unwrap().epoch == "e2");
    assert!(has_passed(&scene));
    assert_eq!(
        fs::read_to_string(scene.root.join("check-runs")).unwrap(),
        check_runs,
        "a passed check must not run again"
    );
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}

/// The first check is the startupProbe, the second one the readinessProbe.
#[test]
fn own_probes_run_in_sequence_with_delay_and_threshold() {
    let scene = Scene::with_sidecar();
    let file = |name: &str| scene.root.join(name);
    let readiness = format!(
        r#"exec:["sh","-c","date +%s%N >> {0}; test -e {1}"]"#,
        file("runs").display(),
        file("ready").display()
    );
    let gate = gate_with_check(&scene, "date +%s%N >> ROOT/first; test -e ROOT/started")
        .arg("--ready-check")
        .arg(readiness)
        .flag("initial-delay", "300ms")
        .flag("passing-for", "400ms");
    let agent = command(&scene, gate, "date +%s%N > ROOT/begin; echo up > UP; exec sleep 600").spawn();
    let lines = |name: &str| fs::read_to_string(file(name)).unwrap_or_default();
    let times = |name: &str| lines(name).lines().map(|line| line.parse().unwrap()).collect::<Vec<u64>>();
    wait_until("the startupProbe has run twice", || lines("first").lines().count() > 1);
    // The processes of command and check start at slightly different times.
    let delay = (times("first")[0] - times("begin")[0]) / 1_000_000;
    assert!(delay > 250, "the first probe ran {delay} ms after the command's start");
    assert_eq!(lines("runs"), "", "the readinessProbe must wait for the startupProbe");
    fs::write(file("started"), "").unwrap();
    wait_until("the readinessProbe has run twice", || lines("runs").lines().count() > 1);
    fs::write(file("ready"), "").unwrap();
    let runs = times("runs").len();
    wait_until("the passed probes are reported", || has_passed(&scene));
    let passes = &times("runs")[runs - 1..];
    let took = (passes.last().unwrap() - passes[0]) / 1_000_000;
    assert!(took > 350, "the readinessProbe had passed for {took} ms");
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}

#[test]
fn exec_check_delays_the_command_also_under_a_parent() {
    let scene = Scene::new();
    let check =
        format!("exec:{}", serde_json::to_string(&["test", "-e", scene.root.join("go").to_str().unwrap()]).unwrap());
    let gate = scene.gate().flag("tether", "parent").flag("check", check);
    let agent = command(&scene, gate, "exit 7").spawn_waiting();
    wait_until("the message has the check", || scene.termination_message().ends_with("(exited with 1)"));
    fs::write(scene.root.join("go"), "").unwrap();
    assert_eq!(agent.wait().code, 7);
}

#[test]
fn daemons_of_a_check_live_as_long_as_the_command() {
    if Shell::in_namespaces(&["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"]).is_none() {
        return;
    }
    let scene = Scene::with_sidecar();
    // The first check leaves a daemon in its own session, and another one in its process group. A later check, which
    // times out, changes nothing.
    let check = "echo run >> ROOT/runs; case $(wc -l < ROOT/runs) in \
        1) setsid sleep 600 & echo $! >> ROOT/pids; sleep 600 & echo $! >> ROOT/pids; exit 1;; \
        2) sleep 600 & wait;; 3) exit 1;; esac; kill -0 $(cat ROOT/pids)";
    let gate = gate_with_check(&scene, check).flag("check-timeout", "500ms");
    let agent = command(&scene, gate, "exec sleep 600").in_a_pid_namespace().spawn();
    wait_until("the check has found the daemons", || has_passed(&scene));
    send(agent.child(), libc::SIGTERM);
    assert_eq!(agent.wait().code, 143);
}

#[test]
fn hanging_check_is_killed_and_delays_no_signal() {
    let scene = Scene::with_sidecar();
    let check = "echo $$ >> ROOT/hangs; exec sleep 600";
    let agent = command(&scene, gate_with_check(&scene, check).flag("check-timeout", "200ms"), LONG_RUNNING).spawn();
    let hangs = || fs::read_to_string(scene.root.join("hangs")).unwrap_or_default();
    wait_until("the check has run three times", || hangs().lines().count() > 2);
    let first = hangs().lines().next().unwrap().to_owned();
    assert!(!std::path::Path::new(&format!("/proc/{first}")).exists());
    let hanging = command(&scene, gate_with_check(&scene, check), "while [ ! -e ROOT/hangs ]; do :; done; exit 4");
    assert_eq!(hanging.run().code, 4);
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}
