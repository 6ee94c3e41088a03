//! `podgate opened`: a probe of the gate, by what real gates report and by what may lie there instead.

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
use std::time::Duration;

fn probe(own: &Path) -> Agent {
    Agent::new(&["opened"], Path::new("/nonexistent")).flag("self", own)
}

fn look(scene: &Scene) -> AgentOutput {
    probe(&scene.self_folder).run()
}

fn look_or_waiting(scene: &Scene) -> AgentOutput {
    probe(&scene.self_folder).arg("--or-waiting").run()
}

#[test]
fn it_follows_a_real_gate_through_its_life() {
    let mut scene = Scene::with_controller();
    let gate = || scene.gate().flag("until", "db").flag("until", "api=Completed").with_command(&["sleep", "600"]);
    let waiting = gate().spawn_waiting();
    look(&scene).assert_failed(69, "podgate opened: the gate is waiting for db=Ready, api=Completed");
    look_or_waiting(&scene).assert_released();
    waiting.signal(Signal::KILL);
    waiting.wait();
    look(&scene).assert_failed(69, "podgate opened: the gate's process is gone");
    look_or_waiting(&scene).assert_failed(69, "the gate's process is gone");

    fs::write(&scene.termination, "").unwrap();
    let gate = gate().spawn_waiting();
    scene.acknowledge_report(|s| s.states = ["db", "api"].map(|name| (name.to_owned(), State::Completed)).into());
    scene.set_state("db", State::Ready);
    let name = || fs::read_to_string(format!("/proc/{}/comm", gate.id())).unwrap();
    wait_until("it has become the command", || name() == "sleep\n");
    look(&scene).assert_released();
    look_or_waiting(&scene).assert_released();
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code, 143);
    look(&scene).assert_failed(69, "the gate's process is gone");
}

#[test]
fn a_gate_that_no_sidecar_hears_is_followed_too() {
    let scene = Scene::new();
    let file = scene.root.join("ready");
    let gate = scene
        .gate()
        .flag("check", format!("file://{}", file.display()))
        .with_command(&["sleep", "600"])
        .spawn_waiting();
    look(&scene).assert_failed(69, "podgate opened: the gate is still waiting");
    look_or_waiting(&scene).assert_released();
    fs::write(&file, "").unwrap();
    wait_until("it has opened", || scene.report().unwrap().gate == Some(GateState::Opened));
    look(&scene).assert_released();
    drop(gate);
}

fn put(scene: &Scene, report: &Report) {
    fs::write(scene.self_folder.join("report"), report.to_text()).unwrap();
}

/// An open gate whose process is this test.
fn opened() -> Report {
    Report { gate: Some(GateState::Opened), process: process::current_process(), ..Report::default() }
}

fn open_gate() -> Scene {
    let scene = Scene::new();
    put(&scene, &opened());
    look(&scene).assert_released();
    scene
}

#[test]
fn its_checks_are_made_once_each_and_the_first_failure_is_named() {
    let scene = open_gate();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = format!("tcp://{}", port.local_addr().unwrap());
    let marks = scene.root.join("marks");
    let mark = format!(r#"exec:["sh","-c","echo x >>{}"]"#, marks.display());
    let probe = || probe(&scene.self_folder).flag("check-timeout", "300ms");
    probe().flag("check", &open).flag("check", &mark).run().assert_released();
    assert_eq!(fs::read_to_string(&marks).unwrap(), "x\n");
    let fails = r#"exec:["sh","-c","echo out; exit 3"]"#;
    probe().flag("check", fails).flag("check", &mark).run().assert_failed(69, "exited with 3");
    assert_eq!(fs::read_to_string(&marks).unwrap(), "x\n", "what comes after a failure is not looked at");
    probe().flag("check", r#"exec:["sleep","600"]"#).run().assert_failed(69, "timed out");
    probe().flag("check", "file:///nonexistent").run().assert_failed(69, "file:///nonexistent not found");
    // It accepts, and never answers.
    let silent = open.replace("tcp:", "http:");
    let run = probe().flag("check", &silent).run();
    run.assert_failed(69, "no answer in time");
    assert!(run.took < Duration::from_secs(5), "{run:?}");
    drop(port);
    probe().flag("check", &open).run().assert_failed(69, &format!("podgate opened: {open} refused"));
    // While the gate waits, nobody is asked.
    put(&scene, &Report { gate: Some(GateState::Waiting), ..opened() });
    probe().flag("check", &open).arg("--or-waiting").run().assert_released();
    probe().flag("check", &open).run().assert_failed(69, "the gate is still waiting");
}

#[test]
fn a_http_check_says_what_was_answered() {
    let scene = open_gate();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ready", server.local_addr().unwrap());
    let answer = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let mut stream = server.accept().unwrap().0;
        let _ = stream.read(&mut [0; 1024]);
        stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").unwrap();
    });
    probe(&scene.self_folder)
        .flag("check", &url)
        .run()
        .assert_failed(69, &format!("podgate opened: {url} answered 503"));
    answer.join().unwrap();
}

