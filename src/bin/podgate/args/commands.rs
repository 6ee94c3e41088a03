//! Flags of the commands that wait.

use super::values::{OnError, TetherMode, any_u32, container_name, duration, interval, log_output, pre_stop_condition};
use crate::signals;
use clap::Args as ClapArgs;
use podgate::core::argv::{Argv, Check};
use podgate::core::gate::OnTimeout;
use podgate::core::names;
use podgate::core::until::WaitCondition;
use podgate::edge::log::Format;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Volumes of podgate.
#[derive(Debug, ClapArgs)]
pub(crate) struct VolumeArgs {
    /// Directory of the sidecar's volume, the board
    #[arg(long, value_name = "DIR", env = "PODGATE_BOARD", default_value = names::BOARD_DIR)]
    pub(crate) board: PathBuf,
    /// Directory of this container's report
    #[arg(long = "self", value_name = "DIR", env = "PODGATE_SELF", default_value = names::SELF_DIR)]
    pub(crate) self_dir: PathBuf,
}

/// Flags of the wait, which `entrypoint` and `post-start` share: conditions, sources and time limits.
#[derive(Debug, ClapArgs)]
pub(crate) struct WaitArgs {
    /// Wait until CONTAINER is in STATE (default: Ready); repeatable
    #[arg(long, value_name = "CONTAINER[=STATE]", value_delimiter = ',')]
    pub(crate) until: Vec<WaitCondition>,
    /// Also wait until this check passes (forms below); repeatable
    #[arg(long, value_name = "URL")]
    pub(crate) check: Vec<Check>,
    /// Wait at most this long for one check
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) check_timeout: Duration,
    #[command(flatten)]
    pub(crate) volumes: VolumeArgs,
    /// Wait at most this long
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// At the time limit: fail (code 75) or continue
    #[arg(long, value_name = "ACTION", default_value = "fail")]
    pub(crate) on_timeout: OnTimeout,
    /// Exit at once (code 69) if the wait is pointless (see below)
    #[arg(long)]
    pub(crate) fail_fast: bool,
}

/// Times of the container's own probes.
#[derive(Debug, ClapArgs)]
pub(crate) struct ProbeTimes {
    /// Start its probes this long after the command
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) initial_delay: Duration,
    /// Report Ready when the probes pass for this long
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) passing_for: Duration,
}

/// Log format and destination.
#[derive(Debug, ClapArgs)]
pub(crate) struct LogArgs {
    /// Write log lines in this format: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: Format,
    /// Log at error, warn, info, debug or trace level
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: tracing::Level,
    /// Write the log to this output, such as /proc/1/fd/2
    #[arg(long, value_name = "FILE", value_parser = log_output)]
    pub(crate) log_to: Option<PathBuf>,
}

