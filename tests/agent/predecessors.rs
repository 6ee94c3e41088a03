//! Tests of a gate without a sidecar, which runs the probes of its predecessors itself, and of its startupProbe.

use crate::support::{Agent, Scene, Shell, wait_until};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(400);

/// An HTTP server that answers 200 while it is ready, and 503 otherwise.
struct Server {
    port: u16,
    is_ready: Arc<AtomicBool>,
    requests: Arc<AtomicU32>,
}

impl Server {
    fn new(is_ready: bool) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Server { port, is_ready: Arc::new(is_ready.into()), requests: Arc::default() };
        let (is_ready, requests) = (Arc::clone(&server.is_ready), Arc::clone(&server.requests));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]);
                requests.fetch_add(1, Ordering::SeqCst);
                let status = if is_ready.load(Ordering::SeqCst) { "200 OK" } else { "503 Not Ready" };
                let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes());
            }
        });
        server
    }

    fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::SeqCst);
    }

    fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Returns a gate that asks with these values of `--ask`, and then prints `ran`.
fn gate(scene: &Scene, asks: &[String]) -> Agent {
    let termination = scene.termination.clone();
    std::fs::write(&termination, "").unwrap();
    let gate = Agent::new(&["entrypoint", "--container", "web", "--pod-ip", "127.0.0.1"], &termination);
    let gate = gate.flag("termination-log", &termination);
    asks.iter().fold(gate, |gate, ask| gate.arg("--ask").arg(ask)).with_command(&["/bin/echo", "ran"])
}

#[test]
fn gate_opens_when_its_predecessor_passes_its_probe() {
    let scene = Scene::new();
    let db = Server::new(false);
    let mut gate = gate(&scene, &[format!("db http://:{}/", db.port)]).spawn_waiting();
    std::thread::sleep(SHORT);
    assert!(gate.is_running(), "the server answers 503");
    db.set_ready(true);
    let run = gate.wait();
    assert_eq!((run.code, run.stdout.as_str()), (0, "ran\n"), "{}", run.stderr);
    // The probe that passed, and the one that confirmed the decision.
    assert!(db.requests() >= 3, "{}", db.requests());
}

#[test]
fn gate_waits_for_a_socket_and_asks_at_once_when_it_listens() {
    let scene = Scene::new();
    let port = crate::free_port::free_address().port();
    let mut gate = gate(&scene, &[format!("db tcp://:{port}")]).spawn_waiting();
    std::thread::sleep(SHORT);
    assert!(gate.is_running(), "nothing listens");
    let _db = TcpListener::bind(("127.0.0.1", port)).unwrap();
    assert_eq!(gate.wait().code, 0);
}

/// A container behind a closed gate is not Ready, whatever answers on its port.
#[test]
fn predecessor_is_asked_only_when_those_before_it_are_ready() {
    let scene = Scene::new();
    let (db, api) = (Server::new(false), Server::new(true));
    let asks = [format!("db http://:{}/", db.port), format!("api after=db http://:{}/", api.port)];
    let mut gate = gate(&scene, &asks).spawn_waiting();
    std::thread::sleep(SHORT);
    assert!(gate.is_running() && api.requests() == 0, "{}", api.requests());
    db.set_ready(true);
    assert_eq!(gate.wait().code, 0);
}

/// All conditions must hold at the same moment: `db` was Ready, and fails before `api` is Ready.
#[test]
fn predecessor_that_fails_again_keeps_the_gate_closed() {
    let scene = Scene::new();
    let (db, api) = (Server::new(true), Server::new(false));
    let asks = [format!("db http://:{}/", db.port), format!("api after=db http://:{}/", api.port)];
    let mut gate = gate(&scene, &asks).spawn_waiting();
    wait_until("the gate asks api", || api.requests() > 1);
    db.set_ready(false);
    api.set_ready(true);
    std::thread::sleep(SHORT);
    assert!(gate.is_running(), "db is not Ready any more");
    wait_until("the message names db", || {
        std::fs::read_to_string(&scene.termination).unwrap().contains("waiting for db=Ready (now NotReady)")
    });
    db.set_ready(true);
    assert_eq!(gate.wait().code, 0);
}

