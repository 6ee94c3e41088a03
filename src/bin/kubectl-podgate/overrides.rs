//! `kubectl podgate override`: sets a container's state by hand.

use crate::clock;
use crate::cluster::{Cluster, ConnectionArgs, parse_pod_name};
use crate::error::{CommandError, CommandResult, ErrorKind};
use crate::output::print;
use crate::pod::Pod;
use crate::pod::shape::View;
use crate::pod::view::view;
use clap::Args;
use kube::api::{Patch, PatchParams};
use podgate::core::names::{OVERRIDE_KEY_PREFIX, is_container_name};
use podgate::core::snapshot::Snapshot;
use podgate::core::state::State;
use podgate::core::text::sanitize;
use serde_json::{Map, Value};
use std::time::SystemTime;

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
pub(crate) struct OverrideArgs {
    /// The Pod's name
    #[arg(value_name = "POD", value_parser = parse_pod_name)]
    pub(crate) pod: String,
    /// Container and its new state; with --remove, only the container
    #[arg(value_name = "CONTAINER=STATE", value_parser = parse_override, required_unless_present = "remove")]
    pub(crate) overrides: Vec<StateOverride>,
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
pub(crate) struct StateOverride {
    pub(crate) container: String,
    pub(crate) state: Option<State>,
}

struct AnnotationChange {
    annotation: String,
    /// The new value; `None` if the annotation is removed.
    value: Option<String>,
    /// The previous value; `None` if the annotation did not exist.
    was: Option<String>,
    /// Line for the user: the state before the change, and its effect.
    effect: String,
}

/// The Pod's sandbox if it is known, and the changes.
type OverridePlan = (Option<String>, Vec<AnnotationChange>);

/// The states that hooks and gates can wait for.
const SETTABLE_STATES: [State; 4] = [State::Started, State::Ready, State::Completed, State::Failed];

fn parse_override(text: &str) -> Result<StateOverride, String> {
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
    Ok(StateOverride { container: name.to_owned(), state: state.map(parse).transpose()? })
}

/// Checks two rules that clap cannot express. With `--remove`, no container may have a state; otherwise, each container
/// must have a state. No container may occur twice.
fn validate(args: &OverrideArgs) -> CommandResult<()> {
    for (at, own) in args.overrides.iter().enumerate() {
        let name = &own.container;
        let line = match (args.remove, own.state) {
            (false, None) => format!("{name}: the state is missing; write for example {name}=Ready"),
            (true, Some(_)) => format!("{name}: --remove takes only the container name, without a state"),
            _ if args.overrides[..at].iter().any(|other| other.container == *name) => {
                format!("{name} is given twice; name each container once")
            }
            _ => continue,
        };
        return Err(CommandError::new(ErrorKind::Usage, line));
    }
    Ok(())
}

pub(crate) async fn run(args: &OverrideArgs) -> CommandResult {
    validate(args)?;
    let cluster = Cluster::from_args(&args.connection).await?;
    let pod = cluster.get_pod(&args.pod).await?;
    let now = clock::wall_clock();
    let (sandbox, changes) = match args.remove {
        true => plan_removal(&pod, &args.overrides)?,
        false => plan_set(&pod, &cluster.namespace, &args.overrides, now)?,
    };
    if changes.is_empty() {
        return print("The Pod has no overrides.\n");
    }
    let (uid, pod) = (pod.metadata.uid.unwrap_or_default(), &args.pod);
    if !args.dry_run {
        let values = changes.iter().map(|change| (change.annotation.clone(), serde_json::json!(change.value)));
        let annotations: Map<String, Value> = values.collect();
        // The patch contains the uid, so that the server rejects the patch if a new Pod has the same name.
        let patch = Patch::Merge(serde_json::json!({"metadata": {"uid": uid, "annotations": annotations}}));
        let params = PatchParams { field_manager: Some("kubectl-podgate".to_owned()), ..PatchParams::default() };
        let answer = cluster.await_response(cluster.pods().patch_metadata(pod, &params, &patch)).await;
        answer.map_err(|error| match error.kind {
            ErrorKind::Rejected(409, _) => {
                format!("the Pod {pod:?} was replaced by another Pod in the meantime; nothing was changed").into()
            }
            _ => cluster.pod_error(error, pod),
        })?;
    }
    let verb = if args.dry_run { "would change" } else { "changed" };
    let at = humantime::format_rfc3339_seconds(now);
    let mut text = format!("{at} {verb} Pod {}/{pod} (uid {uid})\n", cluster.namespace);
    if let Some(sandbox) = &sandbox {
        text += &format!("sandbox {sandbox} at {}\n", cluster.server);
    }
    for AnnotationChange { annotation, value, was, effect } in &changes {
        let value = value.as_ref().map_or("removed".to_owned(), |value| format!("= {value}"));
        let was = was.as_ref().map(|was| format!(" (was {was})")).unwrap_or_default();
        text += &format!("\n{annotation} {value}{was}\n  {effect}\n");
    }
    print(&text.lines().map(|line| sanitize(line) + "\n").collect::<String>())
}

/// Plans the annotations that set the states of `overrides`. Returns the Pod's sandbox and the changes.
fn plan_set(pod: &Pod, namespace: &str, overrides: &[StateOverride], now: SystemTime) -> CommandResult<OverridePlan> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    if pod.metadata.deletion_timestamp.is_some() {
        let what = "is being deleted: its hooks are released and its gates never open";
        return Err(format!("the Pod {name:?} {what}").into());
    }
    let view = view(pod, namespace, now);
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let before = match (Snapshot::from_annotations(&annotations), &view.stale_reason) {
        (Ok(snapshot), None) => snapshot,
        (Ok(_), Some(why)) => {
            let outdated = format!("the published state is outdated ({why}); retry in a moment");
            return Err(format!("the Pod's current sandbox is not known yet: {outdated}").into());
        }
        (Err(_), _) => {
            let why = view.notes.first().map_or("Nothing is published.", String::as_str);
            return Err(format!("the Pod's sandbox is unknown, so no state can be set. {why}").into());
        }
    };
    for StateOverride { container, .. } in overrides {
        if !before.states.contains_key(container) {
            let tracked: Vec<&str> = before.states.keys().map(String::as_str).collect();
            let line = format!("the sidecar does not track {container}, so this state cannot be set");
            return Err(format!("{line}; choose one of {}", tracked.join(", ")).into());
        }
    }
    let change = |own: &StateOverride| {
        let (container, annotation) = (&own.container, format!("{OVERRIDE_KEY_PREFIX}{}", own.container));
        Some(AnnotationChange {
            was: annotations.get(&annotation).cloned(),
            annotation,
            value: Some(format!("{}@{}", own.state?, before.sandbox)),
            effect: effect(&view, &before, container),
        })
    };
    Ok((Some(before.sandbox.to_string()), overrides.iter().filter_map(change).collect()))
}

