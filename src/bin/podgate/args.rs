//! The command line, and what its help teaches.

use clap::error::ErrorKind;
use clap::{Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand};
use podgate::core::argv::{Argv, Check};
use podgate::core::exit::Exit;
use podgate::core::names;
use podgate::core::until::Until;
use podgate::edge::log::Format;
use std::path::PathBuf;
use std::time::Duration;

/// Longest time limit, in seconds: a hundred years, which every clock can add.
const LONGEST: u64 = 100 * 365 * 24 * 60 * 60;

const EXIT_CODES: &str = "\
Exit codes:
  0    released
  64   wrong flag or argument
  69   the condition can never be met
  75   timed out
  78   the set-up is wrong: nothing to read from, no such container, a place that can't be written";

/// Lets the containers of one Kubernetes Pod start in a declared order.
#[derive(Debug, Parser)]
#[command(name = "podgate", version, disable_help_subcommand = true, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A container's postStart hook: returns when the container is Ready, so that the kubelet starts the next one only then
    #[command(after_help = POST_START_HELP)]
    PostStart(Box<PostStart>),
    /// Put this binary into a folder, in one step, executable by everybody
    #[command(after_help = "Example:\n  podgate install /podgate/bin")]
    Install(Install),
    /// Look once, as --check does: exit code 0 if it passes, 69 if not
    #[command(after_help = "Example:\n  podgate check tcp://127.0.0.1:5432")]
    Check(CheckOnce),
    /// Print the version
    Version,
}

const POST_START_HELP: &str = "\
Example, in a Pod's spec: `api`, which stands after `db`, starts when `db` is Ready.
  containers:
  - name: db
    lifecycle:
      postStart:
        exec:
          command: [/podgate/bin/podgate, post-start, --container, db, --timeout, 2m]
  - name: api

While a postStart hook runs, the kubelet shows the whole Pod as ContainerCreating and runs none of its
probes; the podgate sidecar judges readiness meanwhile. A hook that fails, a time-out included, makes the
kubelet kill this container and start the next one anyway: the reason then stands in the container's
status and in its termination message (kubectl describe pod).

Exit codes:
  0    released: the conditions hold; or the Pod has started before or is being deleted; or it timed
       out with --on-timeout continue
  64   wrong flag or argument
  69   the condition can never be met, or a container before this one has ended
  75   timed out
  78   the set-up is wrong: nothing to read from, no such container
  Where the command of --then fails, its own exit code (128 + N for signal N).";

