//! The gate in front of a container's command: what it waits for, how it ends, what it says. What it becomes is `becoming`.

use crate::rungs::shell_with_inotify_limit;
use crate::support::{Agent, Scene, Shell, Volume, annotations_text, signal, wait_until};
use podgate::core::report::GateState;
use podgate::core::snapshot::REASON_ENDED;
use podgate::core::state::{Phase, State};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

/// Far more than a wake-up takes, and less than the slow re-read.
const AT_ONCE: Duration = Duration::from_millis(700);

/// A gate that waits for `db`, in front of a command that says `ran`.
fn waits_for_db(scene: &Scene) -> Agent {
    scene.gate().flag("container", "api").flag("until", "db")
}

const SAYS_RAN: &[&str] = &["echo", "ran"];

#[track_caller]
fn ran(run: &crate::support::AgentOutput) {
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "ran\n", ""), "{run:?}");
}

#[test]
fn it_waits_reports_and_opens_only_when_the_controller_has_heard_it() {
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).with_command(SAYS_RAN).spawn_waiting();
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
    // What was seen before it came does not count.
    scene.set_state("db", State::Ready);
    wait_until("it says so", || {
        scene.termination_message().ends_with("waiting for the sidecar to check the conditions again")
    });
    scene.publish(|s| s.heard_tickets = [("api".to_owned(), "00000000".to_owned())].into());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(scene.report().unwrap().gate, Some(GateState::Waiting));
    let heard_at = Instant::now();
    scene.acknowledge_report(|_| {});
    ran(&gate.wait());
    assert!(heard_at.elapsed() < AT_ONCE, "{:?}", heard_at.elapsed());
    assert_eq!(scene.termination_message(), "");
    let report = scene.report().unwrap();
    assert_eq!((report.gate, report.started, report.waiting_for.len()), (Some(GateState::Opened), true, 0));
    assert!(scene.is_current(&report));
    assert_eq!((report.ticket, report.process), (Some(ticket), Some(process)));
}

#[test]
fn being_heard_is_not_enough() {
    let mut scene = Scene::with_controller();
    let mut gate = waits_for_db(&scene).flag("until", "api=Completed").with_command(SAYS_RAN).spawn_waiting();
    scene.acknowledge_report(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    wait_until("one is left", || scene.termination_message().ends_with("waiting for api=Completed (now Waiting)"));
    // A pod that has started opens hooks alone.
    scene.publish(|s| s.phase = Phase::Started);
    std::thread::sleep(Duration::from_millis(50));
    assert!(gate.is_running());
    scene.set_state("api", State::Completed);
    ran(&gate.wait());
}

#[test]
fn a_new_start_of_the_gate_is_heard_anew() {
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).with_command(SAYS_RAN).spawn_waiting();
    scene.acknowledge_report(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    ran(&gate.wait());
    let gate = waits_for_db(&scene).with_command(SAYS_RAN).spawn_waiting();
    assert!(scene.termination_message().contains("check the conditions again"), "{}", scene.termination_message());
    scene.acknowledge_report(|_| {});
    ran(&gate.wait());
}

#[test]
fn a_new_epoch_is_told_anew() {
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).with_command(SAYS_RAN).spawn_waiting();
    let before = scene.report().unwrap();
    scene.publish(|s| s.epoch = "e2".to_owned());
    wait_until("it reports anew", || scene.report().unwrap().epoch == "e2");
    assert_eq!(scene.report().unwrap().ticket, before.ticket);
    scene.acknowledge_report(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    ran(&gate.wait());
}

#[test]
fn a_signal_ends_the_wait_at_once_and_the_command_never_runs() {
    for (signal, code, says) in [(Signal::TERM, 143, "received SIGTERM"), (Signal::INT, 130, "received SIGINT")] {
        let scene = Scene::with_controller();
        let gate = waits_for_db(&scene).with_command(SAYS_RAN).spawn_waiting();
        let sent_at = Instant::now();
        gate.signal(signal);
        gate.wait().assert_failed(code, says);
        assert!(sent_at.elapsed() < AT_ONCE, "{:?}", sent_at.elapsed());
        assert!(scene.termination_message().contains(says), "{}", scene.termination_message());
        assert!(!scene.is_tethered());
    }
}

#[test]
fn as_the_first_process_of_a_container_it_ends_by_a_signal_too() {
    if Shell::in_namespaces(&["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"]).is_none() {
        return;
    }
    for (number, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let scene = Scene::with_controller();
        let gate = waits_for_db(&scene).with_command(SAYS_RAN).in_a_pid_namespace().spawn_waiting();
        assert_eq!(scene.report().unwrap().process.unwrap().pid, 1);
        let sent_at = Instant::now();
        signal(gate.child(), number);
        gate.wait().assert_failed(code, "while waiting; the command was not run");
        assert!(sent_at.elapsed() < AT_ONCE, "{:?}", sent_at.elapsed());
    }
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).with_command(&["sh", "-c", "echo $$"]).in_a_pid_namespace().spawn_waiting();
    scene.acknowledge_report(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    assert_eq!(gate.wait().stdout, "1\n");
}

#[test]
fn the_pods_deletion_ends_it_and_the_command_never_runs() {
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).with_command(SAYS_RAN).spawn_waiting();
    scene.acknowledge_report(|s| {
        s.phase = Phase::Terminating;
        s.states.insert("db".to_owned(), State::Ready);
    });
    gate.wait().assert_failed(143, "podgate entrypoint: api: the pod is being deleted");
    waits_for_db(&scene)
        .flag("on-timeout", "continue")
        .with_command(SAYS_RAN)
        .run()
        .assert_failed(143, "being deleted");
}

