//! Tests of the gate in front of a container's command: conditions, exit codes and messages. `becoming` tests the
//! command after the gate.

use crate::free_port::free_address;
use crate::rungs::shell_with_inotify_limit;
use crate::support::{Agent, Scene, Shell, wait_until};
use podgate::core::report::{GateState, Report, reserved_size};
use podgate::core::snapshot::REASON_ENDED_FOR_GOOD;
use podgate::core::state::{Stage, State};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::Duration;

/// Returns a gate that waits for `db`. The caller must add the command.
pub(crate) fn waits_for_db(scene: &Scene) -> Agent {
    scene.gate().flag("container", "api").flag("until", "db")
}

pub(crate) const ECHO_RAN: &[&str] = &["echo", "ran"];

#[track_caller]
fn assert_ran(run: &crate::support::AgentOutput) {
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "ran\n", ""), "{run:?}");
}

#[test]
fn gate_opens_only_after_the_sidecar_confirms_its_conditions() {
    let mut scene = Scene::with_sidecar();
    let gate = waits_for_db(&scene).with_command(ECHO_RAN).spawn_waiting();
    assert_eq!(scene.termination_message(), "podgate entrypoint: api: waiting for db=Ready (now Started)");
    let report = scene.report().unwrap();
    assert!(scene.is_current(&report) && !report.started);
    assert_eq!((report.gate, report.waiting_for.clone()), (Some(GateState::Waiting), vec!["db".parse().unwrap()]));
    let ticket = report.ticket.unwrap();
    assert!(ticket.len() == 8 && ticket.bytes().all(|b| b.is_ascii_hexdigit()), "{ticket}");
    let process = report.process.unwrap();
    assert!(process.pid == gate.id() && podgate::edge::process::is_alive(process));
    assert!(scene.is_tethered());
    assert_eq!(gate.thread_count(), 1);
    // The gate must not rely on states that were published before the gate's own report.
    scene.set_state("db", State::Ready);
    wait_until("the gate names the missing confirmation", || {
        scene.termination_message().ends_with("waiting for the confirmation of the conditions")
    });
    scene.publish(|s| s.confirmed_tickets = [("api".to_owned(), "00000000".to_owned())].into());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(scene.report().unwrap().gate, Some(GateState::Waiting));
    scene.confirm_conditions(|_| {});
    assert_ran(&gate.wait());
    assert_eq!(scene.wait_methods(), ["bell"]);
    assert_eq!(scene.termination_message(), "");
    let report = scene.report().unwrap();
    assert_eq!((report.gate, report.started, report.waiting_for.len()), (Some(GateState::Opened), true, 0));
    assert!(scene.is_current(&report));
    assert_eq!((report.ticket, report.process), (Some(ticket), Some(process)));
}

#[test]
fn confirmed_gate_still_waits_for_its_conditions() {
    let mut scene = Scene::with_sidecar();
    let mut gate = waits_for_db(&scene).flag("until", "api=Completed").with_command(ECHO_RAN).spawn_waiting();
    scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    wait_until("one condition is left", || {
        scene.termination_message().ends_with("waiting for api=Completed (now Waiting)")
    });
    // The stage Started releases hooks, but no gates.
    scene.publish(|s| s.stage = Stage::Started);
    std::thread::sleep(Duration::from_millis(50));
    assert!(gate.is_running());
    scene.set_state("api", State::Completed);
    assert_ran(&gate.wait());
}

#[test]
fn restarted_gate_needs_a_new_confirmation() {
    let mut scene = Scene::with_sidecar();
    let gate = waits_for_db(&scene).with_command(ECHO_RAN).spawn_waiting();
    scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    assert_ran(&gate.wait());
    let gate = waits_for_db(&scene).with_command(ECHO_RAN).spawn_waiting();
    assert!(
        scene.termination_message().contains("the confirmation of the conditions"),
        "{}",
        scene.termination_message()
    );
    scene.confirm_conditions(|_| {});
    assert_ran(&gate.wait());
}

#[test]
fn gate_reports_again_in_a_new_epoch() {
    let mut scene = Scene::with_sidecar();
    let gate = waits_for_db(&scene).with_command(ECHO_RAN).spawn_waiting();
    let before = scene.report().unwrap();
    scene.publish(|s| s.epoch = "e2".to_owned());
    wait_until("the gate reports again", || scene.report().unwrap().epoch == "e2");
    assert_eq!(scene.report().unwrap().ticket, before.ticket);
    scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    assert_ran(&gate.wait());
}

