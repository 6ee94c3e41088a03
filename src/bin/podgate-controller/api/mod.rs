//! The Kubernetes API, a guest: watched and patched by two tasks that never hold up the board. Forbidden, unreachable or slow,
//! it is complained of once, and asked again later.

mod client;
pub(crate) mod task;

use crate::clock::now;
use crate::input::pod_facts::{Pod, PodFacts, extract_facts};
use crate::output::metrics::Metrics;
use backon::{BackoffBuilder, ExponentialBuilder};
use futures::StreamExt;
use k8s_openapi::api::core::v1;
use kube::api::{Api, ApiResource, Patch, PatchParams, WatchEvent, WatchParams};
use podgate::core::annotations::Annotations;
use podgate::core::names;
use podgate::core::snapshot::is_podgate_key;
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
const BATCH_WINDOW: Duration = Duration::from_millis(400);
/// That a container has started tells little by itself: it waits this long for company.
const MINOR_BATCH_WINDOW: Duration = Duration::from_secs(5);
/// No request takes longer; the watch aside, which the server ends.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one watch lasts at most, in seconds.
const WATCH_TIMEOUT_SECONDS: u32 = 290;
/// Name of the watch among what can fail.
pub(crate) const WATCH_REQUEST: &str = "watch";
/// A watch that lasted as long as this was a good one: the back-off begins anew.
const STABLE_WATCH: Duration = Duration::from_secs(5);

/// Which pod is ours.
#[derive(Debug, Clone)]
pub(crate) struct PodIdentity {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: Option<String>,
    /// The controller's own container.
    pub(crate) container: String,
}

/// What both tasks share.
pub(crate) struct ApiState {
    pub(crate) identity: PodIdentity,
    pub(crate) metrics: Rc<Metrics>,
    failing_requests: RefCell<BTreeSet<&'static str>>,
    actual: RefCell<ServerAnnotations>,
    /// Told when `actual` has changed.
    actual_changed: Notify,
}

/// Our annotations as the API has them.
#[derive(Debug, Default)]
struct ServerAnnotations {
    annotations: Option<Annotations>,
    resource_version: Option<u64>,
}

impl ApiState {
    pub(crate) fn new(identity: PodIdentity, metrics: Rc<Metrics>) -> Rc<ApiState> {
        Rc::new(ApiState {
            identity,
            metrics,
            failing_requests: RefCell::default(),
            actual: RefCell::default(),
            actual_changed: Notify::new(),
        })
    }

    /// One warning when the first thing fails, and one line when nothing fails any more.
    fn on_failure(&self, what: &'static str, error: &str) {
        let first = self.failing_requests.borrow().is_empty();
        self.failing_requests.borrow_mut().insert(what);
        if first {
            warn!(request = what, error, "the API does not serve us; goes on by the board alone, and asks again later");
        }
    }

    fn on_success(&self, what: &'static str) {
        if self.failing_requests.borrow_mut().remove(what) && self.failing_requests.borrow().is_empty() {
            info!("the API serves us again");
        }
    }

    /// Nobody asks for this any more, so its failing is no trouble.
    pub(crate) fn clear_failure(&self, what: &'static str) {
        self.failing_requests.borrow_mut().remove(what);
    }

    /// Takes in what the API shows; an older version than what we know already says nothing.
    fn update_actual(&self, annotations: Annotations, version: Option<u64>) {
        let mut actual = self.actual.borrow_mut();
        if let (Some(known), Some(version)) = (actual.resource_version, version)
            && version < known
        {
            return;
        }
        let ours: Annotations = annotations.into_iter().filter(|(key, _)| is_podgate_key(key)).collect();
        *actual = ServerAnnotations { annotations: Some(ours), resource_version: version };
        self.actual_changed.notify_one();
    }

    fn connect(&self) -> Result<Api<Pod>, String> {
        let client = client::in_cluster().map_err(|error| error_chain(&*error))?;
        let pods = ApiResource::erase::<v1::Pod>(&());
        Ok(Api::namespaced_with(client, &self.identity.namespace, &pods))
    }
}

fn backoff() -> impl Iterator<Item = Duration> {
    let builder = ExponentialBuilder::default().with_min_delay(Duration::from_millis(200));
    builder.with_max_delay(Duration::from_secs(30)).without_max_times().with_jitter().build()
}

fn error_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        other => error_chain(other),
    }
}

/// Watches our pod for ever, and hands on what it shows.
///
/// From version 0 with a field selector and without bookmarks: that needs the smallest rights, starts with the pod as it is, and
/// is served by every API server.
pub(crate) async fn watch_pod(shared: Rc<ApiState>, heard: mpsc::Sender<PodFacts>) {
    let mut pause = backoff();
    loop {
        let since = now();
        if let Err(error) = watch_once(&shared, &heard).await {
            shared.on_failure(WATCH_REQUEST, &error);
        }
        if since.elapsed() > STABLE_WATCH {
            pause = backoff();
        }
        tokio::time::sleep(pause.next().unwrap_or(STABLE_WATCH)).await;
    }
}

