//! Arguments and help of `override`.

use crate::cluster::{ConnectionArgs, pod_name};
use clap::Args;
use podgate::core::names::is_container_name;
use podgate::core::state::State;

const HELP: &str = "\
Set the state of a container by hand, for example if its probe is wrong. This opens the hooks and
gates that wait for that state. The command writes one annotation per container,
override.podgate.io/CONTAINER=STATE@SANDBOX-ID, and prints which containers have waited for that
container. The sidecar receives the change through the API within a second, even while a postStart hook
blocks the rest of the Pod. The annotation is valid only in the current sandbox: a copy in a template or
another Pod has no effect.

States: Started, Ready, Completed (exit code 0), Failed (any other exit code). Completed and Failed
both open a gate that waits for Exited. The override stays in force until --remove, whatever happens
to the container. After --remove, the container has its own state again.

The command needs permission to patch the Pod, and a sidecar that uses the API (podgate.io/publish: api).
The API server's audit log records the user, and metadata.managedFields records the change under the
name kubectl-podgate.

Examples:
  kubectl podgate override ordered db=Ready
  kubectl podgate override ordered db=Ready migrate=Completed -n shop
  kubectl podgate override ordered db=Ready --dry-run
  kubectl podgate override ordered --remove db
  kubectl podgate override ordered --remove

Exit codes:
  0    success, also with --dry-run
  1    nothing was changed: no such Pod or container, sandbox unknown, no connection, or access denied
  64   wrong flag or argument";

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
pub(crate) fn validate(args: &Override) -> Result<(), String> {
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
