//! The two tasks that talk to the API; a fault in one takes nobody with it. They end with the controller's `LocalSet`.

use crate::api::{self, ApiState, PodIdentity};
use crate::input::pod_facts::PodFacts;
use crate::output::metrics::Metrics;
use futures::FutureExt;
use podgate::core::annotations::Annotations;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tracing::error;

/// How long to leave before a task that has ended by a fault is begun anew.
const RESTART_DELAY: Duration = Duration::from_millis(100);

pub(crate) struct ApiTask {
    shared: Rc<ApiState>,
    desired: watch::Sender<Annotations>,
    pod_updates: mpsc::Sender<PodFacts>,
    watch_task: Option<JoinHandle<()>>,
}

impl ApiTask {
    /// Begins to keep the annotations; the watch is begun apart. What the watch shows goes to `pod_updates`.
    pub(crate) fn spawn(identity: PodIdentity, metrics: Rc<Metrics>, tell: mpsc::Sender<PodFacts>) -> ApiTask {
        let (desired, receiver) = watch::channel(Annotations::new());
        let shared = ApiState::new(identity, metrics);
        let keeper = Rc::clone(&shared);
        supervise(move || api::sync_annotations(Rc::clone(&keeper), receiver.clone()));
        ApiTask { shared, desired, pod_updates: tell, watch_task: None }
    }

    /// What the annotations are to be from now on.
    pub(crate) fn publish(&self, annotations: Annotations) {
        self.desired.send_replace(annotations);
    }

    /// Watches the pod, if it is not watched already.
    pub(crate) fn watch(&mut self) {
        if self.watch_task.is_none() {
            let (shared, tell) = (Rc::clone(&self.shared), self.pod_updates.clone());
            self.watch_task = Some(supervise(move || api::watch_pod(Rc::clone(&shared), tell.clone())));
        }
    }

    pub(crate) fn stop_watching(&mut self) {
        if let Some(task) = self.watch_task.take() {
            task.abort();
            self.shared.clear_failure(api::WATCH_REQUEST);
        }
    }
}

/// Runs a task for ever: one that ends by a fault is begun anew, and takes nobody with it.
fn supervise<F: Future<Output = ()> + 'static>(mut task: impl FnMut() -> F + 'static) -> JoinHandle<()> {
    tokio::task::spawn_local(async move {
        while AssertUnwindSafe(task()).catch_unwind().await.is_err() {
            error!("a fault in a task; begins it anew");
            tokio::time::sleep(RESTART_DELAY).await;
        }
    })
}
