//! Command line of `podgate-controller`.

use crate::failure::Result;
use clap::{Args as ClapArgs, Parser, Subcommand};
use podgate::core::container::Container;
use podgate::core::container_list::parse_list;
use podgate::core::names;
use podgate::edge::listen;
use podgate::edge::log::Format;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
Runs as a native sidecar (an init container with restartPolicy: Always), with the postStart hook
`podgate-controller ready`. Example:
https://github.com/podgate/podgate/blob/main/manifests/pod.yaml

Fields of --containers, as in the Pod API: name, ports, startupProbe, readinessProbe, restartPolicy,
restartPolicyRules; podgate's own: mode (entrypoint, hold, post-start or none), until, preStop,
quit, timeoutSeconds and continueOnTimeout (hold mode only).

Each flag has a variable, such as PODGATE_BOARD for --board. Exceptions: POD_NAME, POD_NAMESPACE,
POD_UID, POD_IPS, and PODGATE_READY_TIMEOUT for --timeout of `ready`.

Exit codes:
  0    stopped by a signal after its postStart hook succeeded
  64   wrong flag or argument
  78   wrong setup, for example a volume is missing or not writable
  143  stopped by a signal before its postStart hook succeeded";

/// The sidecar: determines the state of a Pod's containers and publishes it.
#[derive(Debug, Parser)]
#[command(name = "podgate-controller", version, max_term_width = 100, after_help = HELP)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run as the sidecar's postStart hook: wait until the sidecar has set up the board
    Ready(ReadyArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct RunArgs {
    /// Use this JSON list of containers; default: from the Pod's spec
    #[arg(long, value_name = "JSON", env = "PODGATE_CONTAINERS", value_parser = parse_list)]
    pub(crate) containers: Option<ContainerList>,
    /// Publish states to the API (api) or not (none)
    #[arg(long, value_name = "TARGET", env = "PODGATE_PUBLISH", default_value = "api")]
    pub(crate) publish: PublishTarget,
    /// Name the sidecar's own container
    #[arg(long, value_name = "NAME", env = "PODGATE_NAME", default_value = "podgate")]
    pub(crate) name: String,
    /// Publish the board on this volume
    #[arg(long, value_name = "DIR", env = "PODGATE_BOARD", default_value = names::BOARD_DIR)]
    pub(crate) board: PathBuf,
    /// Directory of the agents' reports
    #[arg(long = "self", value_name = "DIR", env = "PODGATE_SELF", default_value = names::SELF_DIR)]
    pub(crate) self_dir: PathBuf,
    /// Volume that shows kubelet restarts
    #[arg(long, value_name = "DIR", env = "PODGATE_PODINFO", default_value = names::PODINFO_DIR)]
    pub(crate) podinfo: PathBuf,
    /// Install this agent; default: the one next to this program
    #[arg(long, value_name = "FILE", env = "PODGATE_AGENT")]
    pub(crate) agent: Option<PathBuf>,
    /// Pause at least this long between two probes
    #[arg(long, value_name = "DURATION", env = "PODGATE_PROBE_FLOOR", default_value = "0s", value_parser = duration)]
    pub(crate) probe_floor: Duration,
    /// Serve /metrics on this address; `:PORT` for all
    #[arg(long, value_name = "ADDRESS:PORT", env = "PODGATE_METRICS_ADDR", value_parser = listen::parse)]
    pub(crate) metrics_addr: Option<SocketAddr>,
    /// Write log lines in this format: text or json
    #[arg(long, value_name = "FORMAT", env = "PODGATE_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: Format,
    /// Log at error, warn, info, debug or trace level
    #[arg(long, value_name = "LEVEL", env = "PODGATE_LOG_LEVEL", default_value = "info")]
    pub(crate) log_level: tracing::Level,
    /// Use this as the Pod's name (metadata.name)
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub(crate) pod_name: Option<String>,
    /// Use this as the Pod's namespace (metadata.namespace)
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE")]
    pub(crate) pod_namespace: Option<String>,
    /// Use this as the Pod's UID (metadata.uid)
    #[arg(long, value_name = "UID", env = "POD_UID")]
    pub(crate) pod_uid: Option<String>,
    /// Use these Pod IPs (status.podIPs); probes use the first
    #[arg(long, value_name = "IP,…", env = "POD_IPS", value_parser = first_address)]
    pub(crate) pod_ips: Option<FirstPodIp>,
}

/// Identity of the sidecar's own Pod and container.
#[derive(Debug, Default)]
pub(crate) struct PodIdentity {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: Option<String>,
    pub(crate) container: String,
}

impl RunArgs {
    /// Returns the Pod and container of the sidecar in the API; `None` with `--publish none`.
    pub(crate) fn api_identity(&self) -> Result<Option<PodIdentity>> {
        match (self.publish, &self.containers, &self.pod_name, &self.pod_namespace) {
            (PublishTarget::None, None, ..) => {
                Err("--publish none needs --containers, because the sidecar then reads no Pod spec".into())
            }
            (PublishTarget::None, ..) => Ok(None),
            (PublishTarget::Api, _, Some(name), Some(namespace)) => {
                let (name, namespace) = (name.clone(), namespace.clone());
                let (uid, container) = (self.pod_uid.clone(), self.name.clone());
                Ok(Some(PodIdentity { name, namespace, uid, container }))
            }
            (PublishTarget::Api, ..) => {
                Err("POD_NAME and POD_NAMESPACE are not set; set them with fieldRef, or pass --publish none".into())
            }
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReadyArgs {
    /// Wait at most this long for the sidecar
    #[arg(long, value_name = "DURATION", env = "PODGATE_READY_TIMEOUT", default_value = "1m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Wait for the board on this volume
    #[arg(long, value_name = "DIR", env = "PODGATE_BOARD", default_value = names::BOARD_DIR)]
    pub(crate) board: PathBuf,
}

podgate::words! {
    /// Value of `--publish`.
    PublishTarget { Api = "api", None = "none", }
}

/// Type of the `--containers` value. The alias is needed because clap treats a `Vec` field as a repeated flag.
pub(crate) type ContainerList = Vec<Container>;

/// Type of the `--pod-ips` value; `None` if the Pod had no IP address yet.
pub(crate) type FirstPodIp = Option<IpAddr>;

fn first_address(text: &str) -> Result<FirstPodIp, String> {
    match text.split(',').next().map(str::trim).filter(|first| !first.is_empty()) {
        None => Ok(None),
        Some(first) => first.parse().map(Some).map_err(|_| format!("{first:?} is not an IP address")),
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
    fn help_names_each_unusual_variable() {
        let command = Args::command();
        let ready = command.get_subcommands().flat_map(clap::Command::get_arguments);
        for arg in command.get_arguments().chain(ready).filter(|arg| arg.get_long().is_some()) {
            let flag = arg.get_long().unwrap_or_default();
            let variable = arg.get_env().map_or("", |name| name.to_str().unwrap());
            let usual = format!("PODGATE_{}", flag.replace('-', "_").to_uppercase());
            assert!(variable == usual || !variable.is_empty() && HELP.contains(variable), "{flag}: {variable}");
        }
    }
}