#[test]
fn pod_deletion_ends_the_wait_and_the_command_never_runs() {
    let mut scene = Scene::with_sidecar();
    let gate = waits_for_db(&scene).with_command(ECHO_RAN).spawn_waiting();
    scene.confirm_conditions(|s| {
        s.stage = Stage::Terminating;
        s.states.insert("db".to_owned(), State::Ready);
    });
    gate.wait().assert_failed(143, "podgate entrypoint: api: the pod is being deleted");
    waits_for_db(&scene)
        .flag("on-timeout", "continue")
        .with_command(ECHO_RAN)
        .run()
        .assert_failed(143, "being deleted");
}

#[test]
fn timeout_fails_unless_on_timeout_is_continue() {
    let scene = Scene::with_sidecar();
    let gate = || waits_for_db(&scene).flag("timeout", "100ms");
    let run = gate().with_command(ECHO_RAN).run();
    run.assert_failed(
        75,
        "still waiting for db=Ready (now Started): db runs, but has not passed its probes; see kubectl",
    );
    assert_eq!(scene.termination_message(), run.stderr.trim_end());
    assert_ran(&gate().flag("on-timeout", "continue").with_command(ECHO_RAN).run());
    assert_eq!((scene.termination_message().as_str(), scene.report().unwrap().gate), ("", Some(GateState::Opened)));
}

#[test]
fn gate_fails_fast_only_with_the_flag() {
    let stuck = |state: State, why: &str| {
        let mut scene = Scene::with_sidecar();
        scene.publish(|s| {
            s.states.insert("db".to_owned(), state);
            s.stuck.insert("db".to_owned(), why.to_owned());
        });
        scene
    };
    for (until, state, why, message) in [
        (
            "db",
            State::Waiting,
            "ImagePullBackOff",
            "the container is stuck in ImagePullBackOff; see kubectl describe pod POD",
        ),
        (
            "db",
            State::Failed,
            REASON_ENDED_FOR_GOOD,
            "db=Ready cannot be met: the container is Failed and will not be restarted",
        ),
        (
            "db=Completed",
            State::Failed,
            REASON_ENDED_FOR_GOOD,
            "db=Completed cannot be met: the container is Failed and will not be restarted",
        ),
    ] {
        let scene = stuck(state, why);
        let gate = || scene.gate().flag("until", until);
        gate().arg("--fail-fast").with_command(ECHO_RAN).run().assert_failed(69, message);
        gate().flag("timeout", "50ms").with_command(ECHO_RAN).run().assert_failed(75, why);
    }
    let mut scene = stuck(State::Failed, REASON_ENDED_FOR_GOOD);
    let gate = scene.gate().flag("until", "db=Exited").arg("--fail-fast").with_command(ECHO_RAN).spawn_waiting();
    scene.confirm_conditions(|_| {});
    assert_ran(&gate.wait());
}

#[test]
fn unknown_container_and_missing_volumes_are_setup_errors() {
    let scene = Scene::with_sidecar();
    let run = scene.gate().flag("until", "ghost").with_command(ECHO_RAN).run();
    run.assert_failed(78, "no such container: ghost; the pod has api, db");
    let no_volumes = Scene::new();
    fs::remove_dir(&no_volumes.board).unwrap();
    let missing =
        format!("--until needs the board, but {} does not exist; mount podgate's volumes", no_volumes.board.display());
    waits_for_db(&no_volumes).with_command(ECHO_RAN).run().assert_failed(78, &missing);
    // `--on-timeout continue` does not apply to setup errors.
    let gate = no_volumes.gate().flag("until", "db").flag("on-timeout", "continue");
    gate.with_command(ECHO_RAN).run().assert_failed(78, "--until needs the board");
}

#[test]
fn gate_changes_its_wait_method_while_it_waits() {
    let mut scene = Scene::with_sidecar();
    let gate = waits_for_db(&scene).with_command(ECHO_RAN).spawn_waiting();
    scene.kill_sidecar();
    wait_until("the gate falls back to inotify", || scene.wait_methods() == ["bell", "inotify"]);
    scene.start_sidecar();
    wait_until("the gate returns to the bell", || scene.wait_methods() == ["bell", "inotify", "bell"]);
    scene.kill_sidecar();
    wait_until("the gate reports the dead sidecar", || {
        scene.termination_message().contains("the sidecar is not running")
    });
    assert!(
        !scene.termination_message().contains("fallback"),
        "a gate has no fallback check: {}",
        scene.termination_message()
    );
    scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    assert_ran(&gate.wait());
    let Some(mut shell) = shell_with_inotify_limit() else { return };
    let (mut scene, errors) = (Scene::with_sidecar(), scene.root.join("errors"));
    scene.log = shell.log.clone();
    let gate = waits_for_db(&scene).with_command(&["sh", "-c", "exit 7"]);
    shell.start_agent(&gate, &errors);
    wait_until("the gate waits by the bell", || scene.wait_methods() == ["bell"]);
    scene.kill_sidecar();
    wait_until("the gate falls back to polling", || scene.wait_methods() == ["bell", "polling"]);
    scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    assert_eq!(shell.wait_for_agent(), 7, "{}", fs::read_to_string(errors).unwrap());
}

