//! `podgate pre-stop`: for whom it stays, for how long, and what it says.

use crate::support::{Agent, RunningAgent, Scene, wait_until};
use podgate::core::report::{GateState, PreStopState, Process, Report};
use podgate::core::state::{Phase, State};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

/// Far more than a wake-up takes, and less than the slow re-read.
const AT_ONCE: Duration = Duration::from_millis(700);
/// A hook that waits for nobody is over after this; at the latest long before its grace is.
const SIGN: Duration = podgate::core::pre_stop::STOP_SIGN_TIMEOUT;

/// A pod that is being deleted, and whose `api` still runs.
fn ending() -> Scene {
    let mut scene = Scene::with_controller();
    scene.publish(|s| {
        s.phase = Phase::Terminating;
        s.states = [("db".to_owned(), State::Ready), ("api".to_owned(), State::Ready)].into();
    });
    scene
}

fn running() -> Scene {
    let mut scene = ending();
    scene.publish(|s| s.phase = Phase::Started);
    scene
}

fn stays(scene: &Scene, hook: Agent) -> RunningAgent {
    let hook = hook.spawn();
    wait_until("it says for whom it stays", || scene.log_text().contains("waiting for"));
    hook
}

fn shell(script: &str) -> String {
    serde_json::to_string(&["sh", "-c", script]).unwrap()
}

fn stopping(scene: &Scene) -> PreStopState {
    scene.report().unwrap().stopping
}

#[test]
fn at_a_deletion_it_stays_until_the_user_is_gone() {
    for gone in [State::Failed, State::Completed] {
        let mut scene = ending();
        let hook = stays(&scene, scene.pre_stop().flag("until", "api"));
        assert!(scene.log_text().contains("waiting for api=Exited (now Ready)"), "{}", scene.log_text());
        let report = scene.report().unwrap();
        assert_eq!((report.stopping, report.started), (PreStopState::Begun, true));
        assert!(scene.is_current(&report));
        std::thread::sleep(SIGN + SIGN / 5);
        let gone_at = Instant::now();
        scene.set_state("api", gone);
        hook.wait().assert_released();
        assert!(gone_at.elapsed() < AT_ONCE, "{:?}", gone_at.elapsed());
        assert_eq!(stopping(&scene), PreStopState::Finished);
    }
}

#[test]
fn who_is_gone_or_never_came_holds_nobody() {
    for state in [State::Failed, State::Waiting] {
        let mut scene = ending();
        scene.set_state("api", state);
        let run = scene.pre_stop().flag("until", "api,stranger").run();
        run.assert_released();
        assert!(run.took < AT_ONCE, "{run:?}");
        assert_eq!(stopping(&scene), PreStopState::Finished);
    }
}

#[test]
fn at_the_restart_of_one_container_it_goes_after_a_second() {
    let scene = running();
    let run = scene.pre_stop().flag("until", "api").run();
    run.assert_released();
    assert!((SIGN..SIGN * 10).contains(&run.took), "{run:?}");
    assert!(scene.log_text().contains("only this container stops"), "{}", scene.log_text());
    assert_eq!(stopping(&scene), PreStopState::Finished);
}

#[test]
fn the_sign_may_come_within_the_second_and_holds_once_it_has_come() {
    type Sign = fn(&mut podgate::core::snapshot::Snapshot);
    let deleted: Sign = |s| s.phase = Phase::Terminating;
    let stops_too: Sign = |s| s.stopping = ["api".to_owned()].into();
    for sign in [deleted, stops_too] {
        let mut scene = running();
        let hook = scene.pre_stop().flag("until", "api").spawn();
        wait_until("it reports", || scene.report().is_some());
        // Its own word is no sign.
        scene.publish(|s| s.stopping = ["db".to_owned()].into());
        std::thread::sleep(SIGN / 4);
        scene.publish(sign);
        wait_until("it stays", || scene.log_text().contains("waiting for"));
        assert!(hook.elapsed() < SIGN, "or the test was too slow");
        // A controller that has started anew and does not know yet.
        scene.publish(|s| (s.phase, s.stopping) = (Phase::Starting, [].into()));
        let mut hook = hook;
        while hook.elapsed() < SIGN * 3 / 2 {
            assert!(hook.is_running());
            std::thread::sleep(Duration::from_millis(5));
        }
        scene.set_state("api", State::Failed);
        hook.wait().assert_released();
    }
}

