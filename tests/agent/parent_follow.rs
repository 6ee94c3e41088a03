//! What `podgate entrypoint` goes on watching while its command runs: those whose exit or restart ends it, and its own checks.

use crate::support::{Agent, RunningAgent, Scene, wait_until};
use podgate::core::report::Report;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::{Phase, State};
use rustix::process::Signal;
use std::fs;
use std::time::Duration;

const LONG: &str = "echo up > UP; exec sleep 600";

/// With the script's `UP` and `ROOT` in the place of paths.
fn command(scene: &Scene, gate: Agent, script: &str) -> Agent {
    let up = scene.root.join("up").display().to_string();
    let script = script.replace("UP", &up).replace("ROOT", &scene.root.display().to_string());
    gate.arg("--").arg("sh").arg("-c").arg(script)
}

fn until_up(scene: &Scene) {
    wait_until("the command runs", || fs::read_to_string(scene.root.join("up")).is_ok_and(|text| text.ends_with('\n')));
}

/// `envoy`, which is there for `app` and `job`.
fn stop_after(scene: &Scene) -> Agent {
    scene.gate().arg("--stop-after").arg("app").arg("--stop-after").arg("job")
}

fn with_app_and_job() -> Scene {
    let mut scene = Scene::with_controller();
    scene.set_state("app", State::Ready);
    scene.set_state("job", State::Started);
    scene
}

fn still_runs(agent: &mut RunningAgent) {
    std::thread::sleep(Duration::from_millis(100));
    assert!(agent.is_running());
}

#[test]
fn it_ends_when_all_of_those_have_exited() {
    for (exit_code, expected) in [("0", 0), ("child", 143)] {
        let mut scene = with_app_and_job();
        let gate = stop_after(&scene).flag("exit-code", exit_code);
        let mut agent = command(&scene, gate, LONG).spawn();
        until_up(&scene);
        let report = scene.report().unwrap();
        assert_eq!(report.watched_containers, ["app", "job"]);
        scene.set_state("job", State::Failed);
        still_runs(&mut agent);
        scene.set_state("app", State::Completed);
        let ended = agent.wait();
        assert_eq!((ended.code, ended.stderr.as_str()), (expected, ""));
        assert_eq!(scene.report().unwrap().exit_code, Some(expected));
        assert!(scene.log_text().contains("app, job has exited; ending the command"));
    }
}

#[test]
fn one_that_does_not_end_is_killed_after_its_grace() {
    let mut scene = with_app_and_job();
    let gate = stop_after(&scene).flag("grace", "200ms");
    let agent = command(&scene, gate, "trap '' TERM; echo up > UP; while :; do sleep 0.01; done").spawn();
    until_up(&scene);
    scene.publish(|s| s.states.extend([("app".to_owned(), State::Failed), ("job".to_owned(), State::Failed)]));
    assert_eq!(agent.wait().code, 0);
    assert!(scene.log_text().contains("sending SIGKILL"));
}

#[test]
fn one_that_ends_first_ends_with_its_own_code() {
    let scene = with_app_and_job();
    assert_eq!(command(&scene, stop_after(&scene), "exit 5").run().code, 5);
}