/// Returns a scene without a board and without the container's own directory, as in a pod without a sidecar.
fn without_sidecar() -> Scene {
    let scene = Scene::new();
    for directory in [&scene.board, &scene.self_directory] {
        fs::remove_dir(directory).unwrap();
    }
    scene
}

#[test]
fn gate_with_only_checks_needs_no_sidecar() {
    let port = free_address();
    let scene = without_sidecar();
    let gate = |kind: &str| scene.gate().flag("check", format!("{kind}://{port}")).with_command(ECHO_RAN);
    let waiting = [gate("tcp").spawn_waiting(), gate("http").spawn_waiting()];
    assert!(
        !scene.termination_message().contains("report"),
        "there is no sidecar to report to: {}",
        scene.termination_message()
    );
    let listener = TcpListener::bind(port).unwrap();
    let server = std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap_or(0);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
            if request[..length].starts_with(b"QUIT") {
                return;
            }
        }
    });
    waiting.into_iter().for_each(|gate| assert_ran(&gate.wait()));
    std::net::TcpStream::connect(port).unwrap().write_all(b"QUIT").unwrap();
    server.join().unwrap();

    let file = scene.root.join("ready");
    let gate =
        scene.gate().flag("check", format!("file://{}+content", file.display())).with_command(ECHO_RAN).spawn_waiting();
    fs::write(&file, "").unwrap();
    wait_until("the gate finds the file empty", || scene.termination_message().contains("(empty)"));
    fs::write(&file, "0").unwrap();
    assert_ran(&gate.wait());
    assert_ran(&scene.gate().flag("check", r#"exec:["true"]"#).with_command(ECHO_RAN).run());
    // Without a condition, the gate opens immediately.
    assert_ran(&scene.gate().with_command(ECHO_RAN).run());
}

#[test]
fn gate_opens_when_all_checks_and_conditions_hold() {
    let mut scene = Scene::with_sidecar();
    let file = scene.root.join("ready");
    let gate =
        waits_for_db(&scene).flag("check", format!("file://{}", file.display())).with_command(ECHO_RAN).spawn_waiting();
    assert!(
        scene.termination_message().contains("db=Ready (now Started); file:///"),
        "{}",
        scene.termination_message()
    );
    scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    wait_until("only the check is left", || scene.termination_message().contains("waiting for file:///"));
    fs::write(&file, "").unwrap();
    assert_ran(&gate.wait());
}

#[test]
fn failed_previous_step_ends_the_wait() {
    let scene = without_sidecar();
    let file = scene.root.join("0");
    let gate = scene.gate().flag("check", format!("file://{}", file.display())).with_command(ECHO_RAN).spawn_waiting();
    fs::write(scene.root.join("0.err"), "").unwrap();
    gate.wait().assert_failed(69, "0.err exists, so the previous step failed");
}

#[test]
fn without_another_log_stderr_gets_each_message_once() {
    let mut scene = Scene::with_sidecar();
    let gate = || waits_for_db(&scene).without_flag("log-to");
    let run = gate().flag("timeout", "50ms").with_command(ECHO_RAN).run();
    assert_eq!(run.stderr.matches("timed out after 50ms").count(), 1, "{run:?}");
    let gate = gate().with_command(ECHO_RAN).spawn_waiting();
    scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    let run = gate.wait();
    assert_eq!(run.stdout, "ran\n");
    assert!(run.stderr.contains(": waiting for db=Ready") && run.stderr.contains("released: all conditions are met"));
}

#[test]
fn hostile_files_in_its_directory_do_not_harm_the_gate() {
    type Trap = fn(&Scene);
    let report_link: Trap = |s| symlink(s.root.join("secret"), s.self_directory.join("report")).unwrap();
    let tether_link: Trap = |s| symlink(s.root.join("secret"), s.self_directory.join("tether")).unwrap();
    let fifos: Trap = |s| {
        for name in ["report", "tether", ".report.tmp", ".tether.tmp"] {
            mknodat(CWD, s.self_directory.join(name), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        }
    };
    for trap in [report_link, tether_link, fifos] {
        let mut scene = Scene::with_sidecar();
        fs::write(scene.root.join("secret"), "secret").unwrap();
        trap(&scene);
        let gate = waits_for_db(&scene).with_command(ECHO_RAN).spawn_waiting();
        assert!(scene.is_tethered());
        scene.confirm_conditions(|s| _ = s.states.insert("db".to_owned(), State::Ready));
        assert_ran(&gate.wait());
        assert_eq!(fs::read_to_string(scene.root.join("secret")).unwrap(), "secret");
    }
    let missing: Trap = |s| fs::remove_dir(&s.self_directory).unwrap();
    let file: Trap = |s| {
        fs::remove_dir(&s.self_directory).unwrap();
        fs::write(&s.self_directory, "").unwrap();
    };
    let directory: Trap = |s| fs::create_dir_all(s.self_directory.join("report/x")).unwrap();
    for trap in [missing, file, directory] {
        let scene = Scene::with_sidecar();
        trap(&scene);
        let gate = waits_for_db(&scene).flag("timeout", "50ms");
        gate.with_command(ECHO_RAN).run().assert_failed(75, "cannot report to the sidecar");
        assert!(
            scene.termination_message().contains("mount this container's own directory there"),
            "{}",
            scene.termination_message()
        );
    }
}

#[test]
fn gate_needs_a_writable_directory_but_no_free_space() {
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--mount"]) else { return };
    let mut scene = Scene::with_sidecar();
    let self_directory = scene.self_directory.display().to_string();
    assert_eq!(shell.run(&format!("mount -t tmpfs -o size=64k,mode=755 tmpfs {self_directory}")), 0);
    let conditions =
        |count| -> Vec<String> { (0..count).map(|number| format!("{}-{number}", "x".repeat(60))).collect() };
    let errors = scene.root.join("errors");
    let stderr_text = || fs::read_to_string(&errors).unwrap();
    for count in [0, 90] {
        // The sidecar has already reserved space for the report when another container fills the volume.
        let until: Vec<_> =
            conditions(count).iter().chain([&"db".to_owned()]).map(|one| one.parse().unwrap()).collect();
        fs::write(scene.root.join("reserved"), Report::default().to_padded_text(reserved_size(&until))).unwrap();
        let fill = format!(
            "cat {}/reserved >{self_directory}/report; : >{self_directory}/tether; cat /dev/zero >{self_directory}/x 2>/dev/null",
            scene.root.display()
        );
        assert_ne!(shell.run(&format!("rm -f {self_directory}/*; {fill}")), 0);
        scene.set_state("db", State::Started);
        fs::write(&scene.termination, "").unwrap();
        // The second start of the gate uses the file that the first start has left.
        for start in 0..2 {
            let gate = conditions(count).iter().fold(waits_for_db(&scene), |gate, one| gate.flag("until", one));
            shell.start_agent(&gate.with_command(&["sh", "-c", "exit 7"]), &errors);
            // This process cannot read the tmpfs on the gate's directory, so the shell copies the report.
            let copy = scene.root.join("copy");
            let mut read = || {
                assert_eq!(shell.run(&format!("cp {self_directory}/report {}", copy.display())), 0);
                let report = Report::parse(&fs::read(&copy).unwrap()).unwrap();
                (report.gate == Some(GateState::Waiting) && report.epoch == "e1").then_some(report)
            };
            let mut found = None;
            wait_until("the gate has reported", || {
                found = read();
                found.is_some()
            });
            let report = found.unwrap();
            assert_eq!(report.waiting_for.len(), until.len());
            scene.publish(|s| {
                s.confirmed_tickets.insert("api".to_owned(), report.ticket.unwrap());
                s.states.extend(until.iter().map(|one| (one.container.clone(), State::Ready)));
            });
            assert_eq!(shell.wait_for_agent(), 7, "{count} conditions, start {start}: {}", stderr_text());
        }
    }

    assert_eq!(shell.run(&format!("mount -o remount,bind,ro {self_directory}")), 0);
    fs::write(&scene.termination, "").unwrap();
    shell.start_agent(&waits_for_db(&scene).flag("timeout", "100ms").with_command(ECHO_RAN), &errors);
    assert_eq!(shell.wait_for_agent(), 75);
    assert!(
        stderr_text().contains("cannot report to the sidecar") && stderr_text().contains("Read-only file system"),
        "{}",
        stderr_text()
    );
}
