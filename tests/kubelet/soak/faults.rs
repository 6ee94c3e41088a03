//! Faults that strike at random times: one thread breaks the node and the API, another one breaks single Pods.

use super::plan::{Plan, Random};
use crate::clock::wall_ms;
use crate::cluster::{pid, try_script};
use crate::guarantees::sidecar::fill_file;
use crate::pod::STEP_FILE;
use podgate::core::names;
use podgate::order::declare::spec::SIDECAR_NAME;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// A fault, which lasts from `at` to `end`, in milliseconds since 1970.
#[derive(Debug, Clone)]
pub(super) struct Strike {
    pub(super) at: f64,
    /// End of the fault, or infinite until the fault is repaired.
    pub(super) end: f64,
    pub(super) kind: &'static str,
    /// The affected Pod, or `None` for a fault of the node or the API.
    pub(super) pod: Option<String>,
    pub(super) detail: String,
}

/// State that the threads of the soak test share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) namespace: String,
    pub(super) strikes: Mutex<Vec<Strike>>,
    /// Running Pods, with their plans.
    pub(super) targets: Mutex<Vec<(String, Plan)>>,
    /// True while faults may strike.
    pub(super) storm: AtomicBool,
    pub(super) ended: AtomicBool,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Records a fault, and runs `fault`, which may fail, for example because the container has just exited.
    fn strike(&self, kind: &'static str, pod: Option<&str>, detail: &str, fault: impl FnOnce() -> Result<(), String>) {
        let (pod, detail) = (pod.map(str::to_owned), detail.to_owned());
        let mut strikes = lock(&self.strikes);
        let index = strikes.len();
        strikes.push(Strike { at: wall_ms(), end: f64::INFINITY, kind, pod, detail });
        drop(strikes);
        let result = fault();
        let strike = &mut lock(&self.strikes)[index];
        strike.end = wall_ms();
        if let Err(error) = result {
            (strike.kind, strike.detail) = ("failed", format!("{kind}: {error}"));
        }
    }

    /// Returns the faults that affected `pod` at some time between `from` and `to`.
    pub(super) fn strikes_between(&self, pod: &str, from: f64, to: f64) -> Vec<Strike> {
        let affects = |strike: &&Strike| {
            strike.pod.as_deref().is_none_or(|name| name == pod) && strike.at <= to && strike.end >= from
        };
        lock(&self.strikes).iter().filter(affects).cloned().collect()
    }

    /// Returns the end of the last fault; infinite while a fault lasts.
    pub(super) fn last_end(&self) -> f64 {
        lock(&self.strikes).iter().map(|strike| strike.end).fold(0.0, f64::max)
    }
}

/// Calls `strike` repeatedly, with a random pause of up to `pause` seconds, until the run ends.
pub(super) fn run(shared: &Shared, mut random: Random, pause: usize, strike: fn(&Shared, &mut Random)) {
    while !shared.ended.load(Ordering::Relaxed) {
        let end = wall_ms() + random.time(1, pause).as_millis() as f64;
        while wall_ms() < end && !shared.ended.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(50));
        }
        if shared.storm.load(Ordering::Relaxed) {
            strike(shared, &mut random);
        }
    }
}

/// Breaks the kubelet, the runtime or the API.
pub(super) fn strike_node(shared: &Shared, random: &mut Random) {
    let script = |arguments: &[&str]| try_script(arguments, "").map(drop);
    let time = random.time(1, 12);
    let lasts = format!("for {:.1} s", time.as_secs_f64());
    match random.below(8) {
        0 => shared.strike("kubelet killed", None, "", || script(&["restart-kubelet", "--kill"])),
        1 => shared.strike("kubelet restarted", None, "", || script(&["restart-kubelet"])),
        2 => shared.strike("kubelet down", None, &lasts, || {
            script(&["stop-kubelet", "--kill"])?;
            sleep(time);
            repair(|| script(&["start-kubelet"]))
        }),
        3 => shared.strike("containerd restarted", None, "", || script(&["restart-containerd"])),
        4 => shared.strike("containerd killed", None, "", || script(&["restart-containerd", "--kill"])),
        5 => shared.strike("API server down", None, &lasts, || {
            script(&["stop-apiserver"])?;
            sleep(time);
            repair(|| script(&["start-apiserver"]))
        }),
        6 => shared.strike("API answers 429", None, &lasts, || api_fault(shared, TOO_MANY_REQUESTS, time)),
        _ => shared.strike("API answers 500", None, &lasts, || api_fault(shared, INTERNAL_ERROR, time)),
    }
}