async fn watch_once(shared: &ApiState, heard: &mpsc::Sender<PodFacts>) -> Result<(), String> {
    let api = shared.connect()?;
    let own = &shared.identity;
    let selector = format!("metadata.name={}", own.name);
    let params = WatchParams::default().fields(&selector).timeout(WATCH_TIMEOUT_SECONDS).disable_bookmarks();
    let events = tokio::time::timeout(REQUEST_TIMEOUT, api.watch(&params, "0")).await;
    let mut events = pin!(events.map_err(|_| "no answer in time")?.map_err(|error| error_message(&error))?);
    // A server that is gone without a word would be listened to for ever.
    let limit = Duration::from_secs(u64::from(WATCH_TIMEOUT_SECONDS)) + REQUEST_TIMEOUT;
    while let Some(event) = tokio::time::timeout(limit, events.next()).await.map_err(|_| "silent for long")? {
        match event.map_err(|error| error_message(&error))? {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                shared.on_success(WATCH_REQUEST);
                let facts = extract_facts(&pod, &own.container);
                if own.uid.as_ref().is_some_and(|uid| *uid != facts.uid) {
                    continue;
                }
                shared.update_actual(facts.annotations.clone(), facts.resource_version);
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
pub(crate) async fn sync_annotations(shared: Rc<ApiState>, mut desired: watch::Receiver<Annotations>) {
    let mut pause = backoff();
    let mut api = None;
    loop {
        if merge_patch(&shared, &desired.borrow_and_update()).is_none() {
            // Nothing to do: let go of the connection until there is.
            tokio::select! {
                changed = desired.changed() => if changed.is_err() { return },
                () = shared.actual_changed.notified() => {}
                () = tokio::time::sleep(REQUEST_TIMEOUT), if api.is_some() => api = None,
            }
            continue;
        }
        let Some(patch) = batch_changes(&shared, &mut desired).await else { continue };
        let sent = async {
            let connected = api.take().map_or_else(|| shared.connect(), Ok)?;
            send_patch(&shared, &connected, patch).await.map(|()| connected)
        };
        match sent.await {
            Ok(connected) => {
                api = Some(connected);
                shared.metrics.record_patch("ok");
                shared.on_success("patch");
                pause = backoff();
            }
            Err(error) => {
                shared.metrics.record_patch("error");
                shared.on_failure("patch", &error);
                tokio::time::sleep(pause.next().unwrap_or(REQUEST_TIMEOUT)).await;
            }
        }
    }
}

/// Waits for the moment to pass, and gives all that has changed by then; `None` if that is nothing any more.
async fn batch_changes(shared: &ApiState, desired: &mut watch::Receiver<Annotations>) -> Option<Value> {
    let first = now();
    let mut until = first + MINOR_BATCH_WINDOW;
    loop {
        let patch = merge_patch(shared, &desired.borrow_and_update())?;
        if !is_minor(&patch) {
            until = until.min(now() + BATCH_WINDOW);
        }
        let more = tokio::time::timeout_at(until.into(), desired.changed()).await;
        if more.is_err() || now() >= until {
            return merge_patch(shared, &desired.borrow());
        }
        // What comes later does not put off what is due.
        until = until.min(first + MINOR_BATCH_WINDOW);
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

async fn send_patch(shared: &ApiState, api: &Api<Pod>, annotations: Value) -> Result<(), String> {
    let mut metadata = json!({ "annotations": annotations });
    if let Some(uid) = &shared.identity.uid {
        // A pod of the same name that has taken our place is not ours to write to.
        metadata["uid"] = json!(uid);
    }
    let (params, patch) = (PatchParams::default(), Patch::Merge(json!({ "metadata": metadata })));
    let request = api.patch_metadata(&shared.identity.name, &params, &patch);
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, request).await.map_err(|_| "no answer in time")?;
    let metadata = answer.map_err(|error| error_message(&error))?.metadata;
    let version = metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
    shared.update_actual(metadata.annotations.unwrap_or_default(), version);
    Ok(())
}

/// What a merge patch must hold; `None` if the API has what we want.
fn merge_patch(shared: &ApiState, desired: &Annotations) -> Option<Value> {
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

    fn shared() -> Rc<ApiState> {
        let identity = PodIdentity { name: "p".into(), namespace: "n".into(), uid: None, container: "podgate".into() };
        ApiState::new(identity, Rc::default())
    }

    fn annotations(pairs: &[(&str, &str)]) -> Annotations {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn patches_what_differs_and_takes_back_what_is_forged() {
        let shared = shared();
        let desired = annotations(&[("status.podgate.io/db", "Waiting")]);
        assert_eq!(merge_patch(&shared, &desired), Some(json!({"status.podgate.io/db": "Waiting"})));
        shared.update_actual(
            annotations(&[("status.podgate.io/db", "Ready"), ("status.podgate.io/x", "Ready"), ("a/b", "c")]),
            Some(5),
        );
        let patch = json!({"status.podgate.io/db": "Waiting", "status.podgate.io/x": null});
        assert_eq!(merge_patch(&shared, &desired), Some(patch));
        shared.update_actual(desired.clone(), Some(6));
        assert_eq!(merge_patch(&shared, &desired), None);
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
        let desired = annotations(&[("status.podgate.io/db", "Ready")]);
        shared.update_actual(desired.clone(), Some(6));
        shared.update_actual(annotations(&[("status.podgate.io/db", "Waiting")]), Some(5));
        assert_eq!(merge_patch(&shared, &desired), None);
    }
}