#[test]
fn settings_of_the_probe_apply() {
    let scene = Scene::new();
    for (setting, least, most) in [
        ("initialDelaySeconds=1", 1000, 2500),
        // The second success counts one period after the first.
        ("periodSeconds=1 successThreshold=2", 850, 2500),
        ("periodSeconds=1", 0, 800),
    ] {
        let db = Server::new(true);
        let run = gate(&scene, &[format!("db {setting} http://:{}/", db.port)]).run();
        let range = Duration::from_millis(least)..Duration::from_millis(most);
        assert!(run.code == 0 && range.contains(&run.took), "{setting}: {:?}, {}", run.took, run.stderr);
    }
}

#[test]
fn gate_ends_at_once_on_sigterm_while_a_server_does_not_answer() {
    let scene = Scene::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let gate = gate(&scene, &[format!("db timeoutSeconds=60 http://:{port}/")]).spawn_waiting();
    let (since, _accepted) = (Instant::now(), silent.accept().unwrap());
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code, 143);
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}

#[test]
fn gate_gives_up_at_its_time_limit_with_the_last_result() {
    let scene = Scene::new();
    let db = Server::new(false);
    let mut agent = gate(&scene, &[format!("db http://:{}/", db.port)]);
    agent.arguments.splice(1..1, ["--timeout".into(), "300ms".into()]);
    let run = agent.run();
    assert_eq!(run.code, 75);
    assert!(run.stderr.contains("db=Ready (now Started)") && run.stderr.contains("HTTP status 503"), "{}", run.stderr);
}

#[test]
fn wrong_values_are_usage_errors() {
    let scene = Scene::new();
    for (ask, why) in [
        ("db", "write NAME http://:PORT/PATH"),
        ("Db http://:1/", "not a container name"),
        ("db https://:1/", "no TLS"),
        ("db file:///x", "write NAME"),
        ("db exec:[\"x\"]", "write NAME"),
        ("db period=1 http://:1/", "not a setting"),
        ("db periodSeconds=x http://:1/", "not a setting"),
    ] {
        let run = gate(&scene, &[ask.to_owned()]).run();
        assert!(run.code == 64 && run.stderr.contains(why), "{ask}: {} {}", run.code, run.stderr);
    }
    let termination = scene.termination.clone();
    let run = Agent::new(&["entrypoint", "--pod-ip", "x", "--", "true"], &termination).run();
    assert!(run.code == 64 && run.stderr.contains("not an IP address"), "{}", run.stderr);
}

/// The startupProbe passes when process 1 is no longer the gate, with nothing written anywhere.
#[test]
fn opened_passes_when_process_1_has_executed_the_command() {
    if Shell::in_namespaces(&["--user", "--map-root-user", "--fork", "--pid", "--mount-proc"]).is_none() {
        return;
    }
    let scene = Scene::new();
    let db = Server::new(false);
    let marks = scene.root.join("marks");
    let script = format!("echo command >>{}; sleep 2", marks.display());
    let mut agent = gate(&scene, &[format!("db http://:{}/", db.port)]);
    let end = agent.arguments.iter().position(|word| word == "--").unwrap();
    agent.arguments.truncate(end);
    let gate = agent.with_command(&["sh", "-c", &script]).in_a_pid_namespace().spawn();
    wait_until("the gate asks db", || db.requests() > 1);
    // `unshare` is the parent of the gate.
    let inside = |words: &[&str]| {
        let mut all = vec!["--target".to_owned(), gate.child().to_string()];
        all.extend(
            ["--user", "--preserve-credentials", "--pid", "--mount", crate::support::PROGRAM].map(str::to_owned),
        );
        all.extend(words.iter().map(|word| (*word).to_owned()));
        std::process::Command::new("nsenter").args(all).spawn().unwrap()
    };
    assert!(!inside(&["opened", "--pod-ip", "127.0.0.1"]).wait().unwrap().success(), "the gate is closed");
    let mut waiting = inside(&["opened", "--wait", "--pod-ip", "127.0.0.1"]);
    std::thread::sleep(SHORT);
    assert!(waiting.try_wait().unwrap().is_none(), "the gate is closed");
    db.set_ready(true);
    assert!(waiting.wait().unwrap().success());
    wait_until("the command runs", || marks.exists());
    assert!(inside(&["opened", "--pod-ip", "127.0.0.1"]).wait().unwrap().success(), "also at once, later");
    assert_eq!(gate.wait().code, 0);
}
