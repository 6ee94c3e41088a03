//! `podgate opened`: a probe of the gate, by what real gates report and by what may lie there instead.

use crate::support::{Agent, Ended, Scene, Shell, until};
use podgate::core::names::BOARD_FILE_MAX;
use podgate::core::report::{Gate, Process, Report};
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

fn look(scene: &Scene) -> Ended {
    probe(&scene.own).run()
}

fn look_or_waiting(scene: &Scene) -> Ended {
    probe(&scene.own).arg("--or-waiting").run()
}

#[test]
fn it_follows_a_real_gate_through_its_life() {
    let mut scene = Scene::with_controller();
    let gate = || scene.gate().flag("until", "db").flag("until", "api=Completed").becomes(&["sleep", "600"]);
    let waiting = gate().waiting();
    look(&scene).failed(69, "podgate opened: the gate waits for db=Ready, api=Completed");
    look_or_waiting(&scene).released();
    waiting.signal(Signal::KILL);
    waiting.end();
    look(&scene).failed(69, "podgate opened: the gate's process is gone");
    look_or_waiting(&scene).failed(69, "the gate's process is gone");

    fs::write(&scene.termination, "").unwrap();
    let gate = gate().waiting();
    scene.hear(|s| s.states = ["db", "api"].map(|name| (name.to_owned(), State::Completed)).into());
    scene.set("db", State::Ready);
    let name = || fs::read_to_string(format!("/proc/{}/comm", gate.id())).unwrap();
    until("it has become the command", || name() == "sleep\n");
    look(&scene).released();
    look_or_waiting(&scene).released();
    gate.signal(Signal::TERM);
    assert_eq!(gate.end().code, 143);
    look(&scene).failed(69, "the gate's process is gone");
}

#[test]
fn a_gate_that_no_sidecar_hears_is_followed_too() {
    let scene = Scene::new();
    let file = scene.root.join("ready");
    let gate = scene.gate().flag("check", format!("file://{}", file.display())).becomes(&["sleep", "600"]).waiting();
    look(&scene).failed(69, "podgate opened: the gate still waits");
    look_or_waiting(&scene).released();
    fs::write(&file, "").unwrap();
    until("it has opened", || scene.report().unwrap().gate == Some(Gate::Opened));
    look(&scene).released();
    drop(gate);
}

fn put(scene: &Scene, report: &Report) {
    fs::write(scene.own.join("report"), report.write()).unwrap();
}

/// An open gate whose process is this test.
fn opened() -> Report {
    Report { gate: Some(Gate::Opened), process: process::own(), ..Report::default() }
}

fn open_gate() -> Scene {
    let scene = Scene::new();
    put(&scene, &opened());
    look(&scene).released();
    scene
}

#[test]
fn its_checks_are_made_once_each_and_the_first_failure_is_named() {
    let scene = open_gate();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = format!("tcp://{}", port.local_addr().unwrap());
    let marks = scene.root.join("marks");
    let mark = format!(r#"exec:["sh","-c","echo x >>{}"]"#, marks.display());
    let probe = || probe(&scene.own).flag("check-timeout", "300ms");
    probe().flag("check", &open).flag("check", &mark).run().released();
    assert_eq!(fs::read_to_string(&marks).unwrap(), "x\n");
    let fails = r#"exec:["sh","-c","echo out; exit 3"]"#;
    probe().flag("check", fails).flag("check", &mark).run().failed(69, "exited with 3");
    assert_eq!(fs::read_to_string(&marks).unwrap(), "x\n", "what comes after a failure is not looked at");
    probe().flag("check", r#"exec:["sleep","600"]"#).run().failed(69, "took too long");
    probe().flag("check", "file:///nonexistent").run().failed(69, "file:///nonexistent not there");
    // It accepts, and never answers.
    let silent = open.replace("tcp:", "http:");
    let run = probe().flag("check", &silent).run();
    run.failed(69, "no answer in time");
    assert!(run.took < Duration::from_secs(5), "{run:?}");
    drop(port);
    probe().flag("check", &open).run().failed(69, &format!("podgate opened: {open} refused"));
    // While the gate waits, nobody is asked.
    put(&scene, &Report { gate: Some(Gate::Waiting), ..opened() });
    probe().flag("check", &open).arg("--or-waiting").run().released();
    probe().flag("check", &open).run().failed(69, "the gate still waits");
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
    probe(&scene.own).flag("check", &url).run().failed(69, &format!("podgate opened: {url} answered 503"));
    answer.join().unwrap();
}

#[test]
fn a_process_that_is_not_the_gates_never_passes() {
    let scene = open_gate();
    let own = process::own().unwrap();
    // The number is another's by now; or nobody's.
    for gone in [Process { start: own.start + 1, ..own }, Process { pid: u32::MAX, start: own.start }] {
        put(&scene, &Report { process: Some(gone), ..opened() });
        look(&scene).failed(69, "the gate's process is gone");
    }
    put(&scene, &Report { process: None, ..opened() });
    look(&scene).failed(69, "can't tell whether the gate's process lives");
}

#[test]
fn no_report_is_a_wrong_set_up_with_how_to_mend_it() {
    let scene = Scene::new();
    look(&scene).failed(78, "mount this container's own folder there, or say where with --self");
    probe(Path::new("/nonexistent")).run().failed(78, "no gate has reported in /nonexistent");
    probe(Path::new("/etc/passwd")).run().failed(78, "no gate has reported in /etc/passwd");
    // What the controller puts there at first, and a postStart hook's.
    for report in [Report::default().write_filled(), Report { started: true, ..Report::default() }.write()] {
        fs::write(scene.own.join("report"), report).unwrap();
        look(&scene).failed(78, "is podgate entrypoint this container's command?");
        look_or_waiting(&scene).failed(78, "no gate has reported");
    }
}

#[test]
fn nothing_that_lies_there_is_believed_or_holds_it_up() {
    type Trap = fn(&Path);
    let link: Trap = |at| {
        fs::write(at.with_extension("real"), opened().write()).unwrap();
        symlink(at.with_extension("real"), at).unwrap();
    };
    let fifo: Trap = |at| mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let folder: Trap = |at| fs::create_dir(at).unwrap();
    let torn: Trap = |at| fs::write(at, "gate=\"opened").unwrap();
    let device: Trap = |at| symlink("/dev/zero", at).unwrap();
    let huge: Trap = |at| {
        let mut text = opened().write();
        text.push_str(&format!("\n~=\"{}\"", "-".repeat(BOARD_FILE_MAX)));
        fs::write(at, text).unwrap();
    };
    for trap in [link, fifo, folder, torn, device, huge] {
        let scene = Scene::new();
        trap(&scene.own.join("report"));
        look(&scene).failed(69, "can't be read");
    }
    let scene = Scene::new();
    fs::write(scene.own.join("report"), [b"gate=\"opened\"\nprocess=\"1:1\"\n".as_slice(), &[0xff; 100]].concat())
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
    shell.start(&scene.gate().becomes(&["sleep", "600"]), &errors);
    until("it has opened", || scene.report().is_some_and(|report| report.gate == Some(Gate::Opened)));
    let line = format!("{} opened --self {} 2>>{}", crate::support::PROGRAM, scene.own.display(), errors.display());
    assert_eq!(shell.run(&line), 0, "{}", fs::read_to_string(&errors).unwrap());
    // Seen from another namespace, that number is another's.
    look(&scene).failed(69, "the gate's process is gone");
}
