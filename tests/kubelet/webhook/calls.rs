//! Pods that are asked for all the time, by dry run: each goes through the API server and the webhook.

use crate::cluster;
use crate::webhook::workloads::labeled_pod;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub(crate) struct AdmissionCalls {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<CallResults>>,
}

#[derive(Default)]
pub(crate) struct CallResults {
    pub(crate) count: usize,
    /// What went wrong, each.
    pub(crate) failures: Vec<String>,
}

impl AdmissionCalls {
    pub(crate) fn begin(namespace: &str) -> AdmissionCalls {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, namespace) = (Arc::clone(&stop), namespace.to_owned());
        let thread = std::thread::spawn(move || {
            let pod = labeled_pod("call").to_string();
            let call = ["kubectl", "-n", &namespace, "create", "--dry-run=server", "-o", "json", "-f", "-"];
            let mut done = CallResults::default();
            while !stopped.load(Ordering::Relaxed) {
                done.count += 1;
                match cluster::try_script(&call, &pod) {
                    Ok(pod) if pod.contains("podgate-controller") => {}
                    Ok(pod) => done.failures.push(format!("not injected: {pod}")),
                    Err(error) => done.failures.push(error),
                }
            }
            done
        });
        AdmissionCalls { stop, thread: Some(thread) }
    }

    pub(crate) fn end(mut self) -> CallResults {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("ended once");
        thread.join().expect("it does not panic")
    }
}

impl Drop for AdmissionCalls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
