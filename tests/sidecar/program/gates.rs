//! Tests of the sidecar's binary together with the agent's binary: entrypoint gates and tethers.

use super::*;
use podgate::core::report::GateState;
use podgate::edge::lock;
use std::fs;

/// Process of a container with an entrypoint gate, before or after the start of the command.
struct Gated {
    child: Child,
}

impl Gated {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pod {
    /// Starts container `name`: `podgate entrypoint FLAGS -- COMMAND`.
    fn gate(&self, name: &str, flags: &[&str], command: &[&str]) -> Gated {
        let mut agent = Command::new(AGENT);
        agent.arg("entrypoint").args(flags).arg("--").args(command).current_dir(self.root.path());
        agent.env("PODGATE_BOARD", "board").env("PODGATE_TERMINATION_LOG", "/dev/null");
        agent.env("PODGATE_SELF", self.path("self").join(name)).stdin(Stdio::null()).stderr(Stdio::null());
        Gated { child: agent.spawn().unwrap() }
    }

    fn read_report(&self, name: &str) -> Option<Report> {
        Report::parse(&fs::read(self.path("self").join(name).join(names::REPORT_FILE)).ok()?).ok()
    }

    fn has_opened(&self, name: &str) -> bool {
        self.read_report(name).is_some_and(|report| report.has_gate_opened())
    }
}

const TWO: &str = r#"[{"name":"db","mode":"entrypoint"},{"name":"api","mode":"entrypoint","until":["db"]}]"#;
const SLEEP: &[&str] = &["sleep", "1000"];

#[test]
fn dependent_container_starts_after_its_dependency_runs() {
    let pod = Pod::new();
    let _sidecar = pod.sidecar(TWO, &[]);
    let api = pod.gate("api", &["--until", "db"], SLEEP);
    until("api waits", || pod.read_report("api").is_some_and(|report| report.gate == Some(GateState::Waiting)));
    let db = pod.gate("db", &[], SLEEP);
    until("both run", || pod.has_opened("db") && pod.has_opened("api"));
    until("both are Ready", || (pod.state("db"), pod.state("api")) == (State::Ready, State::Ready));
    assert_eq!((pod.board().stage, pod.board().confirmed_tickets.is_empty()), (Stage::Started, true));
    drop((api, db));
}

/// Tests each way in which a container can end, without an API and without polling.
#[test]
fn end_of_a_container_is_published() {
    let pod = Pod::new();
    let names = ["killed", "terminated", "exited"];
    let containers = names.map(|name| format!(r#"{{"name":"{name}","mode":"entrypoint"}}"#));
    let _sidecar = pod.sidecar(&format!("[{}]", containers.join(",")), &[]);
    let go = pod.path("go");
    rustix::fs::mknodat(rustix::fs::CWD, &go, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let [killed, terminated] = ["killed", "terminated"].map(|name| pod.gate(name, &[], SLEEP));
    let _exited = pod.gate("exited", &[], &["sh", "-c", "read line < go; exit 3"]);
    until("all are Ready", || names.iter().all(|name| pod.state(name) == State::Ready));
    // A tether released within 2 s (`EARLY_TETHER_DROP_WINDOW`) of the start does not count as an end: the program may
    // close inherited descriptors.
    std::thread::sleep(Duration::from_millis(2100));
    killed.signal(Signal::KILL);
    terminated.signal(Signal::TERM);
    fs::write(go, "\n").unwrap();
    for name in names {
        until(&format!("{name} has ended"), || pod.state(name).has_ended());
    }
}

#[test]
fn restarted_sidecar_recognizes_containers_by_their_tethers() {
    let pod = Pod::new();
    let first = pod.sidecar(TWO, &[]);
    let mut db = pod.gate("db", &[], SLEEP);
    until("db is Ready", || pod.state("db") == State::Ready);
    drop(first);
    let second = pod.sidecar(TWO, &[]);
    until("db is Ready again by its tether", || pod.state("db") == State::Ready);
    drop(second);
    db.kill();
    assert!(pod.has_opened("db") && !lock::is_tethered(&pod.path("self"), "db"));
    let _sidecar = pod.sidecar(&TWO.replace("[{", r#"[{"name":"last","mode":"entrypoint"},{"#), &[]);
    assert_eq!(pod.state("db"), State::Waiting, "the report belongs to an ended container");
    let _api = pod.gate("api", &["--until", "db"], SLEEP);
    until("api waits", || pod.read_report("api").is_some_and(|report| report.epoch == pod.board().epoch));
    // The sidecar reads all reports at once.
    let _last = pod.gate("last", &[], SLEEP);
    until("the sidecar has read the reports", || pod.state("last") == State::Ready);
    assert!(!pod.has_opened("api") && !pod.board().confirmed_tickets.contains_key("api"));
}

/// An idle sidecar's last states may be outdated, so a new gate opens only after a new check.
#[test]
fn late_gate_opens_only_after_a_new_check() {
    let port = free_port();
    let containers = format!(
        r#"[{{"name":"db","mode":"entrypoint","readinessProbe":{{"tcpSocket":{{"port":{port}}},"failureThreshold":1000}}}},
            {{"name":"api","mode":"entrypoint","until":["db"]}}]"#
    );
    let pod = Pod::new();
    let _sidecar = pod.sidecar(&containers, &["--pod-ips", "127.0.0.1,::1"]);
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let _db = pod.gate("db", &[], SLEEP);
    let mut api = pod.gate("api", &["--until", "db"], SLEEP);
    until("both run", || pod.has_opened("api"));
    until("the Pod has started", || pod.board().stage == Stage::Started);
    drop(listener);
    api.kill();
    let api = pod.gate("api", &["--until", "db"], SLEEP);
    until("api waits", || pod.read_report("api").is_some_and(|report| report.gate == Some(GateState::Waiting)));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(pod.state("db"), State::Ready, "the probe has not failed often enough to count");
    assert!(!pod.has_opened("api"), "a failing probe must not open a gate");
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    until("api runs", || pod.has_opened("api"));
    drop(api);
}

#[test]
fn hook_leaves_a_process_that_holds_the_tether() {
    let pod = Pod::new();
    let _sidecar = pod.sidecar(r#"[{"name":"db","mode":"post-start"}]"#, &[]);
    let mut hook = Command::new(AGENT);
    hook.args(["post-start", "--container", "db", "--tether", "--board", "board", "--podinfo", "info"]);
    hook.arg("--self").arg(pod.path("self/db")).args(["--termination-log", "/dev/null"]);
    let output = hook.current_dir(pod.root.path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    until("db is Ready", || pod.state("db") == State::Ready);
    // The hook's output is closed, although a process keeps running to hold the tether.
    let holder = fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let path = entry.path();
        let held = fs::read_dir(path.join("fd"))
            .ok()?
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|file| file.starts_with(pod.path("self/db"))));
        held.then(|| entry.file_name().to_str()?.parse().ok()).flatten()
    });
    kill_process(Pid::from_raw(holder.expect("a process holds the tether")).unwrap(), Signal::KILL).unwrap();
    until("db has failed", || pod.state("db") == State::Failed);
}

#[test]
fn impossible_order_is_rejected_with_a_reason() {
    let pod = Pod::new();
    let broken = r#"[{"name":"api","mode":"entrypoint","until":["db"]},{"name":"db","mode":"post-start"}]"#;
    let output = pod.command(&["--publish", "none", "--containers", broken]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("put db before api"), "{}", stderr(&output));
}

#[test]
fn gate_waits_for_the_readiness_of_a_native_sidecar() {
    let (pod, port) = (Pod::new(), free_port());
    let mesh = format!(
        r#"{{"name":"mesh","restartPolicy":"Always","readinessProbe":{{"tcpSocket":{{"port":{port}}},"periodSeconds":1}}}}"#
    );
    let _sidecar =
        pod.sidecar(&format!(r#"[{mesh},{{"name":"app","mode":"entrypoint","until":["mesh=Ready"]}}]"#), &[]);
    let mut gate = pod.gate("app", &["--until", "mesh=Ready"], &["true"]);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(pod.state("mesh"), State::Waiting);
    assert!(gate.child.try_wait().unwrap().is_none(), "mesh does not listen yet");
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    until("the gate has opened", || gate.child.try_wait().unwrap().is_some_and(|status| status.success()));
    assert_eq!(pod.state("mesh"), State::Ready);
}
