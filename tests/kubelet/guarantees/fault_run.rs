//! Runs of a Pod in which a test injects one fault. The containers become ready on a signal from the test, so the
//! result does not depend on the machine's speed.

use super::cell::{Cell, Mode, Order, rounded_time};
use super::peers::{self, KruiseController};
use crate::clock::{eventually, now, wall_ms};
use crate::cluster::{kubectl_json, try_script};
use crate::incarnation_log::IncarnationLog;
use crate::node_logs::NodeLogs;
use crate::pod::{Container, Pod, server};
use crate::scene::{FollowedPod, Scene};
use crate::watch::ObservedPod;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

/// The kubelet's reason for a held container.
const HELD: &str = "CreateContainerConfigError";

/// Pairs of a container in the chain and one of its predecessors.
const CHAIN: &[(&str, &str)] = &[("api", "db"), ("web", "db"), ("web", "api")];

/// Scene, mode and expected outcome of one cell.
pub(super) struct CellSetup<'a> {
    pub(super) scene: &'a Scene,
    pub(super) mode: Mode,
    pub(super) expected_order: Order,
    /// The controller that orders the containers, if it is Kruise's.
    pub(super) kruise: Option<RefCell<KruiseController>>,
}

impl<'a> CellSetup<'a> {
    pub(super) fn new(scene: &'a Scene, mode: Mode, expected_order: Order) -> CellSetup<'a> {
        let kruise = (mode == Mode::Kruise).then(|| KruiseController::start(&scene.namespace).into());
        CellSetup { scene, mode, expected_order, kruise }
    }

    /// Returns the containers of the chain in this mode. `db` becomes Ready only on a signal. `flags` belong to the
    /// hook or gate that waits for `db`: the hook of `db` in post-start mode, the gate of `api` in entrypoint mode.
    pub(super) fn chain(&self, flags: &[&str], ports: u16) -> [Container; 3] {
        let db = server("db").http(ports + 1).args(&["--ready-on-signal"]);
        let api = server("api").http(ports + 2);
        let web = server("web").http(ports + 3);
        match self.mode {
            Mode::PostStart => {
                // Add fallback checks, as in the example manifests.
                let fallback = |port: u16| format!("http://127.0.0.1:{port}/");
                let (first, second) = (fallback(ports + 1), fallback(ports + 2));
                let db = db.hook(&[&["--fallback-check", &first], flags].concat());
                [db, api.hook(&["--fallback-check", &second]), web]
            }
            Mode::Entrypoint => {
                let api = api.gate(&[&["--until", "db"], flags].concat());
                // As `inject` writes it: `db` waits for nothing, so it stays as it is.
                [db, api, web.gate(&["--until", "db", "--until", "api"])]
            }
            Mode::Lean => {
                let web = web.asking(&[&db, &api], &[]);
                let api = api.asking(&[&db], flags);
                [db, api, web]
            }
            Mode::Hold => {
                let api = api.held(&[&["--until", "db"], flags].concat());
                [db, api, web.held(&["--until", "db", "--until", "api"])]
            }
            peer => {
                let limit = flags.iter().position(|flag| *flag == "--timeout").map(|at| flags[at + 1]);
                let limit = limit.map(|text| humantime::parse_duration(text).expect("a time").as_secs() as u32);
                peers::order(peer, [db, api, web], ports, limit)
            }
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        ["db", "api", "web"].into_iter()
    }

    pub(super) fn begin(&self, pod: &Pod) -> FaultRun<'_> {
        let logs = NodeLogs::follow(&self.scene.namespace, &pod.name);
        FaultRun {
            mode: self.mode,
            expected_order: self.expected_order,
            order: CHAIN,
            run: self.scene.create(pod),
            logs,
        }
    }

    /// Starts the chain. Returns when `db` runs and a hook or gate waits for `db`.
    pub(super) fn begin_with_db_awaited(&self, flags: &[&str]) -> FaultRun<'_> {
        let fault_run = self.begin(&Pod::new("chain", self.chain(flags, 8000)));
        fault_run.wait_until_db_is_awaited(0);
        fault_run
    }
}

