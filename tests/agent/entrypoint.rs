//! The gate in front of a container's command: what it waits for, how it ends, what it says. What it becomes is `becoming`.

use crate::rungs::limited;
use crate::support::{Agent, Scene, Shell, Volume, signal, text, until};
use podgate::core::report::Gate;
use podgate::core::snapshot::ENDED;
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
fn ran(run: &crate::support::Ended) {
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "ran\n", ""), "{run:?}");
}

#[test]
fn it_waits_reports_and_opens_only_when_the_controller_has_heard_it() {
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).becomes(SAYS_RAN).waiting();
    assert_eq!(scene.message(), "podgate entrypoint: api: waits for db=Ready (now Started)");
    let report = scene.report().unwrap();
    assert!(scene.is_current(&report) && !report.started);
    assert_eq!((report.gate, report.waiting_for.clone()), (Some(Gate::Waiting), vec!["db".parse().unwrap()]));
    let ticket = report.ticket.unwrap();
    assert!(ticket.len() == 8 && ticket.bytes().all(|b| b.is_ascii_hexdigit()), "{ticket}");
    let process = report.process.unwrap();
    assert!(process.pid == gate.id() && podgate::edge::process::lives(process));
    assert!(scene.is_tethered());
    assert_eq!(gate.threads(), 1);
    // What was seen before it came does not count.
    scene.set("db", State::Ready);
    until("it says so", || scene.message().ends_with("waits for the controller to look at them once more"));
    scene.publish(|s| s.heard = [("api".to_owned(), "00000000".to_owned())].into());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(scene.report().unwrap().gate, Some(Gate::Waiting));
    let heard_at = Instant::now();
    scene.hear(|_| {});
    ran(&gate.end());
    assert!(heard_at.elapsed() < AT_ONCE, "{:?}", heard_at.elapsed());
    assert_eq!(scene.message(), "");
    let report = scene.report().unwrap();
    assert_eq!((report.gate, report.started, report.waiting_for.len()), (Some(Gate::Opened), true, 0));
    assert!(scene.is_current(&report));
    assert_eq!((report.ticket, report.process), (Some(ticket), Some(process)));
}

#[test]
fn being_heard_is_not_enough() {
    let mut scene = Scene::with_controller();
    let mut gate = waits_for_db(&scene).flag("until", "api=Completed").becomes(SAYS_RAN).waiting();
    scene.hear(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    until("one is left", || scene.message().ends_with("waits for api=Completed (now Waiting)"));
    // A pod that has started opens hooks alone.
    scene.publish(|s| s.phase = Phase::Started);
    std::thread::sleep(Duration::from_millis(50));
    assert!(gate.is_running());
    scene.set("api", State::Completed);
    ran(&gate.end());
}

#[test]
fn a_new_start_of_the_gate_is_heard_anew() {
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).becomes(SAYS_RAN).waiting();
    scene.hear(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    ran(&gate.end());
    let gate = waits_for_db(&scene).becomes(SAYS_RAN).waiting();
    assert!(scene.message().contains("look at them once more"), "{}", scene.message());
    scene.hear(|_| {});
    ran(&gate.end());
}

#[test]
fn a_new_epoch_is_told_anew() {
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).becomes(SAYS_RAN).waiting();
    let before = scene.report().unwrap();
    scene.publish(|s| s.epoch = "e2".to_owned());
    until("it reports anew", || scene.report().unwrap().epoch == "e2");
    assert_eq!(scene.report().unwrap().ticket, before.ticket);
    scene.hear(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    ran(&gate.end());
}

#[test]
fn a_signal_ends_the_wait_at_once_and_the_command_never_runs() {
    for (signal, code, says) in [(Signal::TERM, 143, "ended by TERM"), (Signal::INT, 130, "ended by INT")] {
        let scene = Scene::with_controller();
        let gate = waits_for_db(&scene).becomes(SAYS_RAN).waiting();
        let sent_at = Instant::now();
        gate.signal(signal);
        gate.end().failed(code, says);
        assert!(sent_at.elapsed() < AT_ONCE, "{:?}", sent_at.elapsed());
        assert!(scene.message().contains(says), "{}", scene.message());
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
        let gate = waits_for_db(&scene).becomes(SAYS_RAN).in_a_pid_namespace().waiting();
        assert_eq!(scene.report().unwrap().process.unwrap().pid, 1);
        let sent_at = Instant::now();
        signal(gate.child(), number);
        gate.end().failed(code, "while waiting; the command was not run");
        assert!(sent_at.elapsed() < AT_ONCE, "{:?}", sent_at.elapsed());
    }
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).becomes(&["sh", "-c", "echo $$"]).in_a_pid_namespace().waiting();
    scene.hear(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    assert_eq!(gate.end().stdout, "1\n");
}

#[test]
fn the_pods_deletion_ends_it_and_the_command_never_runs() {
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).becomes(SAYS_RAN).waiting();
    scene.hear(|s| {
        s.phase = Phase::Terminating;
        s.states.insert("db".to_owned(), State::Ready);
    });
    gate.end().failed(143, "podgate entrypoint: api: the pod is being deleted");
    waits_for_db(&scene).flag("on-timeout", "continue").becomes(SAYS_RAN).run().failed(143, "being deleted");
}