/// Destinations of messages.
#[derive(Debug, ClapArgs)]
pub(crate) struct MessageArgs {
    #[command(flatten)]
    pub(crate) logs: LogArgs,
    /// File for the reason of a wait
    #[arg(long, value_name = "FILE", env = "PODGATE_TERMINATION_LOG", default_value = names::TERMINATION_LOG)]
    pub(crate) termination_log: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PostStartArgs {
    /// Name this container; without --until, wait until it is Ready
    #[arg(long, value_name = "NAME", value_parser = container_name)]
    pub(crate) container: String,
    #[command(flatten)]
    pub(crate) waits: WaitArgs,
    /// Without a board, read this volume
    #[arg(long, value_name = "DIR", default_value = names::PODINFO_DIR)]
    pub(crate) podinfo: PathBuf,
    #[command(flatten)]
    pub(crate) times: ProbeTimes,
    /// Use this check instead if the sidecar dies while the hook runs
    #[arg(long, value_name = "URL")]
    pub(crate) fallback_check: Option<Check>,
    /// First run this command, the container's own postStart
    #[arg(long, value_name = "[\"COMMAND\",\"ARG\"]")]
    pub(crate) then: Option<Argv>,
    /// Leave a process that shows the sidecar this container's end
    #[arg(long)]
    pub(crate) tether: bool,
    #[command(flatten)]
    pub(crate) messages: MessageArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct EntrypointArgs {
    /// Use this container name in messages
    #[arg(long, value_name = "NAME", value_parser = container_name)]
    pub(crate) container: Option<String>,
    #[command(flatten)]
    pub(crate) waits: WaitArgs,
    /// Wait for a container by its own probe (below); repeatable
    #[arg(long, value_name = "'CONTAINER CHECK'", requires = "pod_ip", conflicts_with = "until")]
    pub(crate) ask: Vec<String>,
    /// Run without a sidecar, in the Pod with this IP address
    #[arg(long, value_name = "IP", env = names::POD_IP_VARIABLE, conflicts_with = "until")]
    pub(crate) pod_ip: Option<String>,
    /// Show the command's end by exec, parent or none
    #[arg(long, value_name = "MODE", default_value = "exec")]
    pub(crate) tether: TetherMode,
    /// Report Ready when the command passes this check; repeatable
    #[arg(long, value_name = "URL")]
    pub(crate) ready_check: Vec<Check>,
    #[command(flatten)]
    pub(crate) times: ProbeTimes,
    /// End the command after this long (exit code 75)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) command_timeout: Option<Duration>,
    /// End the command by this signal
    #[arg(long, value_name = "SIGNAL", default_value = "SIGTERM", value_parser = signals::from_name)]
    pub(crate) stop_signal: i32,
    /// Wait this long from the signal to SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// If the command fails: fail, or continue (exit 0)
    #[arg(long, value_name = "ACTION", default_value = "fail")]
    pub(crate) on_error: OnError,
    /// Write the exit code to FILE at the end, or FILE.err on failure
    #[arg(long, value_name = "FILE")]
    pub(crate) post_file: Option<PathBuf>,
    /// End the command after these have exited (code 0); repeatable
    #[arg(long, value_name = "CONTAINER", value_delimiter = ',', value_parser = container_name)]
    pub(crate) stop_after: Vec<String>,
    /// End the command (code 69) if this one restarts; repeatable
    #[arg(long, value_name = "CONTAINER", value_delimiter = ',', value_parser = container_name)]
    pub(crate) restart_with: Vec<String>,
    #[command(flatten)]
    pub(crate) messages: MessageArgs,
    /// The container's own command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PreStopArgs {
    /// Use this container name in messages
    #[arg(long, value_name = "NAME", value_parser = container_name)]
    pub(crate) container: Option<String>,
    /// Wait until CONTAINER has exited; repeatable
    #[arg(long, value_name = "CONTAINER[=Exited]", value_delimiter = ',', value_parser = pre_stop_condition)]
    pub(crate) until: Vec<WaitCondition>,
    /// Wait at most this long, less than the Pod's grace
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// Leave a process that shows the sidecar this container's end
    #[arg(long)]
    pub(crate) tether: bool,
    /// After the wait, run this command, the container's own preStop
    #[arg(long, value_name = "[\"COMMAND\",\"ARG\"]")]
    pub(crate) then: Option<Argv>,
    /// Reserve this part of --grace for --then
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) then_timeout: Duration,
    #[command(flatten)]
    pub(crate) volumes: VolumeArgs,
    #[command(flatten)]
    pub(crate) logs: LogArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ProbeArgs {
    /// Name this container
    #[arg(long, value_name = "NAME", value_parser = container_name)]
    pub(crate) container: String,
    /// Wait at most this long for one run of the command
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub(crate) check_timeout: Duration,
    #[command(flatten)]
    pub(crate) times: ProbeTimes,
    /// Fail if it has not passed within this time
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub(crate) limit: Duration,
    #[command(flatten)]
    pub(crate) volumes: VolumeArgs,
    /// The container's own probe
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct OpenedArgs {
    /// Also require this check (as in podgate check); repeatable
    #[arg(long, value_name = "URL")]
    pub(crate) check: Vec<Check>,
    /// Wait at most this long for one check
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub(crate) check_timeout: Duration,
    /// Wait until the gate is open and the checks pass
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: wait for the startupProbe that the sidecar runs
    #[arg(long)]
    pub(crate) sidecar_check: bool,
    /// With --wait: pass when Ready, or after this time
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration, requires = "container")]
    pub(crate) initial_delay: Duration,
    /// Name this container, for --initial-delay
    #[arg(long, value_name = "NAME", value_parser = container_name)]
    pub(crate) container: Option<String>,
    /// With --wait: start checks this long after the gate
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) check_delay: Duration,
    /// With --wait: check and count failures this often
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = interval)]
    pub(crate) check_period: Duration,
    /// With --wait: fail after this many failures
    #[arg(long, value_name = "NUMBER", default_value = "3", value_parser = any_u32)]
    pub(crate) failure_threshold: u32,
    /// Also pass while the gate waits, for a livenessProbe
    #[arg(long)]
    pub(crate) or_waiting: bool,
    /// Without a sidecar: watch process 1, send checks to this IP
    #[arg(long, value_name = "IP", env = names::POD_IP_VARIABLE, conflicts_with = "sidecar_check")]
    pub(crate) pod_ip: Option<String>,
    #[command(flatten)]
    pub(crate) volumes: VolumeArgs,
}

impl EntrypointArgs {
    /// Returns true if podgate must remain the command's parent.
    pub(crate) fn needs_parent(&self) -> bool {
        self.tether == TetherMode::Parent
            || self.command_timeout.is_some()
            || self.on_error == OnError::Continue
            || self.post_file.is_some()
            || !self.stop_after.is_empty()
            || !self.ready_check.is_empty()
            || !self.restart_with.is_empty()
    }
}
