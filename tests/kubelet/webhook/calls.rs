//! Pods that are asked for all the time, by dry run: each goes through the API server and the webhook.

use crate::cluster;
use crate::webhook::workloads::labelled;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub(crate) struct Calls {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Done>>,
}

#[derive(Default)]
pub(crate) struct Done {
    pub(crate) count: usize,
    /// What went wrong, each.
    pub(crate) failures: Vec<String>,
}

impl Calls {
    pub(crate) fn begin(namespace: &str) -> Calls {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, namespace) = (Arc::clone(&stop), namespace.to_owned());
        let thread = std::thread::spawn(move || {
            let pod = labelled("call").to_string();
            let call = ["kubectl", "-n", &namespace, "create", "--dry-run=server", "-o", "json", "-f", "-"];
            let mut done = Done::default();
            while !stopped.load(Ordering::Relaxed) {
                done.count += 1;
                match cluster::attempt(&call, &pod) {
                    Ok(pod) if pod.contains("podgate-controller") => {}
                    Ok(pod) => done.failures.push(format!("not injected: {pod}")),
                    Err(error) => done.failures.push(error),
                }
            }
            done
        });
        Calls { stop, thread: Some(thread) }
    }

    pub(crate) fn end(mut self) -> Done {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("ended once");
        thread.join().expect("it does not panic")
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