#[test]
fn without_a_controller_it_wakes_too() {
    let mut scene = ending();
    scene.kill_controller();
    let hook = stays(&scene, scene.pre_stop().flag("until", "api"));
    let gone_at = Instant::now();
    scene.set_state("api", State::Failed);
    hook.wait().assert_released();
    assert!(gone_at.elapsed() < AT_ONCE, "{:?}", gone_at.elapsed());
}

#[test]
fn its_grace_ends_it_and_the_programs_last_words_stay() {
    let scene = ending();
    std::fs::write(&scene.termination, "the program's own last words").unwrap();
    let run = scene.pre_stop().flag("until", "api").flag("grace", "300ms").run();
    run.assert_failed(75, "podgate pre-stop: db: timed out after 300ms, still waiting for api=Exited (now Ready)");
    assert!((Duration::from_millis(300)..Duration::from_secs(3)).contains(&run.took), "{run:?}");
    assert_eq!(stopping(&scene), PreStopState::Finished);
    // Before anything is known it names them too.
    running()
        .pre_stop()
        .flag("until", "api")
        .flag("grace", "0s")
        .run()
        .assert_failed(75, "after 0s, still waiting for api=Exited");
    assert_eq!(scene.termination_message(), "the program's own last words");
}

#[test]
fn the_containers_own_command_runs_when_the_others_are_gone() {
    let mut scene = ending();
    let done = scene.root.join("done");
    let touch = shell(&format!("echo out; touch {}", done.display()));
    let hook = stays(&scene, scene.pre_stop().flag("until", "api").flag("then", &touch));
    assert!(!done.exists());
    scene.set_state("api", State::Completed);
    hook.wait().assert_released();
    assert!(done.exists());
    // At a restart, and alone, it runs too.
    for until in [&["api"][..], &[]] {
        let scene = running();
        let done = scene.root.join("done");
        let hook = scene.pre_stop().flag("then", shell(&format!("touch {}", done.display())));
        until.iter().fold(hook, |hook, name| hook.flag("until", name)).run().assert_released();
        assert!(done.exists());
        assert_eq!(stopping(&scene), PreStopState::Finished);
    }
}

#[test]
fn the_commands_failure_is_the_hooks() {
    let hook = |argv: &str| running().pre_stop().flag("then", argv).run();
    hook(&shell("echo no way >&2; exit 7")).assert_failed(7, "own preStop command");
    hook(&shell("echo no way >&2; exit 7")).assert_failed(7, "exited with 7: no way");
    hook(&shell("kill -9 $$")).assert_failed(137, "exited with 137");
    hook(r#"["/nonexistent/command"]"#).assert_failed(127, "was not found");
    hook(r#"["/"]"#).assert_failed(126, "can't be executed");
}

#[test]
fn the_command_runs_when_the_grace_is_used_up_and_has_the_rest_of_it() {
    let scene = ending();
    let done = scene.root.join("done");
    let then = shell(&format!("touch {}", done.display()));
    let hook = || scene.pre_stop().flag("until", "api").flag("grace", "1500ms").flag("then-timeout", "1s");
    let run = hook().flag("then", then).run();
    run.assert_failed(75, "timed out after 500ms, still waiting for api=Exited");
    assert!(done.exists() && run.took < Duration::from_millis(1400), "{run:?}");
    let run = hook().flag("then", shell("exit 3")).run();
    run.assert_failed(3, "exited with 3: ; before that, timed out after 500ms, still waiting for api=Exited");
    let run = hook().flag("then", shell("sleep 600")).run();
    run.assert_failed(75, "was still running at the time limit");
    assert!((Duration::from_millis(1500)..Duration::from_secs(5)).contains(&run.took), "{run:?}");
}

#[test]
fn an_open_port_holds_it_until_it_is_closed() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let scene = ending();
        let url = format!("tcp://{host}:{}", port.local_addr().unwrap().port());
        let hook = stays(&scene, scene.pre_stop().flag("check-closed", &url));
        assert!(scene.log_text().contains(&format!("waiting for {url} (accepts connections)")), "{}", scene.log_text());
        hook.signal(rustix::process::Signal::KILL);
    }
    let scene = ending();
    let url = format!("tcp://127.0.0.1:{}", port.local_addr().unwrap().port());
    let hook = stays(&scene, scene.pre_stop().flag("check-closed", &url));
    drop(port);
    let closed_at = Instant::now();
    hook.wait().assert_released();
    assert!(closed_at.elapsed() < AT_ONCE, "{:?}", closed_at.elapsed());
    // Nobody was ever there.
    assert!(running().pre_stop().flag("check-closed", &url).run().took < AT_ONCE);
}

