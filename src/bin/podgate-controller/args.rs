//! The command line of the controller.

use clap::{Args as ClapArgs, Parser, Subcommand};
use podgate::core::container::Container;
use podgate::core::container_list::parse_list;
use podgate::core::names;
use podgate::edge::log::Format;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
Runs as a native sidecar (an init container with restartPolicy: Always), or as the first container of the
Pod, with its own postStart hook `podgate-controller ready`. See manifests/pod.yaml.

Exit codes:
  0    told to end, after its own hook had succeeded
  64   wrong flag or argument
  78   the set-up is wrong: a volume is missing or can't be written
  143  told to end before its own hook had succeeded";

/// The sidecar that learns the state of a Pod's containers and publishes it.
#[derive(Debug, Parser)]
#[command(name = "podgate-controller", version, disable_help_subcommand = true, max_term_width = 100, after_help = HELP)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The sidecar's own postStart hook: returns when the controller has reset and raised the board
    Ready(ReadyArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct RunArgs {
    /// The Pod's containers, as a JSON list of objects with the Pod API's fields name, ports, startupProbe,
    /// readinessProbe, restartPolicy, and podgate's mode (post-start, entrypoint, none) and until
    #[arg(long, value_name = "JSON", env = "PODGATE_CONTAINERS", value_parser = parse_list)]
    pub(crate) containers: Option<ContainerList>,
    /// Where states are published: api (the board, then annotations) or board (no API at all; needs --containers)
    #[arg(long, value_name = "WHERE", env = "PODGATE_PUBLISH", default_value = "api")]
    pub(crate) publish: PublishTarget,
    /// This container's own name
    #[arg(long, value_name = "NAME", env = "PODGATE_NAME", default_value = "podgate")]
    pub(crate) name: String,
    /// The board: a volume that is writable here alone
    #[arg(long, value_name = "DIR", env = "PODGATE_BOARD", default_value = names::BOARD_DIR)]
    pub(crate) board: PathBuf,
    /// The volume of all containers' own folders
    #[arg(long = "self", value_name = "DIR", env = "PODGATE_SELF", default_value = names::SELF_DIR)]
    pub(crate) self_dir: PathBuf,
    /// The downward-API volume with the Pod's annotations
    #[arg(long, value_name = "DIR", env = "PODGATE_PODINFO", default_value = names::PODINFO_DIR)]
    pub(crate) podinfo: PathBuf,
    /// The agent to install on the board; by default the one beside this program
    #[arg(long, value_name = "FILE", env = "PODGATE_AGENT")]
    pub(crate) agent: Option<PathBuf>,
    /// The shortest interval between two probes of one container, for one whose log minds; 0s for none
    #[arg(long, value_name = "DURATION", env = "PODGATE_PROBE_FLOOR", default_value = "0s", value_parser = duration)]
    pub(crate) probe_floor: Duration,
    /// Serve Prometheus metrics here, at /metrics; by default no port is opened
    #[arg(long, value_name = "ADDRESS:PORT", env = "PODGATE_METRICS_ADDR")]
    pub(crate) metrics_addr: Option<SocketAddr>,
    /// How log lines are written: text or json
    #[arg(long, value_name = "FORMAT", env = "PODGATE_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: Format,
    /// What is logged: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", env = "PODGATE_LOG_LEVEL", default_value = "info")]
    pub(crate) log_level: tracing::Level,
    /// This Pod's name (metadata.name)
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub(crate) pod_name: Option<String>,
    /// This Pod's namespace (metadata.namespace)
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE")]
    pub(crate) pod_namespace: Option<String>,
    /// This Pod's UID (metadata.uid)
    #[arg(long, value_name = "UID", env = "POD_UID")]
    pub(crate) pod_uid: Option<String>,
    /// This Pod's addresses, separated by commas (status.podIPs); probes go to the first
    #[arg(long, value_name = "IP,…", env = "POD_IPS", value_parser = first_address)]
    pub(crate) pod_ips: Option<FirstPodIp>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReadyArgs {
    /// How long to wait for the controller
    #[arg(long, value_name = "DURATION", env = "PODGATE_READY_TIMEOUT", default_value = "1m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// The board
    #[arg(long, value_name = "DIR", env = "PODGATE_BOARD", default_value = names::BOARD_DIR)]
    pub(crate) board: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishTarget {
    Api,
    Board,
}

impl std::str::FromStr for PublishTarget {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "api" => Ok(PublishTarget::Api),
            "board" => Ok(PublishTarget::Board),
            _ => Err("it is api or board"),
        }
    }
}

/// Value of `--containers`. Named, because clap takes a `Vec` for a repeated flag.
pub(crate) type ContainerList = Vec<Container>;

/// Value of `--pod-ips`: none while the kubelet has none to give.
pub(crate) type FirstPodIp = Option<IpAddr>;

fn first_address(text: &str) -> Result<FirstPodIp, String> {
    match text.split(',').next().map(str::trim).filter(|first| !first.is_empty()) {
        None => Ok(None),
        Some(first) => first.parse().map(Some).map_err(|_| format!("{first:?} is no address")),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 500ms, 60s or 1m"))
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
    fn takes_the_first_of_several_addresses() {
        assert_eq!(first_address("10.1.2.3,fd00::1").unwrap(), Some("10.1.2.3".parse().unwrap()));
        assert_eq!(first_address("").unwrap(), None);
        assert!(first_address("x").is_err());
    }
}
