//! Stops a Pod whose containers must stop in reverse order: `web`, then `api`, then `db`. After SIGTERM, `web` takes
//! longer to exit than a hook waits for a sign that the whole Pod stops.

use super::cell::{Cell, Order, rounded_time};
use super::fault_run::CellSetup;
use crate::clock::{eventually, wall_ms};
use crate::cluster::{ApiServerStopped, TESTSERVER_IMAGE, create, kubectl, try_script};
use crate::injected::inject_manifest;
use crate::node_logs::NodeLogs;
use crate::scene::FollowedPod;
use crate::watch::ObservedPod;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs;
use std::process::Command;
use std::time::SystemTime;

/// Each container that must stop after others, with these others.
const STOPS_AFTER: &[(&str, &[&str])] = &[("api", &["web"]), ("db", &["api", "web"])];

/// A running Pod whose stop a test measures.
struct Stop<'a> {
    run: FollowedPod<'a>,
    logs: NodeLogs,
}

impl<'a> Stop<'a> {
    /// Injects and creates the Pod, and waits until all containers are Ready.
    fn begin(setup: &CellSetup<'a>, web: &[&str]) -> Stop<'a> {
        let container = |name: &str, port: u16, more: &[&str]| {
            let port_text = port.to_string();
            let args = [&["--http", port_text.as_str()], more].concat();
            json!({"name": name, "image": TESTSERVER_IMAGE, "command": ["/testserver"],
                "args": args,
                "readinessProbe": {"httpGet": {"port": port}, "periodSeconds": 1},
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]})
        };
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "stop", "annotations": {"podgate.io/order": "db, api, web",
                "podgate.io/stop-order": "reverse", "podgate.io/mode": setup.mode.name()}},
            "spec": {
                "terminationGracePeriodSeconds": 30,
                "containers": [container("db", 8001, &[]), container("api", 8002, &[]), container("web", 8003, web)],
                "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}]}});
        let scene = setup.scene;
        let path = format!("{}/{}.json", env!("CARGO_TARGET_TMPDIR"), scene.namespace);
        fs::write(&path, pod.to_string()).unwrap_or_else(|error| panic!("{path}: {error}"));
        let injected = inject_manifest(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
        let logs = NodeLogs::follow(&scene.namespace, "stop");
        let run = scene.follow("stop");
        create(&scene.namespace, &injected);
        run.watch.wait_until("the Pod is Ready", 120, ObservedPod::is_ready);
        Stop { run, logs }
    }

    fn slow(setup: &CellSetup<'a>) -> Stop<'a> {
        Stop::begin(setup, &["--term-delay", "5s"])
    }

    fn evict(&self) {
        let (namespace, pod) = (&self.run.scene.namespace, &self.run.pod);
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
        try_script(&["kubectl", "create", "--raw", &path, "-f", "-"], &eviction.to_string())
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Sets the Pod's `activeDeadlineSeconds`, counted from the start of the Pod, so that it passes in `seconds`.
    fn set_deadline(&self, seconds: u64) {
        let started = self.run.watch.last().expect("the Pod").pod["status"]["startTime"].clone();
        let started = humantime::parse_rfc3339(started.as_str().expect("a start time")).expect("a time");
        let age = wall_ms() / 1000.0 - started.duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_secs_f64();
        let patch = json!({"spec": {"activeDeadlineSeconds": age as u64 + seconds}}).to_string();
        kubectl(&["-n", &self.run.scene.namespace, "patch", "pod", &self.run.pod, "-p", &patch]);
    }

    /// Waits until `container` has logged `event`. Works without the API server.
    fn wait_for(&self, container: &str, event: &str) -> f64 {
        eventually(&format!("{container} logs {event:?}"), 150, || {
            self.logs.of_container(container).iter().find_map(|life| life.time_of(event))
        })
    }

    /// Waits until the kubelet reports why it has stopped the Pod.
    fn reason(&self) -> String {
        let is_failed = |seen: &ObservedPod| seen.pod["status"]["phase"] == "Failed";
        let failed = self.run.watch.wait_until("the Pod has failed", 120, is_failed);
        format!("the Pod is Failed, `{}`", failed.pod["status"]["reason"].as_str().unwrap_or_default())
    }

    /// Waits until `db` has received SIGTERM, and returns the cell.
    fn finish(&self, user_sees: impl FnOnce() -> String) -> Cell {
        self.wait_for("db", "term");
        let user_sees = user_sees();
        let lives = self.logs.logs_with_ends();
        let log = |name: &str| lives.iter().rfind(|life| life.name == name).expect("a log");
        let (mut early, mut longest) = (Vec::new(), 0_f64);
        for (later, others) in STOPS_AFTER {
            let term = log(later).expect_time_of("term");
            let ended = |other: &str| log(other).end.filter(|end| *end <= term);
            let running = others.iter().filter(|other| ended(other).is_none());
            early.extend(running.map(|other| format!("`{later}` receives SIGTERM before `{other}` has exited")));
            longest = longest.max(term - others.iter().filter_map(|other| ended(other)).fold(0.0, f64::max));
        }
        // Which other pairs lose their order can change from run to run.
        let (order, waited) = match early.first() {
            None => (Order::Kept, format!("SIGTERM {} after the exit", rounded_time(longest))),
            Some(first) => (Order::Lost, first.clone()),
        };
        Cell { order, waited, user_sees }
    }
}

pub(super) fn evicted(setup: &CellSetup<'_>) -> Cell {
    let stop = Stop::slow(setup);
    stop.evict();
    stop.finish(String::new)
}

/// Freezes the API server as soon as the kubelet knows of the deletion.
pub(super) fn api_frozen(setup: &CellSetup<'_>) -> Cell {
    let stop = Stop::slow(setup);
    stop.evict();
    let frozen = FrozenApiServer::freeze();
    stop.wait_for("db", "term");
    drop(frozen);
    stop.finish(String::new)
}

pub(super) fn deadline(setup: &CellSetup<'_>) -> Cell {
    let stop = Stop::slow(setup);
    stop.set_deadline(1);
    stop.finish(|| stop.reason())
}

pub(super) fn deadline_without_api(setup: &CellSetup<'_>) -> Cell {
    let stop = Stop::slow(setup);
    stop.set_deadline(15);
    stop.run.watch.wait_until("the kubelet knows the deadline", 60, |seen| {
        let pod = &seen.pod;
        pod["spec"]["activeDeadlineSeconds"].is_u64()
            && pod["status"]["observedGeneration"] == pod["metadata"]["generation"]
    });
    let away = ApiServerStopped::stop();
    let since = wall_ms();
    assert!(stop.wait_for("web", "term") > since, "the API server was stopped too late for this test");
    stop.wait_for("db", "term");
    drop(away);
    stop.finish(|| stop.reason())
}

/// Fills an `emptyDir` beyond its limit, so that the kubelet evicts the Pod.
pub(super) fn evicted_by_the_kubelet(setup: &CellSetup<'_>) -> Cell {
    let stop = Stop::slow(setup);
    let path = format!("/proc/{}/root/scratch/fill", stop.run.pid("web").expect("web runs"));
    fs::write(&path, vec![1; 8 << 20]).unwrap_or_else(|error| panic!("{path}: {error}"));
    stop.finish(|| stop.reason())
}

pub(super) fn hook_killed(setup: &CellSetup<'_>) -> Cell {
    let stop = Stop::slow(setup);
    stop.evict();
    stop.wait_for("web", "term");
    let hook = eventually("the hook of api runs", 5, || stop.run.agent_pid("api", "pre-stop"));
    kill(hook, Signal::KILL);
    stop.finish(String::new)
}

pub(super) fn term_ignored(setup: &CellSetup<'_>) -> Cell {
    let stop = Stop::begin(setup, &["--ignore-term"]);
    stop.evict();
    stop.finish(String::new)
}

fn kill(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("the process can be signaled");
}

/// Guard that suspends the API server, which then accepts connections but does not answer.
struct FrozenApiServer(u32);

impl FrozenApiServer {
    fn freeze() -> FrozenApiServer {
        let found = Command::new("pgrep").args(["-o", "-x", "kube-apiserver"]).output().expect("pgrep");
        let pid = String::from_utf8_lossy(&found.stdout).trim().parse().expect("the API server runs");
        kill(pid, Signal::STOP);
        FrozenApiServer(pid)
    }
}

impl Drop for FrozenApiServer {
    fn drop(&mut self) {
        kill(self.0, Signal::CONT);
    }
}