/// A running Pod in which a test injects one fault.
pub(super) struct FaultRun<'a> {
    mode: Mode,
    expected_order: Order,
    /// Pairs of a container and one of its predecessors.
    pub(super) order: &'static [(&'static str, &'static str)],
    pub(super) run: FollowedPod<'a>,
    pub(super) logs: NodeLogs,
}

impl FaultRun<'_> {
    /// Waits until incarnation `attempt` of `container`, or a later incarnation, has logged `event`.
    pub(super) fn wait_for_event(&self, container: &str, attempt: u32, event: &str) -> IncarnationLog {
        eventually(&format!("{container} logs {event:?} (incarnation {attempt})"), 90, || {
            self.logs
                .of_container(container)
                .into_iter()
                .find(|life| life.attempt >= attempt && life.time_of(event).is_some())
        })
    }

    /// Returns the container whose hook or gate waits for `db`.
    pub(super) fn waiter(&self) -> &'static str {
        match self.mode {
            // The time limit of a native sidecar is its startupProbe's.
            Mode::PostStart | Mode::HookLoop | Mode::NativeSidecars => "db",
            _ => "api",
        }
    }

    /// Waits until incarnation `attempt` of `db` runs and a hook or gate waits for `db`.
    pub(super) fn wait_until_db_is_awaited(&self, attempt: u32) {
        self.wait_for_event("db", attempt, "listening");
        if attempt > 0 && self.expected_order == Order::Lost {
            return;
        }
        if self.mode == Mode::NativeSidecars {
            // The kubelet itself waits.
            return sleep(Duration::from_secs(1));
        }
        if self.is_held() {
            return eventually("the kubelet holds api", 90, || self.waiter_message().contains(HELD).then_some(()));
        }
        eventually("a hook or gate waits for db", 90, || {
            let waits = match self.mode {
                Mode::PostStart => self.run.agent_pid("db", "post-start").is_some(),
                Mode::HookLoop => self.run.agent_pid("db", "poll").is_some(),
                _ => self.run.pid("api").is_some(),
            };
            let is_told = || self.mode.is_peer() || self.waiter_message().contains(": waiting for db=Ready");
            (waits && is_told()).then_some(())
        });
    }

    /// Returns true if the kubelet cannot create a waiting container.
    fn is_held(&self) -> bool {
        matches!(self.mode, Mode::Hold | Mode::Kruise)
    }

    /// Returns the termination message of the container that waits for `db`. In hold mode, returns the kubelet's
    /// reason.
    pub(super) fn waiter_message(&self) -> String {
        if self.is_held() {
            let status = self.run.watch.last().map(|seen| seen.kubelet_status("api").clone()).unwrap_or_default();
            return status["state"]["waiting"]["reason"].as_str().unwrap_or_default().to_owned();
        }
        self.run.termination_message(self.waiter()).unwrap_or_default()
    }

    /// Returns a description of each container start that came before a predecessor was Ready.
    pub(super) fn early_starts(&self) -> Vec<String> {
        let lives = self.logs.logs_with_ends();
        let mut early = Vec::new();
        for (container, before) in self.order {
            for life in lives.iter().filter(|life| life.name == *container) {
                let Some(start) = life.time_of("start") else { continue };
                if ready_time_at(&lives, before, start, self.window()).is_none() {
                    let text =
                        format!("{container} (incarnation {}) started while {before} was not Ready", life.attempt);
                    early.push(text);
                }
            }
        }
        early
    }

    /// Returns the time that may pass from the decision to start a container to its start, in milliseconds. If the
    /// kubelet creates the container after the decision, this takes time.
    fn window(&self) -> f64 {
        if self.is_held() || self.mode == Mode::NativeSidecars { 1500.0 } else { 0.0 }
    }

    /// Asserts for 2 s that no container starts too early. If the cell expects an early start, waits up to 40 s for it.
    pub(super) fn settle(&self) {
        self.settle_for(Duration::from_secs(2));
    }

    pub(super) fn settle_for(&self, time: Duration) {
        if self.expected_order == Order::Lost {
            let end = now() + Duration::from_secs(40);
            while now() < end && self.early_starts().is_empty() {
                sleep(Duration::from_millis(100));
            }
            return;
        }
        let end = now() + time;
        while now() < end {
            self.assert_order_kept();
            sleep(Duration::from_millis(100));
        }
    }

    fn assert_order_kept(&self) {
        let early = self.early_starts();
        assert!(early.is_empty(), "order broken: {}", early.join("; "));
    }

    /// Makes the current incarnation of `container` ready by a signal. Sends the signal again if the container
    /// restarts.
    pub(super) fn make_ready(&self, container: &str) {
        let mut signaled = None;
        eventually(&format!("{container} becomes ready on the signal"), 90, || {
            let life = self.logs.logs_with_ends().into_iter().rfind(|life| life.name == container)?;
            if life.time_of("listening").is_some() && life.end.is_none() && signaled != Some(life.attempt) {
                let namespace = &self.run.scene.namespace;
                let signal = ["kill-container", namespace, &self.run.pod, container, "USR2"];
                signaled = try_script(&signal, "").is_ok().then_some(life.attempt);
            }
            (life.end.is_none() && life.time_of("ready").is_some()).then_some(())
        });
    }

    /// Waits until the containers and the kubelet report that the Pod has started. If the cell expects that the order
    /// is kept, podgate must report the start too.
    pub(super) fn wait_until_up(&self) -> ObservedPod {
        let ready = eventually("the pod is up", 150, || {
            let up = self.run.watch.last().filter(ObservedPod::is_ready)?;
            let lives = self.logs.logs_with_ends();
            let last = |name: &str| lives.iter().rfind(|life| life.name == name);
            let ready =
                |name: &str| last(name).is_some_and(|life| life.time_of("ready").is_some() && life.end.is_none());
            ["db", "api", "web"].into_iter().all(ready).then_some(up)
        });
        // Without a sidecar, there are no annotations.
        if self.mode == Mode::Lean || self.mode.is_peer() {
            return ready;
        }
        let annotated = |seconds| {
            let end = now() + Duration::from_secs(seconds);
            while now() < end {
                if let Some(up) = self.run.watch.last().filter(ObservedPod::is_up) {
                    return Some(up);
                }
                sleep(Duration::from_millis(100));
            }
            None
        };
        match self.expected_order {
            Order::Lost => annotated(10).or_else(|| self.run.watch.last()).expect("the pod"),
            _ => annotated(60).unwrap_or_else(|| panic!("podgate did not report the start: {:#}", self.annotations())),
        }
    }

    fn annotations(&self) -> Value {
        self.run.watch.last().map_or(Value::Null, |seen| seen.pod["metadata"]["annotations"].clone())
    }

    /// Returns the longest time from Ready of the last predecessor to the start of a container, in milliseconds.
    /// Ignores starts before `since`.
    pub(super) fn longest_wait(&self, since: f64) -> f64 {
        let lives = self.logs.logs_with_ends();
        let waited = |name: &str| {
            let life = lives.iter().rfind(|life| life.name == name)?;
            let start = life.time_of("start").filter(|start| *start >= since)?;
            let before = self.order.iter().filter(|(container, _)| *container == name);
            let ready = before
                .filter_map(|(_, before)| ready_time_at(&lives, before, start, self.window()))
                .fold(f64::MIN, f64::max);
            Some(start - ready)
        };
        ["api", "web"].into_iter().filter_map(waited).fold(0.0, f64::max)
    }

    /// Makes `db` ready, and finishes. The waiting container's message becomes part of `Cell::user_sees`.
    pub(super) fn finish_with_message(&self, since: f64) -> Cell {
        let message = self.waiter_message();
        self.make_ready("db");
        self.finish(since, &if message.is_empty() { message } else { format!("`{message}`") })
    }

    /// Waits until the Pod has started after its fault, and returns the cell. `message` becomes part of
    /// `Cell::user_sees`.
    pub(super) fn finish(&self, since: f64, message: &str) -> Cell {
        let up = self.wait_until_up();
        self.cell(since, &[message.to_owned(), self.traces(&up)])
    }

    pub(super) fn cell(&self, since: f64, user_sees: &[String]) -> Cell {
        let early = self.early_starts();
        let kept = early.is_empty();
        if self.expected_order == Order::Kept {
            assert!(kept, "order broken: {}", early.join("; "));
        }
        let order = if kept { Order::Kept } else { Order::Lost };
        let waited = match kept {
            true => format!("{} after Ready", rounded_time(self.longest_wait(since))),
            false => "before Ready".to_owned(),
        };
        let user_sees: Vec<&str> = user_sees.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        Cell { order, waited, user_sees: user_sees.join("; ") }
    }

    /// Describes the traces of the fault in the Pod's status and events.
    pub(super) fn traces(&self, seen: &ObservedPod) -> String {
        let mut traces = Vec::new();
        let restarted = |name: &&str| seen.kubelet_status(name)["restartCount"].as_u64().is_some_and(|count| count > 0);
        let mut restarts: Vec<&str> = ["podgate", "db", "api", "web"].into_iter().filter(restarted).collect();
        if ["db", "api", "web"].iter().all(restarted) {
            traces.push("all containers restarted".to_owned());
            restarts.clear();
        }
        for container in restarts {
            let end = &seen.kubelet_status(container)["lastState"]["terminated"];
            let mut text = format!("`{container}` restarted");
            if let Some(reason) = end["reason"].as_str() {
                text.push_str(&format!(" (exit {}, {reason}", end["exitCode"]));
                if let Some(message) = end["message"].as_str() {
                    text.push_str(&format!(", `{}`", message.trim()));
                }
                text.push(')');
            }
            traces.push(text);
        }
        let stale_annotation = |name: &str| {
            seen.podgate_state(name)
                .filter(|state| *state != "Ready")
                .map(|state| format!("the annotation of `{name}` stays {state}"))
        };
        traces.extend(["db", "api", "web"].into_iter().filter_map(stale_annotation));
        let pod = format!("involvedObject.name={}", self.run.pod);
        let events = kubectl_json(&["-n", &self.run.scene.namespace, "get", "events", "--field-selector", &pod]);
        let is_relevant = |event: &&Value| event["type"] == "Warning" || event["reason"] == "SandboxChanged";
        let events = events["items"].as_array().into_iter().flatten().filter(is_relevant);
        // Ignore failed probes, because probes also fail without a fault.
        let reasons: BTreeSet<&str> =
            events.filter_map(|e| e["reason"].as_str()).filter(|r| *r != "Unhealthy").collect();
        if !reasons.is_empty() {
            traces.push(format!("events: {}", reasons.into_iter().collect::<Vec<_>>().join(", ")));
        }
        traces.join("; ")
    }
}

/// Returns the time at which the incarnation of `name` that ran at `moment` became ready. Returns `None` if this
/// incarnation became ready only after `moment`. An incarnation that has ended less than `window` milliseconds before
/// `moment` counts as running.
fn ready_time_at(lives: &[IncarnationLog], name: &str, moment: f64, window: f64) -> Option<f64> {
    let was_ready = |life: &&IncarnationLog| {
        life.name == name
            && life.time_of("ready").is_some_and(|ready| ready <= moment)
            && life.end.is_none_or(|end| end > moment - window)
    };
    lives.iter().rfind(was_ready)?.time_of("ready")
}

/// Injects `fault` while a hook or gate waits for `db`. Then makes `db` ready and returns the cell.
pub(super) fn while_db_is_awaited(setup: &CellSetup<'_>, flags: &[&str], fault: impl FnOnce(&FaultRun<'_>)) -> Cell {
    let fault_run = setup.begin_with_db_awaited(flags);
    let since = wall_ms();
    fault(&fault_run);
    fault_run.settle();
    fault_run.finish_with_message(since)
}