#[test]
fn a_process_that_is_not_the_gates_never_passes() {
    let scene = open_gate();
    let own = process::current_process().unwrap();
    // The number is another's by now; or nobody's.
    for gone in
        [Process { start_ticks: own.start_ticks + 1, ..own }, Process { pid: u32::MAX, start_ticks: own.start_ticks }]
    {
        put(&scene, &Report { process: Some(gone), ..opened() });
        look(&scene).assert_failed(69, "the gate's process is gone");
    }
    put(&scene, &Report { process: None, ..opened() });
    look(&scene).assert_failed(69, "can't tell if the gate's process is alive");
}

#[test]
fn no_report_is_a_wrong_set_up_with_how_to_mend_it() {
    let scene = Scene::new();
    look(&scene).assert_failed(78, "mount this container's own folder there, or set --self");
    probe(Path::new("/nonexistent")).run().assert_failed(78, "no gate has reported in /nonexistent");
    probe(Path::new("/etc/passwd")).run().assert_failed(78, "no gate has reported in /etc/passwd");
    // What the controller puts there at first, and a postStart hook's.
    for report in [Report::default().to_padded_text(), Report { started: true, ..Report::default() }.to_text()] {
        fs::write(scene.self_folder.join("report"), report).unwrap();
        look(&scene).assert_failed(78, "run podgate entrypoint as this container's command");
        look_or_waiting(&scene).assert_failed(78, "no gate has reported");
    }
}

#[test]
fn nothing_that_lies_there_is_believed_or_holds_it_up() {
    type Trap = fn(&Path);
    let link: Trap = |at| {
        fs::write(at.with_extension("real"), opened().to_text()).unwrap();
        symlink(at.with_extension("real"), at).unwrap();
    };
    let fifo: Trap = |at| mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let folder: Trap = |at| fs::create_dir(at).unwrap();
    let torn: Trap = |at| fs::write(at, "gate=\"opened").unwrap();
    let device: Trap = |at| symlink("/dev/zero", at).unwrap();
    let huge: Trap = |at| {
        let mut text = opened().to_text();
        text.push_str(&format!("\n~=\"{}\"", "-".repeat(BOARD_FILE_MAX)));
        fs::write(at, text).unwrap();
    };
    for trap in [link, fifo, folder, torn, device, huge] {
        let scene = Scene::new();
        trap(&scene.self_folder.join("report"));
        look(&scene).assert_failed(69, "can't be read");
    }
    let scene = Scene::new();
    fs::write(
        scene.self_folder.join("report"),
        [b"gate=\"opened\"\nprocess=\"1:1\"\n".as_slice(), &[0xff; 100]].concat(),
    )
    .unwrap();
    assert_eq!(look(&scene).code, 69);
}

#[test]
fn in_the_containers_own_namespaces_it_finds_the_first_process() {
    let Some(mut shell) = Shell::in_namespaces(&["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"])
    else {
        return;
    };
    let scene = Scene::new();
    let errors = scene.root.join("errors");
    shell.start_agent(&scene.gate().with_command(&["sleep", "600"]), &errors);
    wait_until("it has opened", || scene.report().is_some_and(|report| report.gate == Some(GateState::Opened)));
    let line =
        format!("{} opened --self {} 2>>{}", crate::support::PROGRAM, scene.self_folder.display(), errors.display());
    assert_eq!(shell.run(&line), 0, "{}", fs::read_to_string(&errors).unwrap());
    // Seen from another namespace, that number is another's.
    look(&scene).assert_failed(69, "the gate's process is gone");
}
