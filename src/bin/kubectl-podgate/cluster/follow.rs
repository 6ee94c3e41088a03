//! Follows one pod for as long as somebody listens: watched where that is allowed, else read again and again. An API server that
//! does not answer is asked anew, less and less often.

use crate::clock;
use crate::cluster::Cluster;
use crate::pod::Pod;
use backon::{BackoffBuilder, ExponentialBuilder};
use futures::{StreamExt, pin_mut};
use kube::api::{WatchEvent, WatchParams};
use podgate::core::text::error_chain;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// How long one watch lasts at most, in seconds: a server that is gone without a word is missed no later.
const WATCH_SECONDS: u32 = 50;
/// Between two reads where watching is not allowed.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// What lasted as long as this was good: the back-off begins anew.
const BACKOFF_RESET_AFTER: Duration = Duration::from_secs(5);

/// What there is to hear.
#[derive(Debug)]
pub(crate) enum PodEvent {
    /// The pod, as it is now.
    Pod(Box<Pod>),
    /// It is no more.
    Gone,
    /// The server can't be asked; in one line. It is asked again.
    RequestFailed(String),
}

/// Why one watch, or one read, has ended before its time.
enum EndReason {
    Gone,
    /// Watching is not allowed; reading is.
    WatchForbidden,
    /// Nobody listens any more.
    ReceiverDropped,
    RequestFailed(String),
}

fn backoff_delays() -> impl Iterator<Item = Duration> {
    let builder = ExponentialBuilder::default().with_min_delay(Duration::from_millis(200));
    builder.with_max_delay(Duration::from_secs(10)).without_max_times().with_jitter().build()
}

/// Follows the pod `name`, last read at the version `version`, and tells of each change until it is gone or nobody listens.
pub(crate) async fn follow(cluster: Cluster, name: String, version: Option<String>, tell: Sender<PodEvent>) {
    let (mut version, mut may_watch, mut pause) = (version, true, backoff_delays());
    loop {
        let since = clock::monotonic_time();
        let ended = match version.take() {
            Some(version) if may_watch => watch_pod(&cluster, &name, &version, &tell).await,
            _ => match read_pod(&cluster, &name, &tell).await {
                Ok(found) => {
                    version = found;
                    if !may_watch {
                        tokio::time::sleep(POLL_INTERVAL).await;
                    }
                    continue;
                }
                Err(end) => Err(end),
            },
        };
        match ended {
            Ok(()) => {}
            Err(EndReason::WatchForbidden) => may_watch = false,
            Err(EndReason::ReceiverDropped) => return,
            Err(EndReason::Gone) => return drop(tell.send(PodEvent::Gone).await),
            Err(EndReason::RequestFailed(text)) => {
                if tell.send(PodEvent::RequestFailed(text)).await.is_err() {
                    return;
                }
            }
        }
        if since.elapsed() > BACKOFF_RESET_AFTER {
            pause = backoff_delays();
        }
        tokio::time::sleep(pause.next().unwrap_or(BACKOFF_RESET_AFTER)).await;
    }
}

/// Reads the pod and tells of it; gives its version.
async fn read_pod(cluster: &Cluster, name: &str, tell: &Sender<PodEvent>) -> Result<Option<String>, EndReason> {
    let answer = cluster.with_timeout(cluster.pods().get_opt(name)).await.map_err(EndReason::RequestFailed)?;
    let pod = answer
        .map_err(|error| EndReason::RequestFailed(cluster.error_message(&error, name)))?
        .ok_or(EndReason::Gone)?;
    let version = pod.metadata.resource_version.clone();
    tell.send(PodEvent::Pod(Box::new(pod))).await.map_err(|_| EndReason::ReceiverDropped)?;
    Ok(version)
}

/// Watches the pod from `version` on and tells of each change, until the server ends the watch, as it does with all.
async fn watch_pod(cluster: &Cluster, name: &str, version: &str, tell: &Sender<PodEvent>) -> Result<(), EndReason> {
    let selector = format!("metadata.name={name}");
    let params = WatchParams::default().fields(&selector).timeout(WATCH_SECONDS);
    let pods = cluster.pods();
    let events = match cluster.with_timeout(pods.watch(&params, version)).await.map_err(EndReason::RequestFailed)? {
        Err(kube::Error::Api(status)) if status.code == 403 => return Err(EndReason::WatchForbidden),
        answer => answer.map_err(|error| EndReason::RequestFailed(cluster.error_message(&error, name)))?,
    };
    pin_mut!(events);
    let limit = Duration::from_secs(WATCH_SECONDS.into()) + cluster.request_timeout;
    let silent = |_| EndReason::RequestFailed(format!("no word from {} for long", cluster.server));
    let broken = |error| EndReason::RequestFailed(format!("the watch broke off: {}", error_chain(&error)));
    while let Some(event) = tokio::time::timeout(limit, events.next()).await.map_err(silent)? {
        match event.map_err(broken)? {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                tell.send(PodEvent::Pod(Box::new(pod))).await.map_err(|_| EndReason::ReceiverDropped)?;
            }
            WatchEvent::Deleted(_) => return Err(EndReason::Gone),
            // The version is too old, mostly: it is read anew.
            WatchEvent::Error(_) => break,
            WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(())
}
