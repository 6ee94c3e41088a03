//! The arguments of `override`, and what its help teaches.

use crate::cluster::{ConnectionArgs, pod_name};
use crate::common_args::OutputFormat;
use clap::Args;
use podgate::core::names::is_container_name;
use podgate::core::state::State;

const HELP: &str = "\
For whoever knows better than a probe: it sets the state of a container by hand, and so opens the hooks and
gates that wait for that state. It writes one annotation, override.podgate.io/CONTAINER=STATE@SANDBOX-ID,
and says what that opens. The sidecar hears of it through the API within the second, also while a postStart
hook freezes the rest of the Pod. The annotation counts in this sandbox alone: no template, no later sandbox
and no other Pod can carry it.

States: Started, Ready, Completed, Failed. The container's own state counts again after --remove. Until
then it stays as it was set, whatever becomes of the container.

It needs the right to patch the Pod; the API server's audit log has who did it, and so does
metadata.managedFields, by the name kubectl-podgate.

Examples:
  kubectl podgate override ordered db=Ready
  kubectl podgate override ordered db=Ready migrate=Completed -n shop
  kubectl podgate override ordered db=Ready --dry-run
  kubectl podgate override ordered --remove db
  kubectl podgate override ordered --remove

Exit codes:
  0    done, or shown with --dry-run
  1    not done: no such Pod or container, no sandbox known yet, no connection, no right to
  64   wrong flag or argument";

/// Set a container's state by hand, and so open what waits for it
#[derive(Debug, Args)]
#[command(after_help = HELP, override_usage = "kubectl podgate override [OPTIONS] <POD> <CONTAINER=STATE>...\n       \
    kubectl podgate override [OPTIONS] <POD> --remove [CONTAINER]...")]
pub(crate) struct Override {
    /// The Pod's name
    #[arg(value_name = "POD", value_parser = pod_name)]
    pub(crate) pod: String,
    /// A container, and the state to set it to; with --remove, the container alone
    #[arg(value_name = "CONTAINER=STATE", value_parser = parse_target, required_unless_present = "remove")]
    pub(crate) wishes: Vec<OverrideTarget>,
    /// Take what was set by hand back: of these containers, or of all
    #[arg(long)]
    pub(crate) remove: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// What to print: sentences, or one JSON object
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: OutputFormat,
}

/// `CONTAINER=STATE`, or a container alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OverrideTarget {
    pub(crate) container: String,
    pub(crate) state: Option<State>,
}

/// The states that something can wait for.
const SETTABLE_STATES: [State; 4] = [State::Started, State::Ready, State::Completed, State::Failed];

fn parse_target(text: &str) -> Result<OverrideTarget, String> {
    let (name, state) = text.split_once('=').map_or((text, None), |(name, state)| (name, Some(state)));
    if !is_container_name(name) {
        return Err(format!("{name:?} is no container's name; write CONTAINER=STATE, such as db=Ready"));
    }
    let state = match state {
        None => None,
        Some(state) => Some(
            SETTABLE_STATES
                .into_iter()
                .find(|known| known.as_str() == state)
                .ok_or_else(|| unknown_state_message(state))?,
        ),
    };
    Ok(OverrideTarget { container: name.to_owned(), state })
}

fn unknown_state_message(state: &str) -> String {
    let words: Vec<&str> = SETTABLE_STATES.iter().map(|state| state.as_str()).collect();
    let words = words.join(", ");
    match state {
        "Exited" => {
            "Exited is a condition, and no state: set Completed (it exited with 0) or Failed (with another code)"
                .to_owned()
        }
        "Waiting" | "NotReady" => format!("nothing waits for {state}; the states that open something are {words}"),
        _ => format!("{state:?} is no state; it is one of {words}"),
    }
}

/// What clap can't say: a state is needed but for `--remove`, which takes none; and each container once.
pub(crate) fn validate(args: &Override) -> Result<(), String> {
    for (at, wish) in args.wishes.iter().enumerate() {
        let name = &wish.container;
        match (args.remove, wish.state) {
            (false, None) => return Err(format!("{name}: to which state? Write {name}=Ready, for example")),
            (true, Some(_)) => return Err(format!("{name}: --remove takes the container alone, without a state")),
            _ => {}
        }
        if args.wishes[..at].iter().any(|other| other.container == *name) {
            return Err(format!("{name} is named twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_state_that_something_can_wait_for() {
        assert_eq!(
            parse_target("db=Ready"),
            Ok(OverrideTarget { container: "db".to_owned(), state: Some(State::Ready) })
        );
        assert_eq!(parse_target("db"), Ok(OverrideTarget { container: "db".to_owned(), state: None }));
        for (text, says) in [
            ("", "no container's name"),
            ("=Ready", "no container's name"),
            ("Db=Ready", "no container's name"),
            ("db=", "\"\" is no state"),
            ("db=ready", "one of Started, Ready, Completed, Failed"),
            ("db=Exited", "set Completed"),
            ("db=NotReady", "nothing waits for NotReady"),
        ] {
            let error = parse_target(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
