//! The sidecar's real binary with the agent's: entrypoint gates, and the tethers of what runs behind them.

use super::*;
use podgate::core::report::GateState;
use podgate::edge::tether;
use std::fs;

/// A container with an entrypoint gate, its command running or about to.
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
        agent.env("PODGATE_BOARD", "board").env("PODGATE_PODINFO", "info").env("PODGATE_TERMINATION_LOG", "/dev/null");
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
fn a_dependent_runs_when_the_gate_before_it_has_opened_and_its_container_lives() {
    let pod = Pod::new();
    let _sidecar = pod.sidecar(TWO, &[]);
    let api = pod.gate("api", &["--until", "db"], SLEEP);
    until("api waits and is heard", || pod.board().heard_tickets.contains_key("api"));
    assert_eq!(pod.read_report("api").unwrap().gate, Some(GateState::Waiting));
    let db = pod.gate("db", &[], SLEEP);
    until("both run", || pod.has_opened("db") && pod.has_opened("api"));
    until("both are Ready", || (pod.state("db"), pod.state("api")) == (State::Ready, State::Ready));
    assert_eq!((pod.board().phase, pod.board().heard_tickets.is_empty()), (Phase::Started, true));
    drop((api, db));
}

/// However it ended, with no API and no polling.
#[test]
fn an_end_is_on_the_board_at_once() {
    for (how, command) in
        [("killed", SLEEP), ("ended by TERM", SLEEP), ("exited", &["sh", "-c", "read line < go; exit 3"])]
    {
        let pod = Pod::new();
        let _sidecar = pod.sidecar(TWO, &[]);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            pod.path("go"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .or_else(|error| if error == rustix::io::Errno::EXIST { Ok(()) } else { Err(error) })
        .unwrap();
        let db = pod.gate("db", &[], command);
        until("db is Ready", || pod.state("db") == State::Ready);
        // A drop within 2 s of the start may be that of a program which closes what it inherits.
        std::thread::sleep(Duration::from_millis(2100));
        match how {
            "killed" => db.signal(Signal::KILL),
            "exited" => fs::write(pod.path("go"), "\n").unwrap(),
            _ => db.signal(Signal::TERM),
        }
        let begin = Instant::now();
        until("db has ended", || pod.state("db").has_ended());
        eprintln!("{how}: on the board {:.1} ms later", begin.elapsed().as_secs_f64() * 1000.0);
    }
}

#[test]
fn after_a_restart_of_the_sidecar_who_runs_counts_by_its_tether_and_a_dead_one_does_not() {
    let pod = Pod::new();
    let first = pod.sidecar(TWO, &[]);
    let mut db = pod.gate("db", &[], SLEEP);
    until("db is Ready", || pod.state("db") == State::Ready);
    drop(first);
    let second = pod.sidecar(TWO, &[]);
    until("db is Ready again: it runs, and can't report anew", || pod.state("db") == State::Ready);
    drop(second);
    db.kill();
    assert!(pod.has_opened("db") && !tether::is_held(&pod.path("self"), "db"));
    let _sidecar = pod.sidecar(TWO, &[]);
    assert_eq!(pod.state("db"), State::Waiting, "what lies there is a dead one's");
    let _api = pod.gate("api", &["--until", "db"], SLEEP);
    until("api is heard", || pod.board().heard_tickets.contains_key("api"));
    assert!(!pod.has_opened("api"));
}

/// All are up and the sidecar rests: what it saw last is no reason to open a gate.
#[test]
fn a_gate_that_arrives_later_opens_only_on_a_new_look() {
    let port = free_port();
    let containers = format!(
        r#"[{{"name":"db","mode":"entrypoint","readinessProbe":{{"tcpSocket":{{"port":{port}}},"failureThreshold":1000}}}},
            {{"name":"api","mode":"entrypoint","until":["db"]}}]"#
    );
    let pod = Pod::new();
    let _sidecar = pod.sidecar(&containers, &["--pod-ips", "127.0.0.1"]);
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let _db = pod.gate("db", &[], SLEEP);
    let mut api = pod.gate("api", &["--until", "db"], SLEEP);
    until("both run", || pod.has_opened("api"));
    until("it rests", || pod.board().phase == Phase::Started);
    drop(listener);
    api.kill();
    let api = pod.gate("api", &["--until", "db"], SLEEP);
    until("api waits", || pod.read_report("api").is_some_and(|report| report.gate == Some(GateState::Waiting)));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(pod.state("db"), State::Ready, "one that fails has not failed often enough to count");
    assert!(!pod.has_opened("api"), "and yet nobody may start on it");
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    until("api runs", || pod.has_opened("api"));
    drop(api);
}

#[test]
fn a_hook_may_leave_a_tether_behind() {
    let pod = Pod::new();
    let _sidecar = pod.sidecar(r#"[{"name":"db","mode":"post-start"}]"#, &[]);
    let mut hook = Command::new(AGENT);
    hook.args(["post-start", "--container", "db", "--tether", "--board", "board", "--podinfo", "info"]);
    hook.arg("--self").arg(pod.path("self/db")).args(["--termination-log", "/dev/null"]);
    let output = hook.current_dir(pod.root.path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    until("db is Ready", || pod.state("db") == State::Ready);
    // Its output has ended, though somebody stays.
    let holder = fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let path = entry.path();
        let held = fs::read_dir(path.join("fd"))
            .ok()?
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|file| file.starts_with(pod.path("self/db"))));
        held.then(|| entry.file_name().to_str()?.parse().ok()).flatten()
    });
    kill_process(Pid::from_raw(holder.expect("somebody holds it")).unwrap(), Signal::KILL).unwrap();
    until("db is gone", || pod.state("db") == State::Failed);
}

#[test]
fn an_order_that_can_not_be_kept_is_refused_with_its_reason() {
    let pod = Pod::new();
    let broken = r#"[{"name":"api","mode":"entrypoint","until":["db"]},{"name":"db","mode":"post-start"}]"#;
    let output = pod.command(&["--publish", "board", "--containers", broken]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("put db before api"), "{}", stderr(&output));
}
