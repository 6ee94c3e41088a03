//! Two tasks that watch and patch the Pod through the Kubernetes API without delaying the board. The API is optional:
//! if it is forbidden, unreachable or slow, the sidecar logs one warning and retries.

mod client;
mod patch;
pub(crate) mod task;

use crate::api::patch::{is_release_patch, merge_patch, only_reports_starts};
use crate::args::PodIdentity;
use crate::clock::now;
use crate::failure::{Failure, Result};
use crate::input::pod_facts::{Pod, PodFacts, extract_facts};
use crate::output::metrics::Metrics;
use crate::rate_limit::TokenBucket;
use backon::{BackoffBuilder, ExponentialBuilder};
use futures::StreamExt;
use k8s_openapi::api::core::v1;
use kube::api::{Api, ApiResource, Patch, PatchParams, WatchEvent, WatchParams};
use podgate::core::annotations::Annotations;
use podgate::core::names;
use podgate::core::snapshot::is_snapshot_key;
use podgate::core::text::{command_line, error_chain};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tracing::{info, warn};

/// Time during which changes are collected into one patch. Each patch costs the API server a write, and makes the
/// kubelet sync the Pod.
const BATCH_WINDOW: Duration = Duration::from_secs(1);
/// Time during which changes are collected into the first patch. The time is short, because a user sees only the
/// kubelet's status before that patch.
const FIRST_BATCH_WINDOW: Duration = Duration::from_millis(400);
/// Time during which minor changes are collected. A minor change only reports started containers, so it is not urgent.
const MINOR_BATCH_WINDOW: Duration = Duration::from_secs(5);
/// Time during which all changes are collected while a container is held, except for the first patch. Each patch makes
/// the kubelet sync the Pod, and such a sync can delay the release of the container by up to 1 s.
const HELD_BATCH_WINDOW: Duration = Duration::from_secs(10);
/// Limits the patches of a Pod: at first 30, later one in ten seconds, however often a container changes its state.
/// Patches that release a container are not delayed.
type PatchBucket = TokenBucket<30, 10>;
/// Longest pause after a failed release patch.
const RELEASE_RETRY_DELAY: Duration = Duration::from_secs(2);
/// Time limit for every request except the watch. The API server ends a watch after `WATCH_TIMEOUT_SECONDS`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const WATCH_TIMEOUT_SECONDS: u32 = 290;
/// Name of the watch in logs and in `failing_requests`.
pub(crate) const WATCH_REQUEST_NAME: &str = "watch";
/// Minimum duration of a watch that resets the back-off.
const STABLE_WATCH: Duration = Duration::from_secs(5);
/// Time in milliseconds over which the sidecars of a cluster spread their new watches, after an API server has ended
/// all watches at once.
const RECONNECT_SPREAD_MS: u64 = 14_000;

/// State that both tasks share.
#[derive(Default)]
pub(crate) struct SharedApiState {
    pub(crate) identity: PodIdentity,
    pub(crate) metrics: Rc<Metrics>,
    /// True while a container may be held. Each patch that does not release the container then delays the release.
    pub(crate) may_have_held_container: Cell<bool>,
    failing_requests: RefCell<BTreeSet<&'static str>>,
    /// Podgate's annotations on the Pod, as last received from the API server. Empty before the first answer.
    actual: RefCell<Annotations>,
    actual_version: Cell<Option<u64>>,
    actual_changed: Notify,
    patches: RefCell<PatchBucket>,
}

impl SharedApiState {
    /// Records that requests of the kind `what` fail. Logs a warning if all kinds succeeded before. `on_success` logs
    /// one line when all kinds succeed again.
    fn on_failure(&self, what: &'static str, error: &Failure) {
        let mut failing = self.failing_requests.borrow_mut();
        if failing.is_empty() {
            warn!(request = what, %error, "{}", self.describe_failure(what, error));
        }
        failing.insert(what);
    }

