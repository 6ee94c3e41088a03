//! Tests of `podgate opened`, which is a probe of the gate, with reports of real gates and with hostile files.

use crate::support::{Agent, AgentOutput, Scene, Shell, wait_until};
use podgate::core::names::BOARD_FILE_MAX;
use podgate::core::report::{GateState, Process, Report};
use podgate::core::state::State;
use podgate::edge::process;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

fn probe(self_directory: &Path) -> Agent {
    Agent::new(&["opened"], Path::new("/nonexistent")).flag("self", self_directory)
}

fn run_probe(scene: &Scene) -> AgentOutput {
    probe(&scene.self_directory).run()
}

fn run_probe_or_waiting(scene: &Scene) -> AgentOutput {
    probe(&scene.self_directory).arg("--or-waiting").run()
}

#[test]
fn probe_follows_a_gate_from_wait_to_exit() {
    let mut scene = Scene::with_sidecar();
    let gate = || scene.gate().flag("until", "db").flag("until", "api=Completed").with_command(&["sleep", "600"]);
    let waiting = gate().spawn_waiting();
    run_probe(&scene).assert_failed(69, "podgate opened: the gate is waiting for db=Ready, api=Completed");
    run_probe_or_waiting(&scene).assert_released();
    waiting.signal(Signal::KILL);
    waiting.wait();
    run_probe(&scene).assert_failed(69, "podgate opened: the gate's process, pid");
    run_probe_or_waiting(&scene).assert_failed(69, "the gate's process, pid");

    fs::write(&scene.termination, "").unwrap();
    let gate = gate().spawn_waiting();
    scene.confirm_conditions(|s| s.states = ["db", "api"].map(|name| (name.to_owned(), State::Completed)).into());
    scene.set_state("db", State::Ready);
    let name = || fs::read_to_string(format!("/proc/{}/comm", gate.id())).unwrap();
    wait_until("the gate has become the command", || name() == "sleep\n");
    run_probe(&scene).assert_released();
    run_probe_or_waiting(&scene).assert_released();
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code, 143);
    run_probe(&scene).assert_failed(69, "the gate's process, pid");
}

#[test]
fn probe_works_without_a_sidecar() {
    let scene = Scene::new();
    let file = scene.root.join("ready");
    let gate = scene
        .gate()
        .flag("check", format!("file://{}", file.display()))
        .with_command(&["sleep", "600"])
        .spawn_waiting();
    run_probe(&scene).assert_failed(69, "podgate opened: the gate is still waiting");
    run_probe_or_waiting(&scene).assert_released();
    fs::write(&file, "").unwrap();
    wait_until("the gate has opened", || scene.report().unwrap().gate == Some(GateState::Opened));
    run_probe(&scene).assert_released();
    drop(gate);
}

fn write_report(scene: &Scene, report: &Report) {
    fs::write(scene.self_directory.join("report"), report.to_text()).unwrap();
}

/// Returns the report of an open gate whose process is this test.
fn opened_report() -> Report {
    Report { gate: Some(GateState::Opened), process: process::identify(std::process::id()), ..Report::default() }
}

fn open_gate() -> Scene {
    let scene = Scene::new();
    write_report(&scene, &opened_report());
    run_probe(&scene).assert_released();
    scene
}

