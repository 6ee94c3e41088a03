//! The two tasks that talk to the API; a fault in one takes nobody with it. They end with the controller's `LocalSet`.

use crate::api::{self, Identity, Shared};
use crate::input::observe::Facts;
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
const RETRY: Duration = Duration::from_millis(100);

pub(crate) struct Guest {
    shared: Rc<Shared>,
    desired: watch::Sender<Annotations>,
    tell: mpsc::Sender<Facts>,
    watching: Option<JoinHandle<()>>,
}

impl Guest {
    /// Begins to keep the annotations; the watch is begun apart. What the watch shows goes to `tell`.
    pub(crate) fn invite(identity: Identity, metrics: Rc<Metrics>, tell: mpsc::Sender<Facts>) -> Guest {
        let (desired, receiver) = watch::channel(Annotations::new());
        let shared = Shared::new(identity, metrics);
        let keeper = Rc::clone(&shared);
        supervise(move || api::keep_annotations(Rc::clone(&keeper), receiver.clone()));
        Guest { shared, desired, tell, watching: None }
    }

    /// What the annotations are to be from now on.
    pub(crate) fn publish(&self, annotations: Annotations) {
        self.desired.send_replace(annotations);
    }

    /// Watches the pod, if it is not watched already.
    pub(crate) fn watch(&mut self) {
        if self.watching.is_none() {
            let (shared, tell) = (Rc::clone(&self.shared), self.tell.clone());
            self.watching = Some(supervise(move || api::watch_pod(Rc::clone(&shared), tell.clone())));
        }
    }

    pub(crate) fn stop_watching(&mut self) {
        if let Some(task) = self.watching.take() {
            task.abort();
            self.shared.forget(api::WATCH);
        }
    }
}

/// Runs a task for ever: one that ends by a fault is begun anew, and takes nobody with it.
fn supervise<F: Future<Output = ()> + 'static>(mut task: impl FnMut() -> F + 'static) -> JoinHandle<()> {
    tokio::task::spawn_local(async move {
        while AssertUnwindSafe(task()).catch_unwind().await.is_err() {
            error!("a fault in a task; begins it anew");
            tokio::time::sleep(RETRY).await;
        }
    })
}
