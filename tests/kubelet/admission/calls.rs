//! Creates Pods continuously in a dry run. Each request passes through the API server and the webhook.

use crate::admission::workloads::ordered_pod;
use crate::cluster;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Creates Pods in a dry run in a thread, which ends when this value is dropped.
pub(crate) struct AdmissionCalls {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<CallResults>>,
}

#[derive(Default)]
pub(crate) struct CallResults {
    pub(crate) count: usize,
    /// Errors of failed calls, and Pods that were not injected.
    pub(crate) failures: Vec<String>,
}

impl AdmissionCalls {
    pub(crate) fn begin(namespace: &str) -> AdmissionCalls {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, namespace) = (Arc::clone(&stop), namespace.to_owned());
        let thread = std::thread::spawn(move || {
            let pod = ordered_pod("call").to_string();
            let call = ["kubectl", "-n", &namespace, "create", "--dry-run=server", "-o", "json", "-f", "-"];
            let mut results = CallResults::default();
            while !stopped.load(Ordering::Relaxed) {
                results.count += 1;
                match cluster::try_script(&call, &pod) {
                    Ok(pod) if pod.contains("podgate-controller") => {}
                    Ok(pod) => results.failures.push(format!("not injected: {pod}")),
                    Err(error) => results.failures.push(error),
                }
            }
            results
        });
        AdmissionCalls { stop, thread: Some(thread) }
    }

    pub(crate) fn end(mut self) -> CallResults {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("only `end` takes the thread");
        thread.join().expect("no panic in the thread")
    }
}

impl Drop for AdmissionCalls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