#[test]
fn each_check_runs_once_and_the_first_failure_is_named() {
    let scene = open_gate();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = format!("tcp://{}", port.local_addr().unwrap());
    let runs = scene.root.join("runs");
    let count_run = format!(r#"exec:["sh","-c","echo x >>{}"]"#, runs.display());
    let probe = || probe(&scene.self_directory).flag("check-timeout", "300ms");
    probe().flag("check", &open).flag("check", &count_run).run().assert_released();
    assert_eq!(fs::read_to_string(&runs).unwrap(), "x\n");
    let fails = r#"exec:["sh","-c","echo out; exit 3"]"#;
    probe().flag("check", fails).flag("check", &count_run).run().assert_failed(69, "exited with 3");
    assert_eq!(fs::read_to_string(&runs).unwrap(), "x\n", "a check after the failed one must not run");
    probe().flag("check", r#"exec:["sleep","600"]"#).run().assert_failed(69, "timed out");
    probe().flag("check", "file:///nonexistent").run().assert_failed(69, "file:///nonexistent not found");
    // This server accepts connections, but never answers.
    let silent = open.replace("tcp:", "http:");
    probe().flag("check", &silent).run().assert_failed(69, "no answer in time");
    drop(port);
    probe().flag("check", &open).run().assert_failed(69, &format!("podgate opened: {open} refused"));
    // While the gate waits, no check runs.
    write_report(&scene, &Report { gate: Some(GateState::Waiting), ..opened_report() });
    probe().flag("check", &open).arg("--or-waiting").run().assert_released();
    probe().flag("check", &open).run().assert_failed(69, "the gate is still waiting");
}

#[test]
fn waiting_probe_ends_when_the_gate_has_opened_and_the_checks_pass() {
    let scene = Scene::new();
    let (opens, passes) = (scene.root.join("opens"), scene.root.join("passes"));
    let mut probe =
        probe(&scene.self_directory).arg("--wait").flag("check", format!("file://{}", passes.display())).spawn();
    // The probe can start before the gate. The probe then finds the report of an earlier incarnation.
    let exited = Some(Process { pid: u32::MAX, start_ticks: 1 });
    write_report(&scene, &Report { process: exited, ..opened_report() });
    let check = format!("file://{}", opens.display());
    let gate = scene.gate().flag("check", check).with_command(&["sleep", "600"]).spawn_waiting();
    fs::write(&opens, "").unwrap();
    wait_until("the gate has opened", || scene.report().unwrap().gate == Some(GateState::Opened));
    std::thread::sleep(Duration::from_millis(50));
    assert!(probe.is_running());
    fs::write(&passes, "").unwrap();
    probe.wait().assert_released();
    drop(gate);
}

/// Like the kubelet, the probe counts one failure per period, although it makes more attempts.
#[test]
fn waiting_probe_fails_after_as_many_failures_as_the_threshold_allows() {
    let scene = open_gate();
    let (runs, began) = (scene.root.join("runs"), Instant::now());
    let check = format!(r#"exec:["sh","-c","echo x >>{}; exit 3"]"#, runs.display());
    let probe = |threshold: &str| {
        let probe = probe(&scene.self_directory).arg("--wait").flag("check", &check).flag("check-period", "400ms");
        probe.flag("failure-threshold", threshold).run()
    };
    probe("2").assert_failed(69, &format!("podgate opened: {check} has failed 2 times: exited with 3"));
    assert!(began.elapsed() >= Duration::from_millis(800), "{:?}", began.elapsed());
    assert!(fs::read_to_string(&runs).unwrap().lines().count() > 2);
    // The kubelet then runs the probe again. That process knows the count, and another start of the gate does not.
    probe("2").assert_failed(69, "has failed 2 times: not run yet");
    write_report(&scene, &Report { ticket: Some("t2".to_owned()), ..opened_report() });
    probe("1").assert_failed(69, "has failed 1 times: exited with 3");
    // An attempt that hangs is one failure, however many periods it takes.
    let began = Instant::now();
    let hanging = Agent::new(&["opened", "--wait"], Path::new("/nonexistent")).flag("self", &scene.self_directory);
    let hanging = hanging.flag("check", r#"exec:["sleep","600"]"#).flag("check-timeout", "400ms");
    let run = hanging.flag("check-period", "10ms").flag("failure-threshold", "2").run();
    run.assert_failed(69, "has failed 2 times: timed out");
    assert!(began.elapsed() >= Duration::from_millis(800), "{:?}", began.elapsed());
}

#[test]
fn waiting_probe_runs_the_checks_after_their_delay_since_the_opening() {
    let scene = open_gate();
    let runs = scene.root.join("runs");
    let check = format!(r#"exec:["sh","-c","echo x >>{}"]"#, runs.display());
    let waiting = || probe(&scene.self_directory).arg("--wait").flag("check", &check);
    let opened_at = u64::try_from(process::time_since_boot().as_millis()).unwrap();
    write_report(&scene, &Report { opened_at: Some(opened_at), ..opened_report() });
    let mut probe = waiting().flag("check-delay", "600s").spawn();
    waiting().flag("check-delay", "100ms").run().assert_released();
    assert!(probe.is_running());
    assert_eq!(fs::read_to_string(&runs).unwrap(), "x\n");
    // The delay counts from the opening of the gate.
    write_report(&scene, &Report { opened_at: Some(0), ..opened_report() });
    waiting().flag("check-delay", "1s").run().assert_released();
}

#[test]
fn waiting_probe_waits_for_the_startup_probe_that_the_sidecar_runs() {
    let mut scene = Scene::with_sidecar();
    write_report(&scene, &Report { ticket: Some("t2".to_owned()), ..opened_report() });
    let waiting =
        |scene: &Scene| probe(&scene.self_directory).arg("--wait").arg("--sidecar-check").flag("board", &scene.board);
    let mut probe = waiting(&scene).spawn();
    // The probe ignores the container's state, and a startupProbe that passed in an earlier start of the gate.
    let result = |ticket: &str, passed| [("api".to_owned(), (ticket.to_owned(), passed))].into();
    scene.publish(|s| s.startup = result("t1", true));
    scene.set_state("api", State::Ready);
    std::thread::sleep(Duration::from_millis(50));
    assert!(probe.is_running());
    scene.publish(|s| s.startup = result("t1", false));
    // The probe also waits for a sidecar that has died.
    scene.kill_sidecar();
    std::thread::sleep(Duration::from_millis(50));
    assert!(probe.is_running());
    scene.start_sidecar();
    scene.publish(|s| s.startup = result("t2", true));
    probe.wait().assert_released();
    scene.publish(|s| s.startup = result("t2", false));
    waiting(&scene)
        .run()
        .assert_failed(69, "podgate opened: the startupProbe has failed too often; see the log of podgate's sidecar");
}

#[test]
fn waiting_probe_holds_back_other_probes_until_the_container_is_ready_or_the_delay_has_passed() {
    let mut scene = Scene::with_sidecar();
    let report = |opened_at: Duration| {
        let opened_at = Some(opened_at.as_millis().try_into().unwrap());
        write_report(&scene, &Report { opened_at, ..opened_report() });
    };
    let opened = Instant::now();
    report(process::time_since_boot());
    let waiting = |delay: &str| {
        let probe = probe(&scene.self_directory).arg("--wait").flag("board", &scene.board);
        probe.flag("container", "api").flag("initial-delay", delay)
    };
    let mut long = waiting("600s").spawn();
    waiting("500ms").run().assert_released();
    assert!(opened.elapsed() > Duration::from_millis(490), "{:?}", opened.elapsed());
    // The delay counts from the opening of the gate.
    report(Duration::ZERO);
    waiting("1s").run().assert_released();
    report(process::time_since_boot());
    assert!(long.is_running());
    scene.set_state("api", State::Ready);
    long.wait().assert_released();
    probe(&scene.self_directory).flag("initial-delay", "1s").run().assert_failed(64, "--container <NAME>");
}

#[test]
fn waiting_probe_without_a_gate_is_a_setup_error() {
    let scene = Scene::new();
    probe(&scene.self_directory).arg("--wait").run().assert_failed(78, "mount this container's own directory there");
}

#[test]
fn http_check_failure_names_the_status_code() {
    let scene = open_gate();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ready", server.local_addr().unwrap());
    let answer = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let mut stream = server.accept().unwrap().0;
        let _ = stream.read(&mut [0; 1024]);
        stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").unwrap();
    });
    probe(&scene.self_directory)
        .flag("check", &url)
        .run()
        .assert_failed(69, &format!("podgate opened: {url} HTTP status 503"));
    answer.join().unwrap();
}

#[test]
fn a_reused_or_unknown_pid_never_passes() {
    let scene = open_gate();
    let this_process = process::identify(std::process::id()).unwrap();
    // The first pid now belongs to another process. The second pid belongs to no process.
    for exited in [
        Process { start_ticks: this_process.start_ticks + 1, ..this_process },
        Process { pid: u32::MAX, ..this_process },
    ] {
        write_report(&scene, &Report { process: Some(exited), ..opened_report() });
        run_probe(&scene).assert_failed(69, "the gate's process, pid");
    }
    write_report(&scene, &Report { process: None, ..opened_report() });
    run_probe(&scene).assert_failed(69, "has no process id");
}

#[test]
fn missing_report_is_a_setup_error_with_a_fix() {
    let scene = Scene::new();
    run_probe(&scene).assert_failed(78, "mount this container's own directory there, or set --self");
    probe(Path::new("/nonexistent")).run().assert_failed(78, "no gate has reported in /nonexistent");
    probe(Path::new("/etc/passwd")).run().assert_failed(78, "no gate has reported in /etc/passwd");
    // Neither the sidecar's initial report nor the report of a postStart hook is the report of a gate.
    for report in [Report::default().to_padded_text(4096), Report { started: true, ..Report::default() }.to_text()] {
        fs::write(scene.self_directory.join("report"), report).unwrap();
        run_probe(&scene).assert_failed(78, "run podgate entrypoint as this container's command");
        run_probe_or_waiting(&scene).assert_failed(78, "no gate has reported");
    }
}

#[test]
fn hostile_reports_are_rejected_without_a_hang() {
    type Trap = fn(&Path);
    let link: Trap = |at| {
        fs::write(at.with_extension("real"), opened_report().to_text()).unwrap();
        symlink(at.with_extension("real"), at).unwrap();
    };
    let fifo: Trap = |at| mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let directory: Trap = |at| fs::create_dir(at).unwrap();
    let torn: Trap = |at| fs::write(at, "gate=\"opened").unwrap();
    let device: Trap = |at| symlink("/dev/zero", at).unwrap();
    let huge: Trap = |at| {
        let mut text = opened_report().to_text();
        text.push_str(&format!("\n~=\"{}\"", "-".repeat(BOARD_FILE_MAX)));
        fs::write(at, text).unwrap();
    };
    for trap in [link, fifo, directory, torn, device, huge] {
        let scene = Scene::new();
        trap(&scene.self_directory.join("report"));
        run_probe(&scene).assert_failed(69, "cannot be read");
    }
    let scene = Scene::new();
    fs::write(
        scene.self_directory.join("report"),
        [b"gate=\"opened\"\nprocess=\"1:1\"\n".as_slice(), &[0xff; 100]].concat(),
    )
    .unwrap();
    assert_eq!(run_probe(&scene).code, 69);
}

#[test]
fn probe_finds_pid_1_in_the_containers_namespaces() {
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"])
    else {
        return;
    };
    let scene = Scene::new();
    let errors = scene.root.join("errors");
    shell.start_agent(&scene.gate().with_command(&["sleep", "600"]), &errors);
    wait_until("the gate has opened", || scene.report().is_some_and(|report| report.gate == Some(GateState::Opened)));
    let line =
        format!("{} opened --self {} 2>>{}", crate::support::PROGRAM, scene.self_directory.display(), errors.display());
    assert_eq!(shell.run(&line), 0, "{}", fs::read_to_string(&errors).unwrap());
    // In another PID namespace, pid 1 belongs to another process.
    run_probe(&scene).assert_failed(69, "the gate's process, pid");
}
