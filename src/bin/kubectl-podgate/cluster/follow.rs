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
const POLL: Duration = Duration::from_secs(2);
/// What lasted as long as this was good: the back-off begins anew.
const GOOD: Duration = Duration::from_secs(5);

/// What there is to hear.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The pod, as it is now.
    Pod(Box<Pod>),
    /// It is no more.
    Gone,
    /// The server can't be asked; in one line. It is asked again.
    Trouble(String),
}

/// Why one watch, or one read, has ended before its time.
enum End {
    Gone,
    /// Watching is not allowed; reading is.
    Forbidden,
    /// Nobody listens any more.
    Unheard,
    Trouble(String),
}

fn pauses() -> impl Iterator<Item = Duration> {
    let builder = ExponentialBuilder::default().with_min_delay(Duration::from_millis(200));
    builder.with_max_delay(Duration::from_secs(10)).without_max_times().with_jitter().build()
}

/// Follows the pod `name`, last read at the version `version`, and tells of each change until it is gone or nobody listens.
pub(crate) async fn follow(cluster: Cluster, name: String, version: Option<String>, tell: Sender<Heard>) {
    let (mut version, mut may_watch, mut pause) = (version, true, pauses());
    loop {
        let since = clock::now();
        let ended = match version.take() {
            Some(version) if may_watch => watch(&cluster, &name, &version, &tell).await,
            _ => match read(&cluster, &name, &tell).await {
                Ok(found) => {
                    version = found;
                    if !may_watch {
                        tokio::time::sleep(POLL).await;
                    }
                    continue;
                }
                Err(end) => Err(end),
            },
        };
        match ended {
            Ok(()) => {}
            Err(End::Forbidden) => may_watch = false,
            Err(End::Unheard) => return,
            Err(End::Gone) => return drop(tell.send(Heard::Gone).await),
            Err(End::Trouble(text)) => {
                if tell.send(Heard::Trouble(text)).await.is_err() {
                    return;
                }
            }
        }
        if since.elapsed() > GOOD {
            pause = pauses();
        }
        tokio::time::sleep(pause.next().unwrap_or(GOOD)).await;
    }
}

/// Reads the pod and tells of it; gives its version.
async fn read(cluster: &Cluster, name: &str, tell: &Sender<Heard>) -> Result<Option<String>, End> {
    let answer = cluster.in_time(cluster.pods().get_opt(name)).await.map_err(End::Trouble)?;
    let pod = answer.map_err(|error| End::Trouble(cluster.explain(&error, name)))?.ok_or(End::Gone)?;
    let version = pod.metadata.resource_version.clone();
    tell.send(Heard::Pod(Box::new(pod))).await.map_err(|_| End::Unheard)?;
    Ok(version)
}

/// Watches the pod from `version` on and tells of each change, until the server ends the watch, as it does with all.
async fn watch(cluster: &Cluster, name: &str, version: &str, tell: &Sender<Heard>) -> Result<(), End> {
    let selector = format!("metadata.name={name}");
    let params = WatchParams::default().fields(&selector).timeout(WATCH_SECONDS);
    let pods = cluster.pods();
    let events = match cluster.in_time(pods.watch(&params, version)).await.map_err(End::Trouble)? {
        Err(kube::Error::Api(status)) if status.code == 403 => return Err(End::Forbidden),
        answer => answer.map_err(|error| End::Trouble(cluster.explain(&error, name)))?,
    };
    pin_mut!(events);
    let limit = Duration::from_secs(WATCH_SECONDS.into()) + cluster.limit;
    let silent = |_| End::Trouble(format!("no word from {} for long", cluster.server));
    let broken = |error| End::Trouble(format!("the watch broke off: {}", error_chain(&error)));
    while let Some(event) = tokio::time::timeout(limit, events.next()).await.map_err(silent)? {
        match event.map_err(broken)? {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                tell.send(Heard::Pod(Box::new(pod))).await.map_err(|_| End::Unheard)?;
            }
            WatchEvent::Deleted(_) => return Err(End::Gone),
            // The version is too old, mostly: it is read anew.
            WatchEvent::Error(_) => break,
            WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(())
}
