//! The command line and its help texts.

mod commands;
mod help;
mod values;

pub(crate) use commands::{
    EntrypointArgs, LogArgs, MessageArgs, OpenedArgs, PostStartArgs, PreStopArgs, ProbeArgs, ProbeTimes, WaitArgs,
};
pub(crate) use values::{OnError, TetherMode};

use crate::output;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args as ClapArgs, CommandFactory, Parser, Subcommand};
use podgate::core::argv::Check;
use podgate::core::exit::Exit;
use podgate::core::names;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  64   invalid flag or argument
  69   the condition cannot be met
  75   timed out
  78   invalid setup: no board to read from, unknown container, or a file that cannot be written

Variables instead of flags: PODGATE_BOARD, PODGATE_SELF, PODGATE_TERMINATION_LOG, PODGATE_POD_IP.";

/// Start the containers of one Kubernetes Pod in a declared order.
#[derive(Debug, Parser)]
#[command(name = "podgate", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run as a postStart hook: wait until the container is Ready, before the next one starts
    #[command(after_help = help::POST_START_HELP)]
    PostStart(Box<PostStartArgs>),
    /// Run as a gate: wait until the conditions are met, then run the container's own command
    #[command(after_help = help::ENTRYPOINT_HELP)]
    Entrypoint(Box<EntrypointArgs>),
    /// Run as a preStop hook: keep the container until those that depend on it have exited
    #[command(after_help = help::PRE_STOP_HELP)]
    PreStop(Box<PreStopArgs>),
    /// Run as a startupProbe: pass once this container's gate has opened
    #[command(after_help = help::OPENED_HELP)]
    Opened(OpenedArgs),
    /// Run as a readinessProbe: repeat the container's own probe, and report a pass at once
    #[command(after_help = help::PROBE_HELP)]
    Probe(ProbeArgs),
    /// Copy this binary into a directory, atomically and executable by all users
    #[command(after_help = "Example:\n  podgate install /podgate/bin")]
    Install {
        /// Target directory; created if missing
        dir: PathBuf,
    },
    /// Run a check once: exit code 0 if it passes, 69 if it fails
    #[command(after_help = "Example:\n  podgate check tcp://127.0.0.1:5432")]
    Check(CheckArgs),
    /// Sleep for a duration, for hooks in images without a `sleep` command
    #[command(after_help = "Example:\n  podgate sleep 5s")]
    Sleep {
        /// Duration, such as 5s or 1m 30s
        #[arg(value_name = "DURATION", value_parser = values::duration)]
        duration: Duration,
    },
    /// Keep the tether for `post-start --tether` until the container ends
    #[command(hide = true)]
    Tether,
    /// Replace this process with a command
    #[command(hide = true)]
    Exec {
        /// Write the reason of a failure to this descriptor
        #[arg(long)]
        failure_to: Option<i32>,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Write the post file of `entrypoint --post-file`
    #[command(hide = true)]
    PostFile {
        path: PathBuf,
        code: u8,
        #[arg(long)]
        success: bool,
    },
    /// Print the version
    Version,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// Check to run, such as tcp://127.0.0.1:5432 (forms: podgate entrypoint --help)
    #[arg(value_name = "URL")]
    pub(crate) check: Check,
    /// Run the check in this process, which may then block
    #[arg(long, hide = true)]
    pub(crate) direct: bool,
    /// Send an HTTP check as a hook's request: any response passes
    #[arg(long)]
    pub(crate) hook: bool,
    /// Directory of the sidecar's volume, the board
    #[arg(long, value_name = "DIR", env = "PODGATE_BOARD", default_value = names::BOARD_DIR)]
    pub(crate) board: PathBuf,
    /// Let the command of the check write to this process's output
    #[arg(long, hide = true)]
    pub(crate) show: bool,
    /// Wait at most this long for the check
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::duration)]
    pub(crate) check_timeout: Duration,
}

/// Prints the error, writes it as the termination message and returns the exit code. Help and version exit with 0.
pub(crate) fn print_error(error: &clap::Error, words: &[OsString]) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Released;
    }
    let text = error.render().to_string();
    // Keep only the first paragraph, which contains the error and the flag, because a hook's output must be short.
    let first = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "no command given",
        _ => text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: "),
    };
    let args = Args::command();
    let command = words.get(1).and_then(|word| args.find_subcommand(word));
    let program = command.map_or("podgate".to_owned(), |command| format!("podgate {}", command.get_name()));
    let hint = match (error.get(ContextKind::InvalidArg), command) {
        (Some(ContextValue::String(wrong)), Some(command)) => similar_flag(wrong, command).unwrap_or_default(),
        _ => String::new(),
    };
    let line = output::short_line(&format!("{program}: {first}{hint}; see {program} --help"));
    // These commands run beside the container's program, which owns the termination message.
    let runs_beside_program = command.is_some_and(|it| ["pre-stop", "opened", "probe"].contains(&it.get_name()));
    if !runs_beside_program {
        // The flags could not be parsed, so only the environment can override the path.
        let path = std::env::var_os("PODGATE_TERMINATION_LOG").map_or(names::TERMINATION_LOG.into(), PathBuf::from);
        output::write_termination_message(Some(&path), &line);
    }
    output::print_stderr(&line);
    Exit::Usage
}

/// Returns a hint to the flag that differs from `wrong` in at most two neighboring characters. A smaller substitute for
/// clap's feature `suggestions`.
fn similar_flag(wrong: &str, command: &clap::Command) -> Option<String> {
    let wrong = wrong.strip_prefix("--")?;
    let is_similar = |flag: &&str| {
        let pairs = flag.bytes().zip(wrong.bytes());
        let reversed = flag.bytes().rev().zip(wrong.bytes().rev());
        let same = pairs.take_while(|(a, b)| a == b).count() + reversed.take_while(|(a, b)| a == b).count();
        *flag != wrong && same + 2 >= flag.len().max(wrong.len())
    };
    let flag = command.get_arguments().filter_map(clap::Arg::get_long).find(is_similar)?;
    Some(format!(" (did you mean --{flag}?)"))
}

#[cfg(test)]
mod tests;