/// Plans the removal of the overrides of the containers in `named`, or of all overrides if `named` is empty. Fails if
/// such a container has no override.
fn plan_removal(pod: &Pod, named: &[StateOverride]) -> CommandResult<OverridePlan> {
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let snapshot = Snapshot::from_annotations(&annotations).ok();
    let overrides = annotations.iter().filter_map(|(key, value)| Some((key.strip_prefix(OVERRIDE_KEY_PREFIX)?, value)));
    let mut overrides: Vec<(&str, &String)> = overrides.collect();
    let names: Vec<&str> = overrides.iter().map(|(name, _)| *name).collect();
    if let Some(own) = named.iter().find(|own| !names.contains(&own.container.as_str())) {
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(format!("{} has no override; containers with an override: {names}", own.container).into());
    }
    overrides.retain(|(name, _)| named.is_empty() || named.iter().any(|own| own.container == *name));
    let change = |(name, value): (&str, &String)| AnnotationChange {
        annotation: format!("{OVERRIDE_KEY_PREFIX}{name}"),
        value: None,
        was: Some(value.clone()),
        effect: format!("the sidecar determines the state of {name} again. Started containers keep running."),
    };
    Ok((snapshot.map(|snapshot| snapshot.sandbox.to_string()), overrides.into_iter().map(change).collect()))
}

/// Describes the state of `target` before the change, and names the containers that waited for `target`.
fn effect(view: &View, before: &Snapshot, target: &str) -> String {
    let was = before.states.get(target).map_or("unknown", |state| state.as_str());
    let held = view.containers.iter().find(|row| row.name == target).map(|row| row.holds_back.join(", "));
    let held = held.filter(|held| !held.is_empty()).unwrap_or_else(|| "no container".to_owned());
    format!("{target} was {was} until now (published state); it held back {held}")
}