    fn describe_failure(&self, what: &str, error: &Failure) -> String {
        let Failure::Forbidden(_) = error else {
            return "API request failed, so podgate publishes no states; will retry".to_owned();
        };
        let late = if self.may_have_held_container.get() { ", and held containers start up to 90 s late" } else { "" };
        let install = command_line(&["kubectl", "podgate", "install", "--namespaces", &self.identity.namespace]);
        format!(
            "no permission to {what} this Pod (403), so podgate publishes no states{late}; to allow it, run: {install} | \
             kubectl apply -f - (add the other namespaces of your installation)"
        )
    }

    fn on_success(&self, what: &'static str) {
        if self.failing_requests.borrow_mut().remove(what) && self.failing_requests.borrow().is_empty() {
            info!("API requests succeed again");
        }
    }

    /// Stores the annotations from the API server. Ignores a version of the Pod that is older than the stored one.
    fn update_actual(&self, annotations: Annotations, version: Option<u64>) {
        if self.actual_version.get().zip(version).is_none_or(|(known, version)| known <= version) {
            self.actual.replace(annotations.into_iter().filter(|(key, _)| is_snapshot_key(key)).collect());
            self.actual_version.set(version);
            self.actual_changed.notify_one();
        }
    }

    /// Returns the patch that sets the `desired` annotations; `None` if the Pod already has them.
    fn patch(&self, desired: &Annotations) -> Option<Value> {
        merge_patch(&self.actual.borrow(), desired)
    }

    fn connect(&self) -> Result<Api<Pod>> {
        let client = client::in_cluster().map_err(|error| error_chain(&*error))?;
        let pods = ApiResource::erase::<v1::Pod>(&());
        Ok(Api::namespaced_with(client, &self.identity.namespace, &pods))
    }
}

fn backoff() -> impl Iterator<Item = Duration> {
    let builder = ExponentialBuilder::default().with_min_delay(Duration::from_millis(200));
    // The jitter can double a delay.
    builder.with_max_delay(Duration::from_secs(15)).without_max_times().with_jitter().build()
}

/// Watches the Pod forever and sends the facts of each version to `updates`.
///
/// The watch starts from version 0, with a field selector and without bookmarks. Such a watch needs the fewest
/// permissions, starts with the current Pod, and works with every API server.
pub(crate) async fn watch_pod(shared: Rc<SharedApiState>, updates: mpsc::Sender<PodFacts>) -> ! {
    let (mut pause, mut is_cut) = (backoff(), false);
    loop {
        let since = now();
        if let Err(error) = watch_once(&shared, &updates).await {
            shared.on_failure(WATCH_REQUEST_NAME, &error);
        }
        let lasted = now() - since;
        if lasted > STABLE_WATCH {
            pause = backoff();
            is_cut = lasted < Duration::from_secs(u64::from(WATCH_TIMEOUT_SECONDS));
        }
        let random = RandomState::new().hash_one(()) % RECONNECT_SPREAD_MS;
        let spread = Duration::from_millis(if is_cut { random } else { 0 });
        tokio::time::sleep(pause.next().unwrap_or(STABLE_WATCH) + spread).await;
    }
}