#[test]
fn a_time_out_fails_unless_it_is_to_go_on() {
    let scene = Scene::with_controller();
    let gate = || waits_for_db(&scene).flag("timeout", "100ms");
    let run = gate().with_command(SAYS_RAN).run();
    run.assert_failed(75, "timed out after 100ms, still waiting for db=Ready (now Started)");
    assert_eq!(scene.termination_message(), run.stderr.trim_end());
    ran(&gate().flag("on-timeout", "continue").with_command(SAYS_RAN).run());
    assert_eq!((scene.termination_message().as_str(), scene.report().unwrap().gate), ("", Some(GateState::Opened)));
}

#[test]
fn it_fails_fast_only_when_asked() {
    let stuck = |state: State, why: &str| {
        let mut scene = Scene::with_controller();
        scene.publish(|s| {
            s.states.insert("db".to_owned(), state);
            s.stuck.insert("db".to_owned(), why.to_owned());
        });
        scene
    };
    for (until, state, why, says) in [
        ("db", State::Waiting, "ImagePullBackOff", "db=Ready can't be met: the container is stuck in ImagePullBackOff"),
        ("db", State::Failed, REASON_ENDED, "db=Ready can't be met: the container is Failed and will not be restarted"),
        (
            "db=Completed",
            State::Failed,
            REASON_ENDED,
            "db=Completed can't be met: the container is Failed and will not be restarted",
        ),
    ] {
        let scene = stuck(state, why);
        let gate = || scene.gate().flag("until", until);
        gate().arg("--fail-fast").with_command(SAYS_RAN).run().assert_failed(69, says);
        gate().flag("timeout", "50ms").with_command(SAYS_RAN).run().assert_failed(75, why);
    }
    let mut scene = stuck(State::Failed, REASON_ENDED);
    let gate = scene.gate().flag("until", "db=Exited").arg("--fail-fast").with_command(SAYS_RAN).spawn_waiting();
    scene.acknowledge_report(|_| {});
    ran(&gate.wait());
}

#[test]
fn an_unknown_container_and_nothing_to_read_from_are_a_wrong_set_up() {
    let scene = Scene::with_controller();
    let run = scene.gate().flag("until", "ghost").with_command(SAYS_RAN).run();
    run.assert_failed(78, "no such container: ghost; the pod has api, db");
    let none = Scene::new();
    fs::remove_dir(&none.board).unwrap();
    fs::remove_dir(&none.podinfo).unwrap();
    waits_for_db(&none).with_command(SAYS_RAN).run().assert_failed(78, "mount one of them, or use --check");
    // What is wrong with the set-up, no time-out forgives.
    let gate = none.gate().flag("until", "db").flag("on-timeout", "continue");
    gate.with_command(SAYS_RAN).run().assert_failed(78, "nothing to read from");
}

