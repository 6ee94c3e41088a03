//! `kubectl podgate override`: a container's state, set by hand.

mod args;
mod change;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use args::Override;

use crate::cluster::Cluster;
use crate::output::{json, say, write_out};
use crate::values::Output;
use crate::{clock, runtime};
use change::Plan;
use kube::api::{Patch, PatchParams};
use podgate::core::exit::Exit;
use serde::Serialize;
use serde_json::{Map, Value};
use std::process::ExitCode;

/// Under which name the API server writes down what this tool changes.
const MANAGER: &str = "kubectl-podgate";

/// What was done, or would be. As JSON it is an interface: see docs/kubectl-podgate.md.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Done {
    /// RFC 3339, UTC.
    at: String,
    server: String,
    namespace: String,
    pod: String,
    uid: String,
    /// Who the API server says that it was.
    by: Option<String>,
    dry_run: bool,
    #[serde(flatten)]
    plan: Plan,
}

pub(crate) fn run(args: &Override) -> ExitCode {
    if let Err(what) = args::check(args) {
        say(&what);
        return Exit::Usage.into();
    }
    runtime::block_on(change(args))
}

async fn change(args: &Override) -> Result<ExitCode, String> {
    let cluster = Cluster::of(&args.connection).await?;
    let pod = cluster.pod(&args.pod).await?;
    let now = clock::wall();
    let plan = match args.remove {
        true => change::remove(&pod, &args.wishes)?,
        false => change::set(&pod, &cluster.namespace, &args.wishes, now)?,
    };
    if plan.changes.is_empty() {
        write_out("Nothing was set by hand.\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    if !args.dry_run {
        let values = plan.changes.iter().map(|change| (change.annotation.clone(), serde_json::json!(change.value)));
        let annotations: Map<String, Value> = values.collect();
        // A pod of the same name that has taken its place is another one: the server refuses that.
        let patch = Patch::Merge(serde_json::json!({"metadata": {"uid": uid, "annotations": annotations}}));
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let answer = cluster.in_time(cluster.pods().patch_metadata(&args.pod, &params, &patch)).await?;
        answer.map_err(|error| refused(&cluster, &error, &args.pod))?;
    }
    let done = Done {
        at: humantime::format_rfc3339_seconds(now).to_string(),
        by: who(&cluster).await,
        server: cluster.server.clone(),
        namespace: cluster.namespace.clone(),
        pod: args.pod.clone(),
        uid,
        dry_run: args.dry_run,
        plan,
    };
    let text = match args.output {
        Output::Text => text::text(&done),
        Output::Json => json(&done)?,
    };
    write_out(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn refused(cluster: &Cluster, error: &kube::Error, pod: &str) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!("not allowed to patch the Pod {pod:?}: {}", status.message)
        }
        kube::Error::Api(status) if status.code == 409 => {
            format!("the Pod {pod:?} has been replaced by another one meanwhile; nothing was changed")
        }
        other => cluster.explain(other, pod),
    }
}

/// Who we are to the API server, where it says so.
async fn who(cluster: &Cluster) -> Option<String> {
    let review = serde_json::json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = hyper::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("Content-Type", "application/json")
        .body(serde_json::to_vec(&review).ok()?)
        .ok()?;
    let answer = cluster.in_time(cluster.client.request::<Value>(request)).await.ok()?.ok()?;
    answer.pointer("/status/userInfo/username")?.as_str().map(str::to_owned)
}