async fn watch_once(shared: &SharedApiState, updates: &mpsc::Sender<PodFacts>) -> Result<()> {
    let api = shared.connect()?;
    let own = &shared.identity;
    // Accept any version from a new watch, because a restore of etcd lowers the versions. If the watch starts with an
    // outdated Pod from the API server's cache, the only cost is a needless patch.
    shared.actual_version.set(None);
    let selector = format!("metadata.name={}", own.name);
    let params = WatchParams::default().fields(&selector).timeout(WATCH_TIMEOUT_SECONDS).disable_bookmarks();
    let events = tokio::time::timeout(REQUEST_TIMEOUT, api.watch(&params, "0")).await;
    let mut events = pin!(events.map_err(|_| "timed out")?.map_err(Failure::of_api)?);
    // Without a time limit, a server that vanishes without closing the connection would block the watch forever.
    let limit = Duration::from_secs(u64::from(WATCH_TIMEOUT_SECONDS)) + REQUEST_TIMEOUT;
    while let Some(event) = tokio::time::timeout(limit, events.next()).await.map_err(|_| "no event in time")? {
        match event.map_err(Failure::of_api)? {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                shared.on_success(WATCH_REQUEST_NAME);
                let facts = extract_facts(&pod, &own.container);
                if own.uid.as_ref().is_some_and(|uid| *uid != facts.uid) {
                    continue;
                }
                shared.update_actual(facts.annotations.clone(), facts.resource_version);
                if updates.send(facts).await.is_err() {
                    return Ok(());
                }
            }
            WatchEvent::Error(status) => return Err(Failure::of_api(kube::Error::Api(status))),
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(())
}

/// Keeps podgate's annotations in the API equal to `desired`, forever: adds missing ones, removes stale or forged ones.
pub(crate) async fn sync_annotations(shared: Rc<SharedApiState>, mut desired: watch::Receiver<Annotations>) {
    let mut pause = backoff();
    let mut api = None;
    loop {
        if shared.patch(&desired.borrow_and_update()).is_none() {
            // No patch is needed. Drop the connection after an idle time of `REQUEST_TIMEOUT`.
            tokio::select! {
                changed = desired.changed() => if changed.is_err() { return },
                () = shared.actual_changed.notified() => {}
                () = tokio::time::sleep(REQUEST_TIMEOUT), if api.is_some() => api = None,
            }
            continue;
        }
        let Some(patch) = batch_changes(&shared, &mut desired).await else { continue };
        shared.patches.borrow_mut().reserve(now());
        let is_release = is_release_patch(&patch);
        let sent = async {
            let connected = api.take().map_or_else(|| shared.connect(), Ok)?;
            send_patch(&shared, &connected, patch).await.map(|()| connected)
        };
        match sent.await {
            Ok(connected) => {
                api = Some(connected);
                shared.metrics.record_patch(true);
                if is_release {
                    info!("patched the Pod, so that the kubelet syncs it");
                }
                shared.on_success("patch");
                pause = backoff();
            }
            Err(error) => {
                shared.metrics.record_patch(false);
                shared.on_failure("patch", &error);
                let pause = pause.next().unwrap_or(REQUEST_TIMEOUT);
                if is_release {
                    tokio::time::sleep(pause.min(RELEASE_RETRY_DELAY)).await;
                } else {
                    // End the pause early if the kubelet must sync the Pod.
                    let asks =
                        |desired: &Annotations| shared.patch(desired).is_some_and(|patch| is_release_patch(&patch));
                    let _ = tokio::time::timeout(pause, desired.wait_for(asks)).await;
                }
            }
        }
    }
}

/// Waits for further changes and returns the patch for all of them; `None` if no change is left.
async fn batch_changes(shared: &SharedApiState, desired: &mut watch::Receiver<Annotations>) -> Option<Value> {
    let since = now();
    let mut until = None;
    loop {
        let patch = shared.patch(&desired.borrow_and_update())?;
        if is_release_patch(&patch) {
            return Some(patch);
        }
        let end = match shared.actual.borrow().contains_key(names::STAGE_KEY) {
            false => since + FIRST_BATCH_WINDOW,
            true if shared.may_have_held_container.get() => since + HELD_BATCH_WINDOW,
            true if only_reports_starts(&patch) => since + MINOR_BATCH_WINDOW,
            true => now() + BATCH_WINDOW,
        };
        let end = end.min(until.unwrap_or(end)).max(shared.patches.borrow().ready_from().unwrap_or(since));
        until = Some(end);
        let more = tokio::time::timeout_at(end.into(), desired.changed()).await;
        if more.is_err() || now() >= end {
            return shared.patch(&desired.borrow());
        }
    }
}

async fn send_patch(shared: &SharedApiState, api: &Api<Pod>, annotations: Value) -> Result<()> {
    let mut metadata = json!({ "annotations": annotations });
    if let Some(uid) = &shared.identity.uid {
        // The uid makes the API server reject the patch if another Pod now has the same name.
        metadata["uid"] = json!(uid);
    }
    let (params, patch) = (PatchParams::default(), Patch::Merge(json!({ "metadata": metadata })));
    let request = api.patch_metadata(&shared.identity.name, &params, &patch);
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, request).await.map_err(|_| "timed out")?;
    let metadata = answer.map_err(Failure::of_api)?.metadata;
    let version = metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
    shared.update_actual(metadata.annotations.unwrap_or_default(), version);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_permission_names_the_command_that_grants_it() {
        let identity = PodIdentity { namespace: "n".into(), ..PodIdentity::default() };
        let shared = SharedApiState { identity, ..SharedApiState::default() };
        let denied = Failure::Forbidden("403 pods is forbidden".to_owned());
        let text = shared.describe_failure("watch", &denied);
        let fix =
            "so podgate publishes no states; to allow it, run: kubectl podgate install --namespaces n | kubectl apply";
        assert!(text.starts_with("no permission to watch this Pod (403)") && text.contains(fix), "{text}");
        shared.may_have_held_container.set(true);
        assert!(
            shared.describe_failure("watch", &denied).contains("no states, and held containers start up to 90 s late;")
        );
        assert!(!shared.describe_failure("watch", &"timed out".into()).contains("permission"));
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_collected_into_one_patch() {
        let annotations = |db: &str, releases: &str| {
            let pairs = [(names::STAGE_KEY, "starting"), ("status.podgate.io/db", db)];
            let pairs = pairs.into_iter().chain([(names::RELEASE_COUNT_KEY, releases)]);
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Annotations>()
        };
        for (what, is_first, is_held, patches, db, releases, expected) in [
            ("the first patch", true, true, 0, "Ready", "e1.0", 400),
            ("a change", false, false, 0, "Ready", "e1.0", 1000),
            ("a minor change", false, false, 0, "Started", "e1.0", 5000),
            ("a change while a container is held", false, true, 0, "Ready", "e1.0", 10_000),
            ("a change after many patches", false, false, 32, "Ready", "e1.0", 30_000),
            ("a release after many patches", false, true, 32, "Ready", "e1.1", 0),
        ] {
            let shared = SharedApiState::default();
            shared.may_have_held_container.set(is_held);
            if !is_first {
                shared.update_actual(annotations("Waiting", "e1.0"), None);
            }
            (0..patches).for_each(|_| _ = shared.patches.borrow_mut().reserve(now()));
            let (sender, mut desired) = watch::channel(annotations(db, releases));
            let since = now();
            let change_again = async {
                tokio::time::sleep(FIRST_BATCH_WINDOW / 2).await;
                sender.send_modify(|all| _ = all.insert("status.podgate.io/web".to_owned(), "Started".to_owned()));
                std::future::pending().await
            };
            let patch = tokio::select! {
                patch = batch_changes(&shared, &mut desired) => patch.unwrap(),
                () = change_again => unreachable!(),
            };
            assert_eq!((now() - since).as_millis() / 10 * 10, expected, "{what}");
            assert_eq!(patch.get("status.podgate.io/web").is_some(), expected > 0, "{what}");
        }
    }

    #[test]
    fn older_versions_and_foreign_annotations_are_ignored() {
        let shared = SharedApiState::default();
        let ready = |state: &str| Annotations::from([("status.podgate.io/db".to_owned(), state.to_owned())]);
        let foreign = [("a/b".to_owned(), "c".to_owned())];
        shared.update_actual(ready("Ready").into_iter().chain(foreign).collect(), Some(6));
        shared.update_actual(ready("Waiting"), Some(5));
        assert_eq!(shared.patch(&ready("Ready")), None);
    }
}
