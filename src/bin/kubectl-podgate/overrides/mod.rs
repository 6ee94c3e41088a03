//! `kubectl podgate override`: sets a container's state by hand.

mod args;
mod change;

pub(crate) use args::Override;

use crate::clock;
use crate::cluster::{Cluster, ClusterError};
use crate::output::{fail, write_stdout};
use change::AnnotationChange;
use kube::api::{Patch, PatchParams};
use podgate::core::exit::Exit;
use podgate::core::text::sanitize;
use serde_json::{Map, Value};
use std::process::ExitCode;

/// Name that `metadata.managedFields` records for changes by this plugin.
const FIELD_MANAGER: &str = "kubectl-podgate";

pub(crate) async fn run(args: &Override) -> Result<ExitCode, String> {
    if let Err(error) = args::validate(args) {
        fail(&error);
        return Ok(Exit::Usage.into());
    }
    let cluster = Cluster::from_args(&args.connection).await?;
    let pod = cluster.get_pod(&args.pod).await?;
    let now = clock::wall_clock();
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
        let answer = cluster.wait_for(cluster.pods().patch_metadata(&args.pod, &params, &patch)).await;
        answer.map_err(|error| patch_error(&cluster, &error, &args.pod))?;
    }
    let verb = if args.dry_run { "would change" } else { "changed" };
    let at = humantime::format_rfc3339_seconds(now);
    let mut text = format!("{at} {verb} Pod {}/{} (uid {uid})\n", cluster.namespace, args.pod);
    if let Some(sandbox) = &plan.sandbox {
        text += &format!("sandbox {sandbox} at {}\n", cluster.server);
    }
    for AnnotationChange { annotation, value, was, effect } in &plan.changes {
        let value = value.as_ref().map_or("removed".to_owned(), |value| format!("= {value}"));
        let was = was.as_ref().map(|was| format!(" (was {was})")).unwrap_or_default();
        text += &format!("\n{annotation} {value}{was}\n  {effect}\n");
    }
    write_stdout(&text.lines().map(|line| sanitize(line) + "\n").collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

fn patch_error(cluster: &Cluster, error: &ClusterError, pod: &str) -> String {
    match error {
        ClusterError::Rejected { code: 403, message, .. } => format!("not allowed to patch the Pod {pod:?}: {message}"),
        ClusterError::Rejected { code: 409, .. } => {
            format!("the Pod {pod:?} was replaced by another Pod in the meantime; nothing was changed")
        }
        other => cluster.pod_error(other, pod),
    }
}
