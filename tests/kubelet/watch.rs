//! A watch on one Pod. Records each state with the time at which the event arrived, so recorded times are never too
//! early.

use crate::clock::{eventually, wall_ms};
use crate::cluster::script_command;
use podgate::core::names;
use podgate::core::state::State;
use serde_json::Value;
use std::io::BufReader;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// One recorded state of the Pod.
#[derive(Debug, Clone)]
pub(crate) struct ObservedPod {
    pub(crate) at: f64,
    pub(crate) pod: Value,
}

impl ObservedPod {
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.pod["metadata"]["annotations"][key].as_str()
    }

    /// Returns the state of `container` in podgate's annotation.
    pub(crate) fn podgate_state(&self, container: &str) -> Option<&str> {
        self.annotation(&format!("status.podgate.io/{container}"))
    }

    /// Returns the kubelet's status of `container`, or null if the kubelet has not reported one yet.
    pub(crate) fn kubelet_status(&self, container: &str) -> &Value {
        let lists = ["containerStatuses", "initContainerStatuses"].map(|list| &self.pod["status"][list]);
        let mut all = lists.into_iter().filter_map(Value::as_array).flatten();
        all.find(|status| status["name"] == container).unwrap_or(&Value::Null)
    }

    /// Returns true if the kubelet reports the Pod as Ready.
    pub(crate) fn is_ready(&self) -> bool {
        let conditions = self.pod["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
    }

    /// Returns true if the kubelet reports the Pod as Ready and podgate reports every container as Ready. podgate's
    /// annotations lag by up to half a second.
    pub(crate) fn is_up(&self) -> bool {
        let annotations = self.pod["metadata"]["annotations"].as_object();
        let mut states = annotations.into_iter().flatten().filter(|(key, _)| key.starts_with(names::STATUS_KEY_PREFIX));
        self.is_ready()
            && self.annotation(names::STAGE_KEY) == Some("started")
            && states.all(|(_, state)| *state == State::Ready.as_str())
    }
}

/// Watches one Pod in a thread, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct PodWatch {
    observed: Arc<Mutex<Vec<ObservedPod>>>,
    child: Arc<Mutex<Option<Child>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PodWatch {
    pub(crate) fn new(namespace: &str, pod: &str) -> PodWatch {
        let (observed, child, stop) =
            (Arc::<Mutex<Vec<ObservedPod>>>::default(), Arc::<Mutex<Option<Child>>>::default(), Arc::default());
        let arguments = [
            "kubectl",
            "-n",
            namespace,
            "get",
            "pods",
            "--field-selector",
            &format!("metadata.name={pod}"),
            "-w",
            "--output-watch-events",
            "-o",
            "json",
        ]
        .map(str::to_owned);
        let thread = {
            let (observed, child, stop) = (Arc::clone(&observed), Arc::clone(&child), Arc::clone(&stop));
            spawn(move || follow(&arguments, &observed, &child, &stop))
        };
        PodWatch { observed, child, stop, thread: Some(thread) }
    }

    /// Returns all states recorded so far, oldest first.
    pub(crate) fn history(&self) -> Vec<ObservedPod> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until a recorded state passes `test`, and returns the first such state. Skips the first `from` states.
    pub(crate) fn wait_from(
        &self,
        from: usize,
        what: &str,
        seconds: u64,
        test: impl Fn(&ObservedPod) -> bool,
    ) -> ObservedPod {
        let mut next = from;
        eventually(what, seconds, || {
            let all = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
            let found = all.iter().skip(next).find(|seen| test(seen)).cloned();
            next = all.len().max(from);
            found
        })
    }

    pub(crate) fn wait_until(&self, what: &str, seconds: u64, test: impl Fn(&ObservedPod) -> bool) -> ObservedPod {
        self.wait_from(0, what, seconds, test)
    }

    pub(crate) fn last(&self) -> Option<ObservedPod> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(child) = self.child.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            let _ = child.kill();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts a new watch whenever one ends, for example because the API server stopped.
fn follow(arguments: &[String], observed: &Mutex<Vec<ObservedPod>>, slot: &Mutex<Option<Child>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        // The script replaces its own process with kubectl, so killing the child ends kubectl.
        let child =
            script_command().args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("kubectl can be started");
        let output = child.stdout.take().expect("the output is a pipe");
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        if stop.load(Ordering::Relaxed) {
            // The watch was dropped after the check above. `drop` did not kill this child, so kill the child here.
            if let Some(child) = slot.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                let _ = child.kill();
            }
        }
        for event in serde_json::Deserializer::from_reader(BufReader::new(output)).into_iter::<Value>() {
            let Ok(mut event) = event else { break };
            if event["type"] != "ERROR" {
                let moment = ObservedPod { at: wall_ms(), pod: event["object"].take() };
                observed.lock().unwrap_or_else(PoisonError::into_inner).push(moment);
            }
        }
        if let Some(mut child) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if !stop.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(200));
        }
    }
}