#[test]
fn a_time_out_fails_unless_it_is_to_go_on() {
    let scene = Scene::with_controller();
    let gate = || waits_for_db(&scene).flag("timeout", "100ms");
    let run = gate().becomes(SAYS_RAN).run();
    run.failed(75, "timed out after 100ms, still waiting for db=Ready (now Started)");
    assert_eq!(scene.message(), run.stderr.trim_end());
    ran(&gate().flag("on-timeout", "continue").becomes(SAYS_RAN).run());
    assert_eq!((scene.message().as_str(), scene.report().unwrap().gate), ("", Some(Gate::Opened)));
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
        ("db", State::Waiting, "ImagePullBackOff", "can never be met: db=Ready: it is stuck in ImagePullBackOff"),
        ("db", State::Failed, ENDED, "can never be met: db=Ready: it is Failed for good"),
        ("db=Completed", State::Failed, ENDED, "can never be met: db=Completed: it is Failed for good"),
    ] {
        let scene = stuck(state, why);
        let gate = || scene.gate().flag("until", until);
        gate().arg("--fail-fast").becomes(SAYS_RAN).run().failed(69, says);
        gate().flag("timeout", "50ms").becomes(SAYS_RAN).run().failed(75, why);
    }
    let mut scene = stuck(State::Failed, ENDED);
    let gate = scene.gate().flag("until", "db=Exited").arg("--fail-fast").becomes(SAYS_RAN).waiting();
    scene.hear(|_| {});
    ran(&gate.end());
}

#[test]
fn an_unknown_container_and_nothing_to_read_from_are_a_wrong_set_up() {
    let scene = Scene::with_controller();
    let run = scene.gate().flag("until", "ghost").becomes(SAYS_RAN).run();
    run.failed(78, "no such container: ghost; the pod has api, db");
    let none = Scene::new();
    fs::remove_dir(&none.board).unwrap();
    fs::remove_dir(&none.podinfo).unwrap();
    waits_for_db(&none).becomes(SAYS_RAN).run().failed(78, "mount them, or give --check");
    // What is wrong with the set-up, no time-out forgives.
    let gate = none.gate().flag("until", "db").flag("on-timeout", "continue");
    gate.becomes(SAYS_RAN).run().failed(78, "nothing to read from");
}

