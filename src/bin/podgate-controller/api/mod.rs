//! The Kubernetes API, a guest: watched and patched by two tasks that never hold up the board. Forbidden, unreachable or slow,
//! it is complained of once, and asked again later.

mod client;
pub(crate) mod guest;

use crate::clock::now;
use crate::input::observe::{Facts, Pod, observe};
use crate::output::metrics::Metrics;
use backon::{BackoffBuilder, ExponentialBuilder};
use futures::StreamExt;
use k8s_openapi::api::core::v1;
use kube::api::{Api, ApiResource, Patch, PatchParams, WatchEvent, WatchParams};
use podgate::core::annotations::Annotations;
use podgate::core::names;
use podgate::core::snapshot::is_ours;
use podgate::core::state::State;
use podgate::core::text::error_chain;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tracing::{info, warn};

/// Changes of a moment go out as one patch. Between a Ready and the next container's start lie 0.1 to 0.3 s.
const MOMENT: Duration = Duration::from_millis(400);
/// That a container has started tells little by itself: it waits this long for company.
const MINOR_MOMENT: Duration = Duration::from_secs(5);
/// No request takes longer; the watch aside, which the server ends.
const PATCH_LIMIT: Duration = Duration::from_secs(10);
/// How long one watch lasts at most, in seconds.
const WATCH_SECONDS: u32 = 290;
/// Name of the watch among what can fail.
pub(crate) const WATCH: &str = "watch";
/// A watch that lasted as long as this was a good one: the back-off begins anew.
const GOOD_WATCH: Duration = Duration::from_secs(5);

/// Which pod is ours.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: Option<String>,
    /// The controller's own container.
    pub(crate) container: String,
}

/// What both tasks share.
pub(crate) struct Shared {
    pub(crate) identity: Identity,
    pub(crate) metrics: Rc<Metrics>,
    trouble: RefCell<BTreeSet<&'static str>>,
    actual: RefCell<Actual>,
    /// Told when `actual` has changed.
    moved: Notify,
}

/// Our annotations as the API has them.
#[derive(Debug, Default)]
struct Actual {
    annotations: Option<Annotations>,
    version: Option<u64>,
}

impl Shared {
    pub(crate) fn new(identity: Identity, metrics: Rc<Metrics>) -> Rc<Shared> {
        Rc::new(Shared {
            identity,
            metrics,
            trouble: RefCell::default(),
            actual: RefCell::default(),
            moved: Notify::new(),
        })
    }

    /// One warning when the first thing fails, and one line when nothing fails any more.
    fn complain(&self, what: &'static str, error: &str) {
        let first = self.trouble.borrow().is_empty();
        self.trouble.borrow_mut().insert(what);
        if first {
            warn!(request = what, error, "the API does not serve us; goes on by the board alone, and asks again later");
        }
    }

    fn works(&self, what: &'static str) {
        if self.trouble.borrow_mut().remove(what) && self.trouble.borrow().is_empty() {
            info!("the API serves us again");
        }
    }

    /// Nobody asks for this any more, so its failing is no trouble.
    pub(crate) fn forget(&self, what: &'static str) {
        self.trouble.borrow_mut().remove(what);
    }

    /// Takes in what the API shows; an older version than what we know already says nothing.
    fn learn(&self, annotations: Annotations, version: Option<u64>) {
        let mut actual = self.actual.borrow_mut();
        if let (Some(known), Some(version)) = (actual.version, version)
            && version < known
        {
            return;
        }
        let ours: Annotations = annotations.into_iter().filter(|(key, _)| is_ours(key)).collect();
        *actual = Actual { annotations: Some(ours), version };
        self.moved.notify_one();
    }

    fn connect(&self) -> Result<Api<Pod>, String> {
        let client = client::in_cluster().map_err(|error| error_chain(&*error))?;
        let pods = ApiResource::erase::<v1::Pod>(&());
        Ok(Api::namespaced_with(client, &self.identity.namespace, &pods))
    }
}

