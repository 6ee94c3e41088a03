//! `kubectl podgate override`: sets a container's state by hand.

mod change;

use crate::clock;
use crate::cluster::{Cluster, ClusterError, ConnectionArgs, pod_name};
use crate::output::{fail, write_stdout};
use change::AnnotationChange;
use clap::Args;
use kube::api::{Patch, PatchParams};
use podgate::core::exit::Exit;
use podgate::core::names::is_container_name;
use podgate::core::state::State;
use podgate::core::text::sanitize;
use serde_json::{Map, Value};
use std::process::ExitCode;

const HELP: &str = "\
Set the state of a container by hand, for example if its probe is wrong. This opens the hooks and
gates that wait for that state. The command writes one annotation per container,
override.podgate.io/CONTAINER=STATE@SANDBOX-ID, which is valid only in the Pod's current sandbox.
It prints which containers have waited for that container.

States: Started, Ready, Completed (exit code 0), Failed (any other exit code). Completed and Failed
both open a gate that waits for Exited. The override stays in force until --remove, whatever happens
to the container. After --remove, the container has its own state again.

The command needs permission to patch the Pod, and podgate.io/publish: api.

Examples:
  kubectl podgate override ordered db=Ready
  kubectl podgate override ordered db=Ready migrate=Completed -n shop
  kubectl podgate override ordered --remove db

Exit codes:
  0    success, also with --dry-run
  1    nothing was changed: no such Pod or container, sandbox unknown, no connection, or no access";

/// Set a container's state by hand, to open the hooks and gates that wait for it
#[derive(Debug, Args)]
#[command(after_help = HELP, override_usage = "kubectl podgate override [OPTIONS] <POD> <CONTAINER=STATE>...\n       \
    kubectl podgate override [OPTIONS] <POD> --remove [CONTAINER]...")]
pub(crate) struct Override {
    /// The Pod's name
    #[arg(value_name = "POD", value_parser = pod_name)]
    pub(crate) pod: String,
    /// Container and its new state; with --remove, only the container
    #[arg(value_name = "CONTAINER=STATE", value_parser = parse_target, required_unless_present = "remove")]
    pub(crate) targets: Vec<OverrideTarget>,
    /// Remove the overrides of these containers; without names, all
    #[arg(long)]
    pub(crate) remove: bool,
    /// Print what would change, but change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// Parsed argument `CONTAINER=STATE` or `CONTAINER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OverrideTarget {
    pub(crate) container: String,
    pub(crate) state: Option<State>,
}

/// The states that hooks and gates can wait for.
const SETTABLE_STATES: [State; 4] = [State::Started, State::Ready, State::Completed, State::Failed];

fn parse_target(text: &str) -> Result<OverrideTarget, String> {
    let (name, state) = text.split_once('=').map_or((text, None), |(name, state)| (name, Some(state)));
    if !is_container_name(name) {
        return Err(format!("{name:?} is not a valid container name; write CONTAINER=STATE, such as db=Ready"));
    }
    let parse = |state: &str| {
        let found = SETTABLE_STATES.into_iter().find(|known| known.as_str() == state);
        found.ok_or_else(|| {
            format!("{state:?} cannot be set; set one of {}", SETTABLE_STATES.map(State::as_str).join(", "))
        })
    };
    Ok(OverrideTarget { container: name.to_owned(), state: state.map(parse).transpose()? })
}

/// Checks two rules that clap cannot express. With `--remove`, no container may have a state; otherwise, each container
/// must have a state. No container may occur twice.
fn validate(args: &Override) -> Result<(), String> {
    for (at, target) in args.targets.iter().enumerate() {
        let name = &target.container;
        match (args.remove, target.state) {
            (false, None) => return Err(format!("{name}: the state is missing; write for example {name}=Ready")),
            (true, Some(_)) => return Err(format!("{name}: --remove takes only the container name, without a state")),
            _ => {}
        }
        if args.targets[..at].iter().any(|other| other.container == *name) {
            return Err(format!("{name} is given twice; name each container once"));
        }
    }
    Ok(())
}

pub(crate) async fn run(args: &Override) -> Result<ExitCode, String> {
    if let Err(error) = validate(args) {
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
        let params = PatchParams { field_manager: Some("kubectl-podgate".to_owned()), ..PatchParams::default() };
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
        ClusterError::Rejected { code: 409, .. } => {
            format!("the Pod {pod:?} was replaced by another Pod in the meantime; nothing was changed")
        }
        other => cluster.pod_error(other, pod),
    }
}
