//! `kubectl podgate try`: previews a Pod's start on this machine, with podgate's real sidecar and agent as processes.
#![cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only the help is used"))]

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub(crate) use linux::{run, run_stand_in};

use crate::common_args::{OutputFormat, duration};
use clap::Args;
use podgate::order::declare::spec::SIDECAR_NAME;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

const HELP: &str = "\
Plans the Pod as `inject` does, then runs podgate's real sidecar and real gates as processes. It
needs no root and no cluster. Each container is a stand-in: a small program that answers probes on a
free local port and becomes Ready after --ready. No command of the manifest runs. A stand-in exits
with 0 if another container waits for its exit. A container that has a hook in the cluster has a
gate here; the output says so.

Ctrl-C stops the containers in order: with their preStop hooks and the Pod's grace period. A second
Ctrl-C stops at once.

Faults for --break (never replaces --ready):
  db@never         db never becomes Ready
  db@crash:3s      db exits with 1, 3 s after each of its starts
  db@kill:2s       db is killed once, 2 s after the Pod's start
  web@ignores-term web ignores SIGTERM, so it ends with the Pod's grace period (--stop)
  sidecar@kill:2s  podgate's sidecar is killed once, 2 s after the start (also: podgate@kill:2s)

Examples:
  kubectl podgate try
  kubectl podgate try shop.yaml --ready db=4s --break api@crash:3s
  helm template shop ./chart | kubectl podgate try - --workload Deployment/shop

Exit codes:
  0    all containers became Ready, in order
  1    the Pod cannot be run here: wrong manifest, or program missing
  2    a container started before its conditions were met, or stopped too early (--stop)
  3    not all containers became Ready within --timeout or before Ctrl-C";

/// Preview a Pod's start on this machine, without a cluster (Linux)
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct TryArgs {
    /// Read the Pod from this file, or - for stdin [default: piped input or an example]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Same as FILE, in kubectl's syntax
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "file")]
    pub(crate) named: Option<PathBuf>,
    /// Choose this object if several declare an order
    #[arg(long, value_name = "KIND/NAME")]
    pub(crate) workload: Option<String>,
    /// Set a container's time until Ready; repeatable [default: 500ms]
    #[arg(long, value_name = "NAME=DURATION", value_delimiter = ',', value_parser = ready_delay)]
    pub(crate) ready: Vec<(String, Duration)>,
    /// Cause a fault, such as db@never (all forms below); repeatable
    #[arg(long = "break", value_name = "NAME@FAULT")]
    pub(crate) faults: Vec<Fault>,
    /// Stop the containers in order at the end, with their preStop hooks
    #[arg(long)]
    pub(crate) stop: bool,
    /// Also show podgate's INFO log lines
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Wait at most this long until all containers are Ready
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Print text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) output: OutputFormat,
}

/// Play a container of try
#[derive(Debug, Args)]
pub(crate) struct StandInArgs {
    /// The part to play, as JSON
    #[arg(value_name = "PART")]
    pub(crate) part: String,
}

/// Names of podgate's sidecar in `--break`, unless the Pod has a container of this name.
pub(crate) const SIDECAR_FAULT_NAMES: [&str; 2] = [SIDECAR_NAME, "sidecar"];

/// One fault of `--break`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) container: String,
    pub(crate) kind: FaultKind,
}

/// Kind of a fault. The help describes each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Never,
    Crash(Duration),
    Kill(Duration),
    IgnoresTerm,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let split = text.split_once('@').filter(|(name, _)| !name.is_empty());
        let (name, fault) = split.ok_or("write NAME@FAULT, such as db@never")?;
        let (word, time) = fault.split_once(':').map_or((fault, None), |(word, time)| (word, Some(time)));
        let time = time.map(duration).transpose()?;
        let kind = match (word, time) {
            ("never", None) => FaultKind::Never,
            ("crash", Some(time)) => FaultKind::Crash(time),
            ("kill", Some(time)) => FaultKind::Kill(time),
            ("ignores-term", None) => FaultKind::IgnoresTerm,
            _ => return Err(format!("{fault:?} is not a fault; write never, crash:3s, kill:2s or ignores-term")),
        };
        Ok(Fault { container: name.to_owned(), kind })
    }
}

fn ready_delay(text: &str) -> Result<(String, Duration), String> {
    let (name, time) = text.split_once('=').ok_or("write NAME=DURATION, such as db=4s")?;
    Ok((name.to_owned(), duration(time)?))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &TryArgs) -> crate::error::CommandResult {
    Err("try needs Linux, because podgate's agent and sidecar are Linux programs; use a Linux machine".into())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run_stand_in(_: &StandInArgs) -> crate::error::CommandResult {
    Err("stand-in needs Linux".into())
}