#[test]
fn at_a_restart_an_open_port_holds_it_for_the_second_and_nobody_is_knocked_at_for_nothing() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    port.set_nonblocking(true).unwrap();
    let url = format!("tcp://127.0.0.1:{}", port.local_addr().unwrap().port());
    let scene = running();
    let run = scene.pre_stop().flag("until", "api").flag("check-closed", &url).run();
    run.assert_released();
    assert!((SIGN..SIGN * 10).contains(&run.took), "{run:?}");
    assert!(port.accept().is_err(), "api runs, so that its port decides nothing");
    let run = scene.pre_stop().flag("check-closed", &url).run();
    run.assert_released();
    assert!((SIGN..SIGN * 10).contains(&run.took), "{run:?}");
    assert!(port.accept().is_ok());
}

#[test]
fn a_port_whose_queue_is_full_is_not_closed() {
    let port = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&port, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&port, 0).unwrap();
    let address: std::net::SocketAddr = rustix::net::getsockname(&port).unwrap().try_into().unwrap();
    let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let held: Vec<_> = std::iter::from_fn(|| connect().ok()).collect();
    assert!(!held.is_empty());
    let scene = ending();
    // Nobody is at the other address of `localhost`.
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("tcp://{host}:{}", address.port());
        scene
            .pre_stop()
            .flag("check-closed", url)
            .flag("grace", "1500ms")
            .run()
            .assert_failed(75, "(no answer in time)");
    }
}

#[test]
fn nothing_to_stay_for_is_a_usage_error() {
    running()
        .pre_stop()
        .run()
        .assert_failed(64, "nothing to wait for; use --until CONTAINER, --check-closed or --then");
    for (flag, value, says) in [
        ("until", "api=Ready", "write api=Exited"),
        ("check-closed", "http://127.0.0.1/", "only ports are supported"),
        ("check-closed", "file:///x", "only ports are supported"),
        ("then", "rm", "not a JSON list"),
        ("grace", "x", "write 90s"),
    ] {
        let scene = running();
        std::fs::write(&scene.termination, "the program's own last words").unwrap();
        scene.pre_stop().flag(flag, value).run().assert_failed(64, says);
        assert_eq!(scene.termination_message(), "the program's own last words");
    }
}

#[test]
fn without_a_board_it_holds_nobody_up() {
    for prepare in [|_: &Scene| {}, |s: &Scene| std::fs::remove_dir(&s.board).unwrap()] {
        let scene = Scene::new();
        prepare(&scene);
        let run = scene.pre_stop().flag("until", "api").flag("poll-interval", "10ms").run();
        run.assert_released();
        assert!((SIGN..SIGN * 10).contains(&run.took), "{run:?}");
        assert!(scene.log_text().contains("no state from the sidecar"), "{}", scene.log_text());
        assert_eq!(stopping(&scene), PreStopState::Finished);
    }
}

#[test]
fn a_board_of_another_sandbox_is_not_believed() {
    let mut scene = ending();
    scene.publish(|s| s.sandbox = "00000000-1-00000001".parse().unwrap());
    let run = scene.pre_stop().flag("until", "api").run();
    run.assert_released();
    assert!(scene.log_text().contains("no state from the sidecar"), "{}", scene.log_text());
}

fn put_report(scene: &Scene, report: &Report) {
    podgate::edge::files::replace(&scene.self_folder, "report", report.to_text().as_bytes(), 0o644).unwrap();
}