#[test]
fn when_all_had_exited_before_it_is_not_started() {
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
fn neither_a_dead_controller_nor_deletion_nor_another_sandbox_ends_it() {
    let mut scene = with_app_and_job();
    let mut agent = command(&scene, stop_after(&scene), LONG).spawn();
    until_up(&scene);
    scene.publish(|s| s.phase = Phase::Terminating);
    still_runs(&mut agent);
    let here = scene.snapshot.clone();
    scene.publish(|s| {
        s.sandbox = "00000000-1-00000001".parse().unwrap();
        s.states.extend([("app".to_owned(), State::Completed), ("job".to_owned(), State::Completed)]);
    });
    still_runs(&mut agent);
    scene.kill_controller();
    fs::remove_file(scene.board.join("annotations")).unwrap();
    still_runs(&mut agent);
    // The next controller says so, and that counts.
    scene.snapshot = Snapshot { epoch: "e2".to_owned(), revision: 100, phase: Phase::Started, ..here };
    scene.start_controller();
    still_runs(&mut agent);
    scene.publish(|s| s.states.extend([("app".to_owned(), State::Completed), ("job".to_owned(), State::Completed)]));
    assert_eq!(agent.wait().code, 0);
    assert_eq!(scene.report().unwrap().epoch, "e2");
}

#[test]
fn a_name_that_the_pod_does_not_have_is_told() {
    let scene = Scene::with_controller();
    let gate = scene.gate().arg("--stop-after").arg("ghost");
    let agent = command(&scene, gate, LONG).spawn();
    wait_until("it is told", || scene.log_text().contains("--stop-after ghost: the pod has no such container"));
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}

#[test]
fn with_nothing_to_read_from_the_set_up_is_wrong() {
    let scene = Scene::new();
    let gate = stop_after(&scene).flag("board", "/nonexistent").flag("podinfo", "/nonexistent");
    command(&scene, gate, "true").run().assert_failed(78, "--stop-after needs the pod's state");
}

#[test]
fn at_rest_it_wakes_for_the_slow_re_read_alone_by_whatever_it_waits() {
    let mut scene = with_app_and_job();
    let agent = command(&scene, stop_after(&scene), LONG).spawn();
    until_up(&scene);
    let rest = |what: &str| {
        std::thread::sleep(Duration::from_millis(50));
        let before = agent.sleep_count();
        std::thread::sleep(Duration::from_millis(2200));
        let woken = agent.sleep_count() - before;
        assert!((1..=3).contains(&woken), "{what}: {woken} wake-ups in 2.2 s");
    };
    rest("bell");
    scene.kill_controller();
    rest("inotify");
    scene.start_controller();
    scene.publish(|s| s.states.extend([("app".to_owned(), State::Completed), ("job".to_owned(), State::Completed)]));
    assert_eq!(agent.wait().code, 0);
}

#[test]
fn a_command_that_writes_without_end_does_not_hide_the_board() {
    let mut scene = with_app_and_job();
    let gate = stop_after(&scene).flag("stdout", "/dev/null");
    let mut child = command(&scene, gate, "echo up > UP; exec yes").command();
    let mut child = child.stdout(std::process::Stdio::from(fs::File::create("/dev/null").unwrap())).spawn().unwrap();
    until_up(&scene);
    scene.publish(|s| s.states.extend([("app".to_owned(), State::Completed), ("job".to_owned(), State::Completed)]));
    wait_until("it ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A gate behind `until` that is to follow restarts, open, its command running.
fn follower(scene: &mut Scene, until: &str, script: &str) -> RunningAgent {
    let gate = scene.gate().flag("until", until).flag("on-provider-restart", "restart").flag("grace", "5s");
    let agent = command(scene, gate, script).spawn_waiting();
    scene.set_state("db", if until.ends_with("Completed") { State::Completed } else { State::Ready });
    let ticket = scene.report().unwrap().ticket.unwrap();
    scene.publish(|s| _ = s.heard_tickets.insert("api".to_owned(), ticket));
    until_up(scene);
    agent
}

#[test]
fn it_ends_when_its_provider_was_restarted() {
    let changes: [fn(&mut Snapshot); 4] = [
        |s| _ = s.restarts.insert("db".to_owned(), 1),
        |s| _ = s.states.insert("db".to_owned(), State::Waiting),
        |s| _ = s.states.insert("db".to_owned(), State::Completed),
        |s| _ = s.states.insert("db".to_owned(), State::Failed),
    ];
    for change in changes {
        let mut scene = Scene::with_controller();
        let agent = follower(&mut scene, "db", LONG);
        assert_eq!(scene.report().unwrap().watched_containers, ["db"]);
        scene.publish(change);
        agent.wait().assert_failed(69, "db was restarted; ended the command so that this container restarts too");
        assert!(scene.termination_message().contains("db was restarted"));
        assert_eq!(scene.report().unwrap().exit_code, Some(69));
    }
}

#[test]
fn it_stays_when_its_provider_is_not_ready_or_the_pod_is_deleted() {
    let mut scene = Scene::with_controller();
    scene.publish(|s| _ = s.restarts.insert("db".to_owned(), 7));
    let mut agent = follower(&mut scene, "db", LONG);
    for state in [State::NotReady, State::Started, State::Ready] {
        scene.set_state("db", state);
        still_runs(&mut agent);
    }
    scene.publish(|s| {
        s.phase = Phase::Terminating;
        s.states.insert("db".to_owned(), State::Failed);
    });
    still_runs(&mut agent);
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}

#[test]
fn a_provider_that_had_to_complete_may_have_ended() {
    let mut scene = Scene::with_controller();
    let mut agent = follower(&mut scene, "db=Completed", LONG);
    still_runs(&mut agent);
    scene.publish(|s| {
        s.restarts.insert("db".to_owned(), 1);
        s.states.insert("db".to_owned(), State::Started);
    });
    assert_eq!(agent.wait().code, 69);
}

#[test]
fn a_new_controller_that_has_not_looked_yet_proves_no_restart() {
    let mut scene = Scene::with_controller();
    scene.publish(|s| _ = s.restarts.insert("db".to_owned(), 2));
    let mut agent = follower(&mut scene, "db", LONG);
    scene.kill_controller();
    scene.snapshot.epoch = "e2".to_owned();
    scene.snapshot.restarts.clear();
    scene.snapshot.states.insert("db".to_owned(), State::Waiting);
    scene.start_controller();
    wait_until("it tells the new one", || scene.report().unwrap().epoch == "e2");
    for state in [State::Started, State::Ready] {
        still_runs(&mut agent);
        scene.set_state("db", state);
    }
    still_runs(&mut agent);
    scene.publish(|s| _ = s.restarts.insert("db".to_owned(), 1));
    assert_eq!(agent.wait().code, 69);
}

#[test]
fn without_it_a_restart_is_ignored() {
    let mut scene = Scene::with_controller();
    scene.set_state("db", State::Ready);
    let gate = scene.gate().flag("until", "db").flag("tether", "parent");
    let agent = command(&scene, gate, LONG).spawn_waiting();
    let ticket = scene.report().unwrap().ticket.unwrap();
    scene.publish(|s| _ = s.heard_tickets.insert("api".to_owned(), ticket));
    until_up(&scene);
    assert_eq!(scene.report().unwrap().watched_containers, Vec::<String>::new());
    scene.set_state("db", State::Failed);
    std::thread::sleep(Duration::from_millis(100));
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}

/// A gate with `--tether parent` and this check of its own.
fn checked(scene: &Scene, check: &str) -> Agent {
    let check = check.replace("ROOT", &scene.root.display().to_string());
    let check = format!("exec:{}", serde_json::to_string(&["sh", "-c", &check]).unwrap());
    scene.gate().flag("tether", "parent").flag("check", check)
}

fn has_passed(scene: &Scene) -> bool {
    scene.report().is_some_and(|Report { check_passed, .. }| check_passed)
}

#[test]
fn its_own_checks_run_once_the_command_does_and_are_told_to_each_controller() {
    let mut scene = Scene::with_controller();
    let script = "echo up > UP; while [ ! -e ROOT/ready ]; do sleep 0.01; done; echo x > ROOT/passes; exec sleep 600";
    let gate = checked(&scene, "echo look >> ROOT/looks; test -e ROOT/passes");
    let agent = command(&scene, gate, script).spawn();
    wait_until("it looks", || fs::read_to_string(scene.root.join("looks")).is_ok_and(|text| text.lines().count() > 2));
    assert!(!has_passed(&scene) && scene.report().unwrap().has_gate_opened());
    fs::write(scene.root.join("ready"), "").unwrap();
    wait_until("it is told", || has_passed(&scene));
    let looks = fs::read_to_string(scene.root.join("looks")).unwrap();
    scene.publish(|s| s.epoch = "e2".to_owned());
    wait_until("it is told again", || scene.report().unwrap().epoch == "e2");
    assert!(has_passed(&scene));
    assert_eq!(fs::read_to_string(scene.root.join("looks")).unwrap(), looks, "once is enough");
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}

#[test]
fn a_check_leaves_the_command_and_its_orphans_alone_and_nothing_of_its_own_behind() {
    let scene = Scene::with_controller();
    // The command leaves an orphan in a session of its own; so does each check.
    let script = "(setsid sleep 600 >/dev/null 2>&1 & echo $! > ROOT/orphan); echo up > UP; exec sleep 600";
    let check = "test -e UP || exit 1; (setsid sleep 600 & echo $! >> ROOT/strays); exit 1";
    let check = check.replace("UP", &scene.root.join("up").display().to_string());
    let agent = command(&scene, checked(&scene, &check), script).spawn();
    let strays = || fs::read_to_string(scene.root.join("strays")).unwrap_or_default();
    wait_until("checks were made", || strays().lines().count() > 3);
    let lives = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
    let orphan = fs::read_to_string(scene.root.join("orphan")).unwrap();
    assert!(lives(orphan.trim()));
    let first: Vec<String> = strays().lines().take(2).map(str::to_owned).collect();
    wait_until("they are gone", || first.iter().all(|pid| !lives(pid)));
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
    let pid = rustix::process::Pid::from_raw(orphan.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn a_check_that_hangs_is_ended_and_holds_up_neither_signals_nor_the_end() {
    let scene = Scene::with_controller();
    let check = "echo $$ >> ROOT/hangs; exec sleep 600";
    let agent = command(&scene, checked(&scene, check).flag("check-timeout", "200ms"), LONG).spawn();
    let hangs = || fs::read_to_string(scene.root.join("hangs")).unwrap_or_default();
    wait_until("it is made again", || hangs().lines().count() > 2);
    let first = hangs().lines().next().unwrap().to_owned();
    assert!(!std::path::Path::new(&format!("/proc/{first}")).exists());
    let hanging = command(&scene, checked(&scene, check), "while [ ! -e ROOT/hangs ]; do :; done; exit 4");
    assert_eq!(hanging.run().code, 4);
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code, 143);
}