#[derive(Debug, ClapArgs)]
pub(crate) struct PostStart {
    /// The container whose hook this is
    #[arg(long, value_name = "NAME", env = "PODGATE_CONTAINER", value_parser = container_name)]
    pub(crate) container: String,
    /// Wait until CONTAINER is in STATE (Started, Ready, Completed, Exited; Ready if left out); repeatable.
    /// By default the container itself
    #[arg(long, value_name = "CONTAINER[=STATE]", env = "PODGATE_UNTIL", value_delimiter = ',')]
    pub(crate) until: Vec<Until>,
    /// Wait until this passes too: tcp://HOST:PORT, http://HOST:PORT/PATH, exec:["COMMAND","ARG"],
    /// file:///PATH, file:///PATH+content; repeatable
    #[arg(long, value_name = "URL", env = "PODGATE_CHECK")]
    pub(crate) check: Vec<Check>,
    /// Judge by this check if the sidecar dies while the hook runs
    #[arg(long, value_name = "URL", env = "PODGATE_FALLBACK_CHECK")]
    pub(crate) fallback_check: Option<Check>,
    /// How long one check may take
    #[arg(long, value_name = "DURATION", env = "PODGATE_CHECK_TIMEOUT", default_value = "5s", value_parser = duration)]
    pub(crate) check_timeout: Duration,
    /// The downward-API volume with the Pod's annotations
    #[arg(long, value_name = "DIR", env = "PODGATE_PODINFO", default_value = names::PODINFO_DIR)]
    pub(crate) podinfo: PathBuf,
    /// The board: the volume that the sidecar writes and nobody else
    #[arg(long, value_name = "DIR", env = "PODGATE_BOARD", default_value = names::BOARD_DIR)]
    pub(crate) board: PathBuf,
    /// This container's own folder, for its report
    #[arg(long = "self", value_name = "DIR", env = "PODGATE_SELF", default_value = names::SELF_DIR)]
    pub(crate) own: PathBuf,
    /// How long to wait, the command of --then included
    #[arg(long, value_name = "DURATION", env = "PODGATE_TIMEOUT", default_value = "5m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// What a time-out does: fail (exit code 75) or continue (0)
    #[arg(long, value_name = "ACTION", env = "PODGATE_ON_TIMEOUT", default_value = "fail")]
    pub(crate) on_timeout: OnTimeout,
    /// How often to look where neither the bell nor inotify serves
    #[arg(long, value_name = "DURATION", env = "PODGATE_POLL_INTERVAL", default_value = "100ms", value_parser = interval)]
    pub(crate) poll_interval: Duration,
    /// Give up (69) as soon as a container waited for has ended for good, is in back-off, or its image can't be pulled
    #[arg(long, env = "PODGATE_FAIL_FAST", value_parser = truth)]
    pub(crate) fail_fast: bool,
    /// The container's own postStart command, run first; if it fails, so does the hook
    #[arg(long, value_name = "[\"COMMAND\",\"ARG\"]", env = "PODGATE_THEN")]
    pub(crate) then: Option<Argv>,
    /// How log lines are written: text or json
    #[arg(long, value_name = "FORMAT", env = "PODGATE_LOG_FORMAT", default_value_t = Format::Text)]
    pub(crate) log_format: Format,
    /// Append a log here, since Kubernetes throws a hook's output away; /proc/1/fd/2 is the container's own log
    #[arg(long, value_name = "FILE", env = "PODGATE_LOG_TO")]
    pub(crate) log_to: Option<PathBuf>,
    /// Where the reason for waiting or failing goes: the container's terminationMessagePath
    #[arg(long, value_name = "FILE", env = "PODGATE_TERMINATION_LOG", default_value = names::TERMINATION_LOG)]
    pub(crate) termination_log: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Install {
    /// The folder; made if it is missing
    pub(crate) dir: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CheckOnce {
    /// What to look at: tcp://HOST:PORT, http://HOST:PORT/PATH, exec:["COMMAND","ARG"], file:///PATH[+content]
    #[arg(value_name = "URL")]
    pub(crate) check: Check,
    /// How long it may take
    #[arg(long, value_name = "DURATION", env = "PODGATE_CHECK_TIMEOUT", default_value = "5s", value_parser = duration)]
    pub(crate) check_timeout: Duration,
}

/// Value of `--on-timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnTimeout {
    Fail,
    Continue,
}

impl std::str::FromStr for OnTimeout {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "fail" => Ok(OnTimeout::Fail),
            "continue" => Ok(OnTimeout::Continue),
            _ => Err("it is fail or continue"),
        }
    }
}

/// What people write into the environment. clap's own reading of it is 20 kB.
fn truth(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" | "" => Ok(false),
        _ => Err("it is true or false"),
    }
}

fn container_name(text: &str) -> Result<String, &'static str> {
    if names::is_container_name(text) { Ok(text.to_owned()) } else { Err("no container name") }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| format!("{error}; write 90s, 5m or 1h 30m"))?;
    if duration.as_secs() > LONGEST { Err("longer than a hundred years".to_owned()) } else { Ok(duration) }
}

fn interval(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|d| if d.is_zero() { Err("an interval can't be zero".to_owned()) } else { Ok(d) })
}

/// Reads the command line. Help shows the environment's names and not its values, which may be nobody's business.
pub(crate) fn parse() -> Result<Args, clap::Error> {
    let command = Args::command().mut_subcommands(|command| command.mut_args(|arg| arg.hide_env_values(true)));
    Args::from_arg_matches_mut(&mut command.try_get_matches()?)
}

/// Says what is wrong with the command line, where people look for a hook's reason too, and how it ends: help and version are
/// no mistakes.
pub(crate) fn refuse(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Released;
    }
    let text = error.render().to_string();
    // The first paragraph says what and where; under a hook that is all there is room for.
    let first = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "no command given",
        _ => text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: "),
    };
    let line = crate::explain::one_line(&format!("podgate: {first}; see podgate --help"));
    // Flags are what is wrong, so the environment alone can say where.
    let path = std::env::var_os("PODGATE_TERMINATION_LOG").map_or(names::TERMINATION_LOG.into(), PathBuf::from);
    crate::explain::termination_message(&path, &line);
    crate::explain::say(&line);
    Exit::Usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn help_lists_the_exit_codes_as_they_are() {
        let listed = [Exit::Released, Exit::Usage, Exit::Never, Exit::TimedOut, Exit::SetUp];
        for exit in listed {
            let line = format!("  {:<4} {}", exit.code(), exit.meaning());
            assert!(EXIT_CODES.contains(&line), "{line}");
        }
    }
}