#[test]
fn it_falls_from_the_bell_to_inotify_to_polling_while_it_waits_and_climbs_back() {
    let mut scene = Scene::with_controller();
    let gate = waits_for_db(&scene).becomes(SAYS_RAN).waiting();
    scene.die();
    until("it falls to inotify", || scene.rungs() == ["bell", "inotify"]);
    scene.revive();
    until("it climbs back", || scene.rungs() == ["bell", "inotify", "bell"]);
    scene.die();
    until("it says that the controller is dead", || scene.message().contains("the controller is dead"));
    assert!(!scene.message().contains("fallback"), "an entrypoint gate has none: {}", scene.message());
    scene.hear(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    ran(&gate.end());
    let Some(mut shell) = limited() else { return };
    let (mut scene, errors) = (Scene::with_controller(), scene.root.join("errors"));
    let gate = waits_for_db(&scene).flag("poll-interval", "5ms").becomes(&["sh", "-c", "exit 7"]);
    shell.start(&gate, &errors);
    until("it waits by the bell", || scene.rungs() == ["bell"]);
    scene.die();
    until("it falls to polling", || scene.rungs() == ["bell", "polling"]);
    scene.hear(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    assert_eq!(shell.join(), 7, "{}", fs::read_to_string(errors).unwrap());
}

/// No sidecar at all.
fn alone() -> Scene {
    let scene = Scene::new();
    for folder in [&scene.board, &scene.podinfo, &scene.own] {
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
    let gate = |kind: &str| scene.gate().flag("check", format!("{kind}://{port}")).becomes(SAYS_RAN);
    let waiting = [gate("tcp").waiting(), gate("http").waiting()];
    assert!(!scene.message().contains("report"), "nobody is there to be told: {}", scene.message());
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
    waiting.into_iter().for_each(|gate| ran(&gate.end()));
    std::net::TcpStream::connect(port).unwrap().write_all(b"QUIT").unwrap();
    server.join().unwrap();

    let file = scene.root.join("ready");
    let gate = scene.gate().flag("check", format!("file://{}+content", file.display())).becomes(SAYS_RAN).waiting();
    fs::write(&file, "").unwrap();
    until("it is empty", || scene.message().contains("(empty)"));
    fs::write(&file, "0").unwrap();
    ran(&gate.end());
    ran(&scene.gate().flag("check", r#"exec:["true"]"#).becomes(SAYS_RAN).run());
    // Without any condition it opens at once.
    ran(&scene.gate().becomes(SAYS_RAN).run());
}

#[test]
fn checks_and_conditions_must_all_hold() {
    let mut scene = Scene::with_controller();
    let file = scene.root.join("ready");
    let gate = waits_for_db(&scene).flag("check", format!("file://{}", file.display())).becomes(SAYS_RAN).waiting();
    assert!(scene.message().contains("db=Ready (now Started); file:///"), "{}", scene.message());
    scene.hear(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    until("the check is left", || scene.message().contains("waits for file:///"));
    fs::write(&file, "").unwrap();
    ran(&gate.end());
}

#[test]
fn a_step_before_that_has_failed_ends_it() {
    let scene = alone();
    let file = scene.root.join("0");
    let gate = scene.gate().flag("check", format!("file://{}", file.display())).becomes(SAYS_RAN).waiting();
    fs::write(scene.root.join("0.err"), "").unwrap();
    gate.end().failed(69, "0.err is there, so the step before has failed");
}

#[test]
fn the_downward_api_volume_alone_opens_it() {
    let mut scene = Scene::new();
    fs::remove_dir(&scene.board).unwrap();
    let mut volume = Volume::new(&scene.podinfo);
    volume.write(&text(&scene.snapshot));
    let gate = waits_for_db(&scene).becomes(SAYS_RAN).waiting();
    assert_eq!(scene.message(), "podgate entrypoint: api: waits for db=Ready (now Started)");
    scene.snapshot.states.insert("db".to_owned(), State::Ready);
    volume.write(&text(&scene.snapshot));
    ran(&gate.end());
    assert_eq!(scene.rungs(), ["inotify"]);
}

#[test]
fn with_no_log_of_its_own_it_says_everything_once_in_the_containers_log() {
    let mut scene = Scene::with_controller();
    let gate = || waits_for_db(&scene).without("log-to");
    let run = gate().flag("timeout", "50ms").becomes(SAYS_RAN).run();
    assert_eq!(run.stderr.matches("timed out after 50ms").count(), 1, "{run:?}");
    let gate = gate().becomes(SAYS_RAN).waiting();
    scene.hear(|s| _ = s.states.insert("db".to_owned(), State::Ready));
    let run = gate.end();
    assert_eq!(run.stdout, "ran\n");
    assert!(run.stderr.contains("waits for db=Ready") && run.stderr.contains("released: all conditions hold"));
}

#[test]
fn nothing_that_lies_in_its_own_folder_harms_it() {
    type Trap = fn(&Scene);
    let link: Trap = |s| symlink(s.root.join("secret"), s.own.join("report")).unwrap();
    let links: Trap = |s| symlink(s.root.join("secret"), s.own.join("tether")).unwrap();
    let fifo: Trap = |s| {
        for name in ["report", "tether", ".report.tmp", ".tether.tmp"] {
            mknodat(CWD, s.own.join(name), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        }
    };
    for trap in [link, links, fifo] {
        let mut scene = Scene::with_controller();
        fs::write(scene.root.join("secret"), "secret").unwrap();
        trap(&scene);
        let gate = waits_for_db(&scene).becomes(SAYS_RAN).waiting();
        assert!(scene.is_tethered());
        scene.hear(|s| _ = s.states.insert("db".to_owned(), State::Ready));
        ran(&gate.end());
        assert_eq!(fs::read_to_string(scene.root.join("secret")).unwrap(), "secret");
    }
    let missing: Trap = |s| fs::remove_dir(&s.own).unwrap();
    let file: Trap = |s| {
        fs::remove_dir(&s.own).unwrap();
        fs::write(&s.own, "").unwrap();
    };
    let folder: Trap = |s| fs::create_dir_all(s.own.join("report/x")).unwrap();
    for trap in [missing, file, folder] {
        let scene = Scene::with_controller();
        trap(&scene);
        let gate = waits_for_db(&scene).flag("timeout", "50ms");
        gate.becomes(SAYS_RAN).run().failed(75, "can't report to the controller");
        assert!(scene.message().contains("mount this container's own folder there"), "{}", scene.message());
    }
}

#[test]
fn a_read_only_or_full_folder_is_named_or_worked_around() {
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--mount"]) else { return };
    let mut scene = Scene::with_controller();
    let own = scene.own.display().to_string();
    if shell.run(&format!("mount -t tmpfs -o size=64k,mode=755 tmpfs {own}")) != 0 {
        eprintln!("skipped: no mounts in a user namespace here");
        return;
    }
    // The controller has put its page here before a neighbour has filled the volume.
    let fill = format!("head -c 4096 /dev/zero >{own}/report; : >{own}/tether; cat /dev/zero >{own}/x 2>/dev/null");
    assert_ne!(shell.run(&fill), 0);
    let errors = scene.root.join("errors");
    let says = || fs::read_to_string(&errors).unwrap();
    shell.start(&waits_for_db(&scene).becomes(&["sh", "-c", "exit 7"]), &errors);
    until("it waits", || scene.message().contains("waits for"));
    assert!(!scene.message().contains("can't report"), "{}", scene.message());
    // Its folder is out of our sight.
    assert_eq!(shell.run(&format!("cp {own}/report {}", scene.root.join("copy").display())), 0);
    let report = fs::read(scene.root.join("copy")).unwrap();
    let ticket = podgate::core::report::Report::read(&report).unwrap().ticket.unwrap();
    scene.publish(|s| {
        s.heard.insert("api".to_owned(), ticket);
        s.states.insert("db".to_owned(), State::Ready);
    });
    assert_eq!(shell.join(), 7, "{}", says());

    assert_eq!(shell.run(&format!("mount -o remount,ro {own}")), 0);
    fs::write(&scene.termination, "").unwrap();
    shell.start(&waits_for_db(&scene).flag("timeout", "100ms").becomes(SAYS_RAN), &errors);
    assert_eq!(shell.join(), 75);
    assert!(says().contains("can't report to the controller") && says().contains("Read-only"), "{}", says());
}
