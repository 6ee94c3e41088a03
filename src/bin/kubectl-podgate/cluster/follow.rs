//! Follows one Pod until the receiver is dropped. Uses a watch if the user has the permission, otherwise polling.
//! Failed requests are retried with exponential back-off.

use crate::clock;
use crate::cluster::{Cluster, ClusterError};
use crate::pod::Pod;
use backon::{BackoffBuilder, ExponentialBuilder};
use futures::{StreamExt, pin_mut};
use kube::api::{WatchEvent, WatchParams};
use podgate::core::text::error_chain;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// Longest duration of one watch, in seconds. Limits the time until an unresponsive server is detected.
const WATCH_SECONDS: u32 = 50;
/// Time between two reads, if the user has no permission to watch.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Minimum duration of a watch that counts as a success and resets the back-off.
const BACKOFF_RESET_AFTER: Duration = Duration::from_secs(5);

/// Change of the followed Pod, or failure to read the Pod.
#[derive(Debug)]
pub(crate) enum PodEvent {
    Pod(Box<Pod>),
    Gone,
    /// The request failed and will be retried. Contains one line that describes the failure.
    RequestFailed(String),
}

fn backoff_delays() -> impl Iterator<Item = Duration> {
    let builder = ExponentialBuilder::default().with_min_delay(Duration::from_millis(200));
    builder.with_max_delay(Duration::from_secs(10)).without_max_times().with_jitter().build()
}

/// Follows the Pod `name` from resource version `version`. Sends each change until the Pod is deleted or the receiver
/// is dropped.
pub(crate) async fn follow(cluster: Cluster, name: String, version: Option<String>, sender: Sender<PodEvent>) {
    let (mut version, mut may_watch, mut delays) = (version, true, backoff_delays());
    loop {
        let since = clock::now();
        let ended = match version.take() {
            Some(version) if may_watch => {
                watch_pod(&cluster, &name, &version, &sender).await.map(|is_permitted| may_watch = is_permitted)
            }
            _ => match read_pod(&cluster, &name, &sender).await {
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
        if let Err(event) = ended {
            let is_gone = matches!(event, PodEvent::Gone);
            if sender.send(event).await.is_err() || is_gone {
                return;
            }
        }
        if since.elapsed() > BACKOFF_RESET_AFTER {
            delays = backoff_delays();
        }
        tokio::time::sleep(delays.next().unwrap_or(BACKOFF_RESET_AFTER)).await;
    }
}

/// Reads the Pod and sends the Pod to the receiver. Returns the Pod's resource version. On failure, returns the event
/// that the caller must send next.
async fn read_pod(cluster: &Cluster, name: &str, sender: &Sender<PodEvent>) -> Result<Option<String>, PodEvent> {
    let failed = |error| PodEvent::RequestFailed(cluster.pod_error(&error, name));
    let pod = cluster.wait_for(cluster.pods().get_opt(name)).await.map_err(failed)?.ok_or(PodEvent::Gone)?;
    let version = pod.metadata.resource_version.clone();
    sender.send(PodEvent::Pod(Box::new(pod))).await.map_err(|unsent| unsent.0)?;
    Ok(version)
}

/// Watches the Pod from `version` on and sends each change, until the server ends the watch. Returns false if the user
/// has no permission to watch the Pod, but may have permission to read the Pod. On failure, returns the event
/// that the caller must send next.
async fn watch_pod(cluster: &Cluster, name: &str, version: &str, sender: &Sender<PodEvent>) -> Result<bool, PodEvent> {
    let selector = format!("metadata.name={name}");
    let params = WatchParams::default().fields(&selector).timeout(WATCH_SECONDS);
    let pods = cluster.pods();
    let events = match cluster.wait_for(pods.watch(&params, version)).await {
        Ok(events) => events,
        Err(ClusterError::Rejected { code: 403, .. }) => return Ok(false),
        Err(error) => return Err(PodEvent::RequestFailed(cluster.pod_error(&error, name))),
    };
    pin_mut!(events);
    let limit = Duration::from_secs(WATCH_SECONDS.into()) + cluster.request_timeout;
    let silent = |_| PodEvent::RequestFailed(format!("no data from {} for {} s", cluster.server, limit.as_secs()));
    let broken = |error| PodEvent::RequestFailed(format!("watch failed: {}", error_chain(&error)));
    while let Some(event) = tokio::time::timeout(limit, events.next()).await.map_err(silent)? {
        match event.map_err(broken)? {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                sender.send(PodEvent::Pod(Box::new(pod))).await.map_err(|unsent| unsent.0)?;
            }
            WatchEvent::Deleted(_) => return Err(PodEvent::Gone),
            // Usually the resource version is too old. The caller then reads the Pod again.
            WatchEvent::Error(_) => break,
            WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(true)
}