#[test]
fn it_falls_from_the_bell_to_inotify_to_polling_while_it_waits_and_climbs_back() {
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).with_command(SAYS_RAN).spawn_waiting();
    scene.kill_controller();
    wait_until("it falls to inotify", || scene.rungs() == ["bell", "inotify"]);
    scene.start_controller();
    wait_until("it climbs back", || scene.rungs() == ["bell", "inotify", "bell"]);
    scene.kill_controller();
    wait_until("it says that the controller is dead", || scene.termination_message().contains("the sidecar is dead"));
    assert!(
        !scene.termination_message().contains("fallback"),
        "an entrypoint gate has none: {}",
        scene.termination_message()
    );
    scene.acknowledge_report(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    ran(&gate.wait());
    let Some(mut shell) = shell_with_inotify_limit() else { return };
    let (mut scene, errors) = (Scene::with_controller(), scene.root.join("errors"));
    let gate = waits_for_db(&scene).flag("poll-interval", "5ms").with_command(&["sh", "-c", "exit 7"]);
    shell.start_agent(&gate, &errors);
    wait_until("it waits by the bell", || scene.rungs() == ["bell"]);
    scene.kill_controller();
    wait_until("it falls to polling", || scene.rungs() == ["bell", "polling"]);
    scene.acknowledge_report(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    assert_eq!(shell.wait_for_agent(), 7, "{}", fs::read_to_string(errors).unwrap());
}

/// No sidecar at all.
fn alone() -> Scene {
    let scene = Scene::new();
    for folder in [&scene.board, &scene.podinfo, &scene.self_folder] {
        fs::remove_dir(folder).unwrap();
    }
    scene
}

#[test]
fn checks_alone_need_no_sidecar() {
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap()
    };
    let scene = alone();
    let gate = |kind: &str| scene.gate().flag("check", format!("{kind}://{port}")).with_command(SAYS_RAN);
    let waiting = [gate("tcp").spawn_waiting(), gate("http").spawn_waiting()];
    assert!(
        !scene.termination_message().contains("report"),
        "nobody is there to be told: {}",
        scene.termination_message()
    );
    let listener = TcpListener::bind(port).unwrap();
    let server = std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut request = [0; 1024];
            let asked = stream.read(&mut request).unwrap_or(0);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
            if request[..asked].starts_with(b"QUIT") {
                return;
            }
        }
    });
    waiting.into_iter().for_each(|gate| ran(&gate.wait()));
    std::net::TcpStream::connect(port).unwrap().write_all(b"QUIT").unwrap();
    server.join().unwrap();

    let file = scene.root.join("ready");
    let gate =
        scene.gate().flag("check", format!("file://{}+content", file.display())).with_command(SAYS_RAN).spawn_waiting();
    fs::write(&file, "").unwrap();
    wait_until("it is empty", || scene.termination_message().contains("(empty)"));
    fs::write(&file, "0").unwrap();
    ran(&gate.wait());
    ran(&scene.gate().flag("check", r#"exec:["true"]"#).with_command(SAYS_RAN).run());
    // Without any condition it opens at once.
    ran(&scene.gate().with_command(SAYS_RAN).run());
}

#[test]
fn checks_and_conditions_must_all_hold() {
    let mut scene = Scene::with_controller();
    let file = scene.root.join("ready");
    let gate =
        waits_for_db(&scene).flag("check", format!("file://{}", file.display())).with_command(SAYS_RAN).spawn_waiting();
    assert!(
        scene.termination_message().contains("db=Ready (now Started); file:///"),
        "{}",
        scene.termination_message()
    );
    scene.acknowledge_report(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    wait_until("the check is left", || scene.termination_message().contains("waiting for file:///"));
    fs::write(&file, "").unwrap();
    ran(&gate.wait());
}

#[test]
fn a_step_before_that_has_failed_ends_it() {
    let scene = alone();
    let file = scene.root.join("0");
    let gate = scene.gate().flag("check", format!("file://{}", file.display())).with_command(SAYS_RAN).spawn_waiting();
    fs::write(scene.root.join("0.err"), "").unwrap();
    gate.wait().assert_failed(69, "0.err exists, so the previous step failed");
}

#[test]
fn the_downward_api_volume_alone_opens_it() {
    let mut scene = Scene::new();
    fs::remove_dir(&scene.board).unwrap();
    let mut volume = Volume::new(&scene.podinfo);
    volume.write(&annotations_text(&scene.snapshot));
    let gate = waits_for_db(&scene).with_command(SAYS_RAN).spawn_waiting();
    assert_eq!(scene.termination_message(), "podgate entrypoint: api: waiting for db=Ready (now Started)");
    scene.snapshot.states.insert("db".to_owned(), State::Ready);
    volume.write(&annotations_text(&scene.snapshot));
    ran(&gate.wait());
    assert_eq!(scene.rungs(), ["inotify"]);
}

#[test]
fn with_no_log_of_its_own_it_says_everything_once_in_the_containers_log() {
    let mut scene = Scene::with_controller();
    let gate = || waits_for_db(&scene).without_flag("log-to");
    let run = gate().flag("timeout", "50ms").with_command(SAYS_RAN).run();
    assert_eq!(run.stderr.matches("timed out after 50ms").count(), 1, "{run:?}");
    let gate = gate().with_command(SAYS_RAN).spawn_waiting();
    scene.acknowledge_report(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    let run = gate.wait();
    assert_eq!(run.stdout, "ran\n");
    assert!(run.stderr.contains(": waiting for db=Ready") && run.stderr.contains("released: all conditions hold"));
}

#[test]
fn nothing_that_lies_in_its_own_folder_harms_it() {
    type Trap = fn(&Scene);
    let link: Trap = |s| symlink(s.root.join("secret"), s.self_folder.join("report")).unwrap();
    let links: Trap = |s| symlink(s.root.join("secret"), s.self_folder.join("tether")).unwrap();
    let fifo: Trap = |s| {
        for name in ["report", "tether", ".report.tmp", ".tether.tmp"] {
            mknodat(CWD, s.self_folder.join(name), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        }
    };
    for trap in [link, links, fifo] {
        let mut scene = Scene::with_controller();
        fs::write(scene.root.join("secret"), "secret").unwrap();
        trap(&scene);
        let gate = waits_for_db(&scene).with_command(SAYS_RAN).spawn_waiting();
        assert!(scene.is_tethered());
        scene.acknowledge_report(|s| _ = s.states.insert("db".to_owned(), State::Ready));
        ran(&gate.wait());
        assert_eq!(fs::read_to_string(scene.root.join("secret")).unwrap(), "secret");
    }
    let missing: Trap = |s| fs::remove_dir(&s.self_folder).unwrap();
    let file: Trap = |s| {
        fs::remove_dir(&s.self_folder).unwrap();
        fs::write(&s.self_folder, "").unwrap();
    };
    let folder: Trap = |s| fs::create_dir_all(s.self_folder.join("report/x")).unwrap();
    for trap in [missing, file, folder] {
        let scene = Scene::with_controller();
        trap(&scene);
        let gate = waits_for_db(&scene).flag("timeout", "50ms");
        gate.with_command(SAYS_RAN).run().assert_failed(75, "can't report to the sidecar");
        assert!(
            scene.termination_message().contains("mount this container's own folder there"),
            "{}",
            scene.termination_message()
        );
    }
}

#[test]
fn a_read_only_or_full_folder_is_named_or_worked_around() {
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--mount"]) else { return };
    let mut scene = Scene::with_controller();
    let own = scene.self_folder.display().to_string();
    if shell.run(&format!("mount -t tmpfs -o size=64k,mode=755 tmpfs {own}")) != 0 {
        eprintln!("skipped: no mounts in a user namespace here");
        return;
    }
    // The controller has put its page here before a neighbour has filled the volume.
    let fill = format!("head -c 4096 /dev/zero >{own}/report; : >{own}/tether; cat /dev/zero >{own}/x 2>/dev/null");
    assert_ne!(shell.run(&fill), 0);
    let errors = scene.root.join("errors");
    let says = || fs::read_to_string(&errors).unwrap();
    shell.start_agent(&waits_for_db(&scene).with_command(&["sh", "-c", "exit 7"]), &errors);
    wait_until("it waits", || scene.termination_message().contains(": waiting for"));
    assert!(!scene.termination_message().contains("can't report"), "{}", scene.termination_message());
    // Its folder is out of our sight.
    assert_eq!(shell.run(&format!("cp {own}/report {}", scene.root.join("copy").display())), 0);
    let report = fs::read(scene.root.join("copy")).unwrap();
    let ticket = podgate::core::report::Report::parse(&report).unwrap().ticket.unwrap();
    scene.publish(|s| {
        s.heard_tickets.insert("api".to_owned(), ticket);
        s.states.insert("db".to_owned(), State::Ready);
    });
    assert_eq!(shell.wait_for_agent(), 7, "{}", says());

    assert_eq!(shell.run(&format!("mount -o remount,ro {own}")), 0);
    fs::write(&scene.termination, "").unwrap();
    shell.start_agent(&waits_for_db(&scene).flag("timeout", "100ms").with_command(SAYS_RAN), &errors);
    assert_eq!(shell.wait_for_agent(), 75);
    assert!(says().contains("can't report to the sidecar") && says().contains("Read-only"), "{}", says());
}
