//! The command line, and what its help teaches.

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use podgate::core::exit::Exit;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
Example:
  kubectl podgate status ordered -n shop

See `kubectl podgate COMMAND --help`.";

/// See how the ordered start of a Pod stands.
#[derive(Debug, Parser)]
#[command(name = "kubectl-podgate", bin_name = "kubectl podgate", version, after_help = HELP)]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show each container of a Pod: its state, what it waits for, what it holds back
    #[command(after_help = STATUS_HELP)]
    Status(Status),
    /// Print the version
    Version,
}

const STATUS_HELP: &str = "\
While a container's postStart hook runs, the kubelet says ContainerCreating (or PodInitializing) of all
containers of the Pod, and nothing else. This shows what podgate knows meanwhile, with the kubelet's own
word beside it.

Examples:
  kubectl podgate status ordered
  kubectl podgate status ordered -n shop --context test
  kubectl podgate status ordered -o json | jq -r '.containers[] | \"\\(.name) \\(.state)\"'
  until kubectl podgate status ordered; do sleep 1; done

Exit codes:
  0    all containers have started
  1    the Pod could not be read: no such Pod, no connection, no right to
  3    not all containers have started, or the Pod is being deleted
  64   wrong flag or argument";

#[derive(Debug, ClapArgs)]
pub(crate) struct Status {
    /// The Pod's name
    #[arg(value_name = "POD", value_parser = pod_name)]
    pub(crate) pod: String,
    /// Its namespace; by default that of the kubeconfig's context
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// The kubeconfig's context; by default its current one
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The kubeconfig; by default what KUBECONFIG names, else ~/.kube/config, else the service account
    /// of the Pod that this runs in
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// How long the API server may take
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) request_timeout: Duration,
    /// What to print: a table and sentences, or one JSON object
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
}

/// Value of `--output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    // A table and sentences.
    Text,
    // One object, as docs/kubectl-podgate.md promises it.
    Json,
}

/// Takes `pod/NAME` too, as kubectl prints it.
fn pod_name(text: &str) -> Result<String, &'static str> {
    let name = ["pod/", "pods/", "po/"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    if !name.is_empty() && name.len() <= 253 && name.bytes().all(ok) {
        Ok(name.to_owned())
    } else {
        Err("no Pod's name")
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| format!("{error}; write 15s or 1m"))?;
    if (Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60)).contains(&duration) {
        Ok(duration)
    } else {
        Err("must be between 1ms and 1day".to_owned())
    }
}

/// Says what is wrong with the command line; help and version are no mistakes.
pub(crate) fn refuse(error: &clap::Error) -> Exit {
    let _ = error.print();
    if error.use_stderr() { Exit::Usage } else { Exit::Released }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn takes_a_pod_as_kubectl_prints_it() {
        for text in ["db-0", "pod/db-0", "pods/db-0", "po/db-0"] {
            assert_eq!(pod_name(text), Ok("db-0".to_owned()), "{text}");
        }
        for text in ["", "pod/", "a/b", "deployment/x", "../x", "A", "a b", "a?x=1", "a%2f"] {
            assert!(pod_name(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_time_limit_is_neither_nothing_nor_for_ever() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        for text in ["", "0s", "1", "2days", "-1s", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }
}