fn pauses() -> impl Iterator<Item = Duration> {
    let builder = ExponentialBuilder::default().with_min_delay(Duration::from_millis(200));
    builder.with_max_delay(Duration::from_secs(30)).without_max_times().with_jitter().build()
}

fn say(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        other => error_chain(other),
    }
}

/// Watches our pod for ever, and hands on what it shows.
///
/// From version 0 with a field selector and without bookmarks: that needs the smallest rights, starts with the pod as it is, and
/// is served by every API server.
pub(crate) async fn watch_pod(shared: Rc<Shared>, heard: mpsc::Sender<Facts>) {
    let mut pause = pauses();
    loop {
        let since = now();
        if let Err(error) = watch_once(&shared, &heard).await {
            shared.complain(WATCH, &error);
        }
        if since.elapsed() > GOOD_WATCH {
            pause = pauses();
        }
        tokio::time::sleep(pause.next().unwrap_or(GOOD_WATCH)).await;
    }
}

async fn watch_once(shared: &Shared, heard: &mpsc::Sender<Facts>) -> Result<(), String> {
    let api = shared.connect()?;
    let own = &shared.identity;
    let selector = format!("metadata.name={}", own.name);
    let params = WatchParams::default().fields(&selector).timeout(WATCH_SECONDS).disable_bookmarks();
    let events = tokio::time::timeout(PATCH_LIMIT, api.watch(&params, "0")).await;
    let mut events = pin!(events.map_err(|_| "no answer in time")?.map_err(|error| say(&error))?);
    // A server that is gone without a word would be listened to for ever.
    let limit = Duration::from_secs(u64::from(WATCH_SECONDS)) + PATCH_LIMIT;
    while let Some(event) = tokio::time::timeout(limit, events.next()).await.map_err(|_| "silent for long")? {
        match event.map_err(|error| say(&error))? {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                shared.works(WATCH);
                let facts = observe(&pod, &own.container);
                if own.uid.as_ref().is_some_and(|uid| *uid != facts.uid) {
                    continue;
                }
                shared.learn(facts.annotations.clone(), facts.resource_version);
                if heard.send(facts).await.is_err() {
                    return Ok(());
                }
            }
            WatchEvent::Error(status) => return Err(format!("{} {}", status.code, status.message)),
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(())
}

/// Keeps our annotations at the API as `desired` says, for ever: what is missing is added, what is stale or forged is taken back.
pub(crate) async fn keep_annotations(shared: Rc<Shared>, mut desired: watch::Receiver<Annotations>) {
    let mut pause = pauses();
    let mut api = None;
    loop {
        if difference(&shared, &desired.borrow_and_update()).is_none() {
            // Nothing to do: let go of the connection until there is.
            tokio::select! {
                changed = desired.changed() => if changed.is_err() { return },
                () = shared.moved.notified() => {}
                () = tokio::time::sleep(PATCH_LIMIT), if api.is_some() => api = None,
            }
            continue;
        }
        let Some(patch) = gather(&shared, &mut desired).await else { continue };
        let sent = async {
            let connected = api.take().map_or_else(|| shared.connect(), Ok)?;
            send(&shared, &connected, patch).await.map(|()| connected)
        };
        match sent.await {
            Ok(connected) => {
                api = Some(connected);
                shared.metrics.patched("ok");
                shared.works("patch");
                pause = pauses();
            }
            Err(error) => {
                shared.metrics.patched("error");
                shared.complain("patch", &error);
                tokio::time::sleep(pause.next().unwrap_or(PATCH_LIMIT)).await;
            }
        }
    }
}

/// Waits for the moment to pass, and gives all that has changed by then; `None` if that is nothing any more.
async fn gather(shared: &Shared, desired: &mut watch::Receiver<Annotations>) -> Option<Value> {
    let first = now();
    let mut until = first + MINOR_MOMENT;
    loop {
        let patch = difference(shared, &desired.borrow_and_update())?;
        if !is_minor(&patch) {
            until = until.min(now() + MOMENT);
        }
        let more = tokio::time::timeout_at(until.into(), desired.changed()).await;
        if more.is_err() || now() >= until {
            return difference(shared, &desired.borrow());
        }
        // What comes later does not put off what is due.
        until = until.min(first + MINOR_MOMENT);
    }
}

/// Whether a patch says no more than that containers have started.
fn is_minor(patch: &Value) -> bool {
    let started = Value::from(State::Started.as_str());
    let entries = patch.as_object();
    entries.into_iter().flatten().all(|(key, value)| match key.as_str() {
        names::SANDBOX_REVISION | names::SANDBOX_SEEN | names::SANDBOX_TIMES => true,
        key => key.starts_with(names::STATUS_PREFIX) && *value == started,
    })
}

async fn send(shared: &Shared, api: &Api<Pod>, annotations: Value) -> Result<(), String> {
    let mut metadata = json!({ "annotations": annotations });
    if let Some(uid) = &shared.identity.uid {
        // A pod of the same name that has taken our place is not ours to write to.
        metadata["uid"] = json!(uid);
    }
    let (params, patch) = (PatchParams::default(), Patch::Merge(json!({ "metadata": metadata })));
    let request = api.patch_metadata(&shared.identity.name, &params, &patch);
    let answer = tokio::time::timeout(PATCH_LIMIT, request).await.map_err(|_| "no answer in time")?;
    let metadata = answer.map_err(|error| say(&error))?.metadata;
    let version = metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
    shared.learn(metadata.annotations.unwrap_or_default(), version);
    Ok(())
}

/// What a merge patch must hold; `None` if the API has what we want.
fn difference(shared: &Shared, desired: &Annotations) -> Option<Value> {
    if desired.is_empty() {
        return None;
    }
    let actual = shared.actual.borrow();
    let known = actual.annotations.as_ref();
    let mut patch = serde_json::Map::new();
    for (key, value) in desired {
        if known.and_then(|known| known.get(key)) != Some(value) {
            patch.insert(key.clone(), json!(value));
        }
    }
    let stale = known.into_iter().flat_map(Annotations::keys).filter(|key| !desired.contains_key(*key));
    patch.extend(stale.map(|key| (key.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Rc<Shared> {
        let identity = Identity { name: "p".into(), namespace: "n".into(), uid: None, container: "podgate".into() };
        Shared::new(identity, Rc::default())
    }

    fn map(pairs: &[(&str, &str)]) -> Annotations {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn patches_what_differs_and_takes_back_what_is_forged() {
        let shared = shared();
        let desired = map(&[("status.podgate.io/db", "Waiting")]);
        assert_eq!(difference(&shared, &desired), Some(json!({"status.podgate.io/db": "Waiting"})));
        shared
            .learn(map(&[("status.podgate.io/db", "Ready"), ("status.podgate.io/x", "Ready"), ("a/b", "c")]), Some(5));
        let patch = json!({"status.podgate.io/db": "Waiting", "status.podgate.io/x": null});
        assert_eq!(difference(&shared, &desired), Some(patch));
        shared.learn(desired.clone(), Some(6));
        assert_eq!(difference(&shared, &desired), None);
    }

    #[test]
    fn that_a_container_has_started_waits_for_company() {
        let minor = json!({"status.podgate.io/db": "Started", "sandbox.podgate.io/revision": "2", "sandbox.podgate.io/seen": "x",
                           "sandbox.podgate.io/times": "1,db=started+0"});
        assert!(is_minor(&minor));
        for (key, value) in [
            ("status.podgate.io/db", json!("Ready")),
            ("status.podgate.io/x", Value::Null),
            ("sandbox.podgate.io/phase", json!("started")),
            ("sandbox.podgate.io/epoch", json!("e")),
        ] {
            let mut patch = minor.clone();
            patch[key] = value;
            assert!(!is_minor(&patch), "{key}");
        }
    }

    #[test]
    fn an_older_view_of_the_pod_undoes_nothing() {
        let shared = shared();
        let desired = map(&[("status.podgate.io/db", "Ready")]);
        shared.learn(desired.clone(), Some(6));
        shared.learn(map(&[("status.podgate.io/db", "Waiting")]), Some(5));
        assert_eq!(difference(&shared, &desired), None);
    }
}
