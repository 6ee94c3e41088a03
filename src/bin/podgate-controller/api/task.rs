//! Runs the two tasks that use the API. A panic in a task restarts only that task. Both tasks end with the sidecar's
//! `LocalSet`.

use crate::api::{self, SharedApiState};
use crate::args::PodIdentity;
use crate::clock::now;
use crate::input::pod_facts::PodFacts;
use crate::output::metrics::Metrics;
use crate::rate_limit::panic_restart_delay;
use futures::FutureExt;
use podgate::core::annotations::Annotations;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tracing::error;

pub(crate) struct ApiTask {
    shared: Rc<SharedApiState>,
    desired: watch::Sender<Annotations>,
    pod_updates: mpsc::Sender<PodFacts>,
    watch_task: Option<JoinHandle<()>>,
}

impl ApiTask {
    /// Starts the task that syncs annotations. [`start_watching`](ApiTask::start_watching) starts the other task, which
    /// sends to `pod_updates`.
    pub(crate) fn spawn(identity: PodIdentity, metrics: Rc<Metrics>, pod_updates: mpsc::Sender<PodFacts>) -> ApiTask {
        let (desired, receiver) = watch::channel(Annotations::new());
        let shared = Rc::new(SharedApiState { identity, metrics, ..SharedApiState::default() });
        let state = Rc::clone(&shared);
        supervise(move || api::sync_annotations(Rc::clone(&state), receiver.clone()));
        ApiTask { shared, desired, pod_updates, watch_task: None }
    }

    /// Publishes `annotations`. With `may_have_held_container`, patches that release no container are collected for
    /// longer, because each sync of the Pod delays the release of a held container.
    pub(crate) fn publish(&self, annotations: Annotations, may_have_held_container: bool) {
        self.shared.may_have_held_container.set(may_have_held_container);
        self.desired.send_replace(annotations);
    }

    pub(crate) fn start_watching(&mut self) {
        if self.watch_task.is_none() {
            let (shared, updates) = (Rc::clone(&self.shared), self.pod_updates.clone());
            self.watch_task = Some(supervise(move || api::watch_pod(Rc::clone(&shared), updates.clone())));
        }
    }

    /// Returns true if the last watch of the Pod has failed.
    pub(crate) fn is_watch_failing(&self) -> bool {
        self.shared.failing_requests.borrow().contains(api::WATCH_REQUEST_NAME)
    }

    pub(crate) fn stop_watching(&mut self) {
        if let Some(task) = self.watch_task.take() {
            task.abort();
            self.shared.failing_requests.borrow_mut().remove(api::WATCH_REQUEST_NAME);
        }
    }
}

/// Runs a task and restarts it whenever it panics.
fn supervise<F: Future + 'static>(mut task: impl FnMut() -> F + 'static) -> JoinHandle<()> {
    tokio::task::spawn_local(async move {
        let (mut delay, mut since) = (Duration::ZERO, now());
        while AssertUnwindSafe(task()).catch_unwind().await.is_err() {
            error!("a task that uses the API panicked; restarting the task");
            delay = panic_restart_delay(delay, now() - since);
            tokio::time::sleep(delay).await;
            since = now();
        }
    })
}
