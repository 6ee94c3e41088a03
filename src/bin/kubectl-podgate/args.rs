//! The command line: what all commands share. Each command's own arguments, and what its help teaches, are in its folder.

use crate::completion::cluster;
use crate::manifest::Source;
use crate::manifest::files::{self, Input};
use crate::{check, completion, inject, overrides, status, timeline, webhook};
use clap::{ArgAction, Args as ClapArgs, Parser, Subcommand};
use clap_complete::engine::ArgValueCompleter;
use podgate::core::exit::Exit;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
An order is declared on the Pod, or on a workload's Pod template:
  metadata:
    annotations:
      podgate.io/order: db, api, web

Examples:
  kubectl podgate check shop.yaml                                  will it work, and how?
  kubectl podgate inject -f shop.yaml | kubectl apply -f -
  kubectl podgate status -w shop-6bcbfd8758-sr5xs                  who waits for whom
  kubectl podgate timeline shop-6bcbfd8758-sr5xs                   how it went

See `kubectl podgate COMMAND --help`.";

/// Start the containers of a Pod in a declared order: check it, write it into manifests, watch it.
#[derive(Debug, Parser)]
#[command(name = "kubectl-podgate", bin_name = "kubectl podgate", version, after_help = HELP)]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(Box<check::Check>),
    Completion(completion::Completion),
    Inject(Box<inject::Inject>),
    #[command(hide = true)]
    Man(completion::Man),
    Override(overrides::Override),
    Status(status::Status),
    Timeline(timeline::Timeline),
    Uninject(inject::Uninject),
    Webhook(Box<webhook::Webhook>),
    /// Print the version
    Version,
}

/// Which manifests are read.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Manifests {
    /// Files, folders (their *.yaml, *.yml and *.json), or - for standard input
    #[arg(value_name = "FILE", required_unless_present = "named")]
    files: Vec<PathBuf>,
    /// The same, as kubectl has it; may be given several times
    #[arg(id = "named", short = 'f', long = "filename", value_name = "FILE", action = ArgAction::Append)]
    named: Vec<PathBuf>,
    /// Look through the folders in a folder too
    #[arg(short = 'R', long)]
    recursive: bool,
}

impl Manifests {
    /// Reads them.
    ///
    /// # Errors
    /// A line for each file that can't be read.
    pub(crate) fn read(&self) -> Result<Vec<(Input, Source)>, Vec<String>> {
        let named: Vec<PathBuf> = self.paths().cloned().collect();
        files::read(&named, self.recursive)
    }

    /// Whether standard input is among them.
    pub(crate) fn has_standard_input(&self) -> bool {
        self.paths().any(|path| path.as_os_str() == "-")
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(&self.named)
    }
}

/// Which cluster, as whom, and how patiently: the same for each command that asks one.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Connection {
    /// The namespace; by default that of the kubeconfig's context
    #[arg(short, long, value_name = "NAME", add = ArgValueCompleter::new(cluster::namespaces))]
    pub(crate) namespace: Option<String>,
    /// The kubeconfig's context; by default its current one
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(cluster::contexts))]
    pub(crate) context: Option<String>,
    /// The kubeconfig; by default what KUBECONFIG names, else ~/.kube/config, else the service account
    /// of the Pod that this runs in
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// How long the API server may take
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) request_timeout: Duration,
}

/// Takes `pod/NAME` too, as kubectl prints it.
pub(crate) fn pod_name(text: &str) -> Result<String, &'static str> {
    let name = ["pod/", "pods/", "po/"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    if !name.is_empty() && name.len() <= 253 && name.bytes().all(ok) {
        Ok(name.to_owned())
    } else {
        Err("no Pod's name")
    }
}

/// A time limit, between a millisecond and a day.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
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
