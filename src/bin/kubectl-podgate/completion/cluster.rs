//! Candidates that only the cluster knows: pods, namespaces, containers. Whoever presses a key waits for them: what does not come
//! within a moment is left out, and nothing is ever said.

use super::typed::Typed;
use crate::api::Cluster;
use crate::args::Connection;
use clap_complete::engine::CompletionCandidate;
use kube::api::{Api, ApiResource, ListParams};
use kube::config::Kubeconfig;
use kube::core::DynamicObject;
use podgate::core::names;
use std::ffi::OsStr;
use std::sync::OnceLock;
use std::time::Duration;

/// How long a person at a keyboard waits.
const LIMIT: Duration = Duration::from_millis(1500);
/// More than this nobody reads.
const MOST: u32 = 500;

static TYPED: OnceLock<Typed> = OnceLock::new();

/// What stands on the command line that is being completed; said once, before candidates are asked for.
pub(super) fn remember(typed: Typed) {
    let _ = TYPED.set(typed);
}

fn typed() -> Typed {
    TYPED.get().cloned().unwrap_or_default()
}

fn ask<T>(question: impl AsyncFnOnce(Cluster) -> Option<Vec<T>>) -> Vec<T> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let typed = typed();
    let connection = Connection {
        namespace: typed.namespace,
        context: typed.context,
        kubeconfig: typed.kubeconfig.map(Into::into),
        request_timeout: LIMIT,
    };
    let all = async { question(Cluster::of(&connection).await.ok()?).await };
    runtime.block_on(async { tokio::time::timeout(LIMIT, all).await }).ok().flatten().unwrap_or_default()
}

fn starting(current: &OsStr, all: impl IntoIterator<Item = CompletionCandidate>) -> Vec<CompletionCandidate> {
    let current = current.to_str().unwrap_or_default();
    all.into_iter().filter(|one| one.get_value().to_str().is_some_and(|value| value.starts_with(current))).collect()
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// The namespace's pods; of those with a sidecar, where their start stands.
pub(crate) fn pods(current: &OsStr) -> Vec<CompletionCandidate> {
    let found = ask(async |cluster: Cluster| {
        let pods = cluster.pods().list_metadata(&ListParams::default().limit(MOST)).await.ok()?;
        let candidate = |meta: kube::core::ObjectMeta| {
            let phase = meta.annotations.unwrap_or_default().remove(names::SANDBOX_PHASE);
            Some(CompletionCandidate::new(meta.name?).help(phase.map(Into::into)))
        };
        Some(pods.items.into_iter().filter_map(|pod| candidate(pod.metadata)).collect())
    });
    starting(current, found)
}

/// All namespaces.
pub(crate) fn namespaces(current: &OsStr) -> Vec<CompletionCandidate> {
    let found = ask(async |cluster: Cluster| {
        let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource("Namespace", "namespaces"));
        let list = api.list_metadata(&ListParams::default().limit(MOST)).await.ok()?;
        Some(list.items.into_iter().filter_map(|item| item.metadata.name).map(CompletionCandidate::new).collect())
    });
    starting(current, found)
}

/// The contexts of the kubeconfig.
pub(crate) fn contexts(current: &OsStr) -> Vec<CompletionCandidate> {
    let found = match typed().kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let contexts = found.map(|found| found.contexts).unwrap_or_default();
    starting(current, contexts.into_iter().map(|context| CompletionCandidate::new(context.name)))
}

/// The containers of the pod that has been named, and the states that they can be set to.
pub(crate) fn wishes(current: &OsStr) -> Vec<CompletionCandidate> {
    let words = typed().words;
    let (Some(pod), Some(current_text)) = (words.get(1).cloned(), current.to_str()) else { return Vec::new() };
    if let Some((container, _)) = current_text.split_once('=') {
        let states = ["Ready", "Started", "Completed", "Failed"];
        return starting(current, states.map(|state| CompletionCandidate::new(format!("{container}={state}"))));
    }
    let found = ask(async |cluster: Cluster| {
        let pod = cluster.pods().get(&pod).await.ok()?;
        let annotations = pod.metadata.annotations.unwrap_or_default();
        let containers = annotations.iter().filter_map(|(key, state)| {
            let name = key.strip_prefix(names::STATUS_PREFIX)?;
            Some(CompletionCandidate::new(format!("{name}=")).help(Some(state.clone().into())))
        });
        Some(containers.collect())
    });
    starting(current, found)
}