/// Repeats a repair until it succeeds, at most 11 times, because the next faults need a working node and API.
fn repair(repair: impl Fn() -> Result<(), String>) -> Result<(), String> {
    for _ in 0..10 {
        if repair().is_ok() {
            return Ok(());
        }
        sleep(Duration::from_secs(1));
    }
    repair()
}

fn api_fault(shared: &Shared, objects: &str, time: Duration) -> Result<(), String> {
    let objects = objects.replace("NAMESPACE", &shared.namespace);
    try_script(&["kubectl", "apply", "-f", "-"], &objects)?;
    sleep(time);
    repair(|| try_script(&["kubectl", "delete", "--ignore-not-found", "-f", "-"], &objects).map(drop))
}

/// A priority level without a seat for the sidecars, so that the API server rejects all their requests.
const TOO_MANY_REQUESTS: &str = "
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: podgate-soak}
spec: {type: Limited, limited: {nominalConcurrencyShares: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: podgate-soak}
spec:
  priorityLevelConfiguration: {name: podgate-soak}
  matchingPrecedence: 100
  rules:
  - subjects: [{kind: Group, group: {name: 'system:serviceaccounts:NAMESPACE'}}]
    resourceRules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*'], clusterScope: true}]
";

/// A webhook that does not answer, so that the API server answers 500 to each patch of a sidecar.
const INTERNAL_ERROR: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: podgate-soak}
webhooks:
- name: soak.podgate.io
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 1
  clientConfig: {url: 'https://127.0.0.1:1/'}
  matchConditions:
  - {name: sidecar, expression: 'request.userInfo.username.startsWith(\"system:serviceaccount:NAMESPACE:\")'}
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [pods]}]
";

/// Breaks one Pod.
pub(super) fn strike_pod(shared: &Shared, random: &mut Random) {
    let (choice, number, which, time) = (random.below(10), random.below(997), random.below(997), random.time(2, 10));
    let lasts = format!("for {:.1} s", time.as_secs_f64());
    let mut targets = lock(&shared.targets).clone();
    // For a Pod that stays, only fill the volumes. Kill no process, because the test measures the processes' memory.
    targets.retain(|(_, plan)| choice > 7 || !plan.stays && (choice < 7 || plan.has_clock));
    // A Pod without a sidecar has only containers and a sandbox that can be killed.
    targets.retain(|(_, plan)| plan.mode.has_sidecar() || (2..=6).contains(&choice));
    if targets.is_empty() {
        return;
    }
    let (name, plan) = &targets[number % targets.len()];
    let (script, pod) = (|arguments: &[&str]| try_script(arguments, "").map(drop), Some(name.as_str()));
    let kill = |container: &str| script(&["kill-container", &shared.namespace, name, container]);
    let open = |directory: &str| -> Result<File, String> {
        let pid = pid(&shared.namespace, name, SIDECAR_NAME).ok_or("the sidecar does not run")?;
        // In the container, this path is always the volume, and never the node's disk.
        File::open(format!("/proc/{pid}/root{directory}")).map_err(|error| error.to_string())
    };
    match choice {
        0 | 1 => shared.strike("sidecar killed", pod, "", || kill(SIDECAR_NAME)),
        2..=4 => {
            let container = plan.containers[which % plan.containers.len()];
            shared.strike("container killed", pod, container, || kill(container));
        }
        5 | 6 => shared.strike("sandbox killed", pod, "", || script(&["kill-sandbox", &shared.namespace, name])),
        7 => shared.strike("clock stepped", pod, "", || step_clock(&open("/")?)),
        8 => shared.strike("board full", pod, &lasts, || fill(&open(names::BOARD_DIR)?, time)),
        _ => shared.strike("reports' volume full", pod, &lasts, || fill(&open(names::SELF_DIR)?, time)),
    }
}

fn path_in(directory: &File, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", directory.as_raw_fd())
}

/// Steps the clock of the Pod's sidecar and agents an hour forward, or back again.
fn step_clock(root: &File) -> Result<(), String> {
    let file = path_in(root, STEP_FILE);
    fs::remove_file(&file).or_else(|_| fs::write(&file, "")).map_err(|error| error.to_string())
}

/// Fills a volume for the given time.
fn fill(directory: &File, time: Duration) -> Result<(), String> {
    let file = path_in(directory, "filler");
    let filled = fill_file(Path::new(&file));
    sleep(time);
    let _ = fs::remove_file(&file);
    match filled {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        other => Err(format!("{other:?}")),
    }
}
