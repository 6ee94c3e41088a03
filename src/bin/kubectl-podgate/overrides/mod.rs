//! `kubectl podgate override`: sets a container's state by hand.

mod args;
mod change;
mod text;

pub(crate) use args::Override;

use crate::cluster::Cluster;
use crate::common_args::OutputFormat;
use crate::output::{print_stderr, to_json, write_stdout};
use crate::{clock, runtime};
use change::OverridePlan;
use kube::api::{Patch, PatchParams};
use podgate::core::exit::Exit;
use serde::Serialize;
use serde_json::{Map, Value};
use std::process::ExitCode;

/// Name that `metadata.managedFields` records for changes by this plugin.
const FIELD_MANAGER: &str = "kubectl-podgate";

/// Result of the command, or of a dry run. The JSON form is a public format: see docs/kubectl-podgate.md.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OverrideOutcome {
    /// Time of the change, in RFC 3339 and UTC.
    at: String,
    server: String,
    namespace: String,
    pod: String,
    uid: String,
    /// Name of the user who made the change, as the API server reports it.
    by: Option<String>,
    dry_run: bool,
    #[serde(flatten)]
    plan: OverridePlan,
}

pub(crate) fn run(args: &Override) -> ExitCode {
    if let Err(error) = args::validate(args) {
        print_stderr(&error);
        return Exit::Usage.into();
    }
    runtime::block_on(apply(args))
}

async fn apply(args: &Override) -> Result<ExitCode, String> {
    let cluster = Cluster::from_args(&args.connection).await?;
    let pod = cluster.get_pod(&args.pod).await?;
    let now = clock::wall_time();
    let plan = match args.remove {
        true => change::plan_removal(&pod, &args.targets)?,
        false => change::plan_set(&pod, &cluster.namespace, &args.targets, now)?,
    };
    if plan.changes.is_empty() {
        write_stdout("The Pod has no overrides.\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    if !args.dry_run {
        let values = plan.changes.iter().map(|change| (change.annotation.clone(), serde_json::json!(change.value)));
        let annotations: Map<String, Value> = values.collect();
        // The patch contains the uid, so that the server rejects the patch if a new Pod has the same name.
        let patch = Patch::Merge(serde_json::json!({"metadata": {"uid": uid, "annotations": annotations}}));
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let answer = cluster.with_timeout(cluster.pods().patch_metadata(&args.pod, &params, &patch)).await?;
        answer.map_err(|error| patch_error(&cluster, &error, &args.pod))?;
    }
    let done = OverrideOutcome {
        at: humantime::format_rfc3339_seconds(now).to_string(),
        by: current_user(&cluster).await,
        server: cluster.server.clone(),
        namespace: cluster.namespace.clone(),
        pod: args.pod.clone(),
        uid,
        dry_run: args.dry_run,
        plan,
    };
    let text = match args.output {
        OutputFormat::Text => text::render(&done),
        OutputFormat::Json => to_json(&done)?,
    };
    write_stdout(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn patch_error(cluster: &Cluster, error: &kube::Error, pod: &str) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!("not allowed to patch the Pod {pod:?}: {}", status.message)
        }
        kube::Error::Api(status) if status.code == 409 => {
            format!("the Pod {pod:?} was replaced by another Pod in the meantime; nothing was changed")
        }
        other => cluster.error_message(other, pod),
    }
}

/// Returns the current user's name, or `None` if the API server does not report it.
async fn current_user(cluster: &Cluster) -> Option<String> {
    let review = serde_json::json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = hyper::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("Content-Type", "application/json")
        .body(serde_json::to_vec(&review).ok()?)
        .ok()?;
    let answer = cluster.with_timeout(cluster.client.request::<Value>(request)).await.ok()?.ok()?;
    answer.pointer("/status/userInfo/username")?.as_str().map(str::to_owned)
}