fn gates_report(scene: &Scene) -> Report {
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
fn what_the_gate_has_reported_stays_and_a_new_epoch_is_told_anew() {
    let mut scene = ending();
    let before = gates_report(&scene);
    put_report(&scene, &before);
    let hook = stays(&scene, scene.pre_stop().flag("until", "api"));
    let begun = Report { stopping: PreStopState::Begun, epoch: "e1".to_owned(), ..before.clone() };
    assert_eq!(scene.report().unwrap(), begun);
    scene.publish(|s| s.epoch = "e2".to_owned());
    wait_until("it reports anew", || scene.report().unwrap() == Report { epoch: "e2".to_owned(), ..begun.clone() });
    // A gate that stays as the parent writes without it.
    put_report(&scene, &Report { epoch: "e2".to_owned(), exit_code: Some(3), ..before.clone() });
    wait_until("it says so again", || stopping(&scene) == PreStopState::Begun);
    scene.set_state("api", State::Failed);
    hook.wait().assert_released();
    let over = Report { stopping: PreStopState::Finished, epoch: "e2".to_owned(), exit_code: Some(3), ..before };
    assert_eq!(scene.report().unwrap(), over);
}

#[test]
fn a_report_left_from_another_sandbox_is_not_kept() {
    let scene = ending();
    put_report(&scene, &Report { sandbox: Some("00000000-1-00000001".parse().unwrap()), ..gates_report(&scene) });
    scene.pre_stop().flag("until", "api").flag("grace", "0s").run().assert_failed(75, "api=Exited");
    let report = scene.report().unwrap();
    assert!(scene.is_current(&report));
    assert_eq!((report.gate, report.ticket, report.started), (None, None, true));
}

#[test]
fn another_incarnations_report_is_let_alone() {
    let mut scene = ending();
    put_report(&scene, &gates_report(&scene));
    let hook = stays(&scene, scene.pre_stop().flag("until", "api"));
    let next = Report { ticket: Some("t2".to_owned()), ..gates_report(&scene) };
    put_report(&scene, &next);
    scene.set_state("api", State::Failed);
    hook.wait().assert_released();
    assert_eq!(scene.report().unwrap(), next);
}

#[test]
fn nothing_that_lies_in_its_own_folder_holds_it_up() {
    type Trap = fn(&Scene);
    let link: Trap = |s| symlink(s.root.join("secret"), s.self_folder.join("report")).unwrap();
    let fifo: Trap =
        |s| mknodat(CWD, s.self_folder.join("report"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let huge: Trap = |s| std::fs::write(s.self_folder.join("report"), vec![b'x'; 10_000_000]).unwrap();
    let torn: Trap = |s| std::fs::write(s.self_folder.join("report"), "stopping=\"").unwrap();
    for (trap, says) in [(link, "link"), (fifo, "fifo"), (huge, "huge"), (torn, "torn")] {
        let mut scene = ending();
        std::fs::write(scene.root.join("secret"), "secret").unwrap();
        trap(&scene);
        let hook = stays(&scene, scene.pre_stop().flag("until", "api"));
        assert_eq!(stopping(&scene), PreStopState::Begun, "{says}");
        scene.set_state("api", State::Failed);
        hook.wait().assert_released();
        assert_eq!(stopping(&scene), PreStopState::Finished, "{says}");
        assert_eq!(std::fs::read_to_string(scene.root.join("secret")).unwrap(), "secret");
    }
    let folder: Trap = |s| std::fs::create_dir(s.self_folder.join("report")).unwrap();
    let missing: Trap = |s| std::fs::remove_dir(&s.self_folder).unwrap();
    let file: Trap = |s| {
        std::fs::remove_dir(&s.self_folder).unwrap();
        std::fs::write(&s.self_folder, "").unwrap();
    };
    for trap in [folder, missing, file] {
        let mut scene = ending();
        trap(&scene);
        let hook = stays(&scene, scene.pre_stop().flag("until", "api"));
        scene.set_state("api", State::Failed);
        hook.wait().assert_released();
        assert_eq!(
            scene.log_text().matches("can't report that this container is stopping").count(),
            1,
            "{}",
            scene.log_text()
        );
    }
}
