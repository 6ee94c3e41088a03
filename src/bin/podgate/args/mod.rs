//! The command line, and what its help teaches.

mod commands;
mod values;

pub(crate) use commands::{Entrypoint, LogArgs, MessageArgs, Opened, PostStart, PreStop};
pub(crate) use values::{ExitCodeSource, OnFailure, OnProviderRestart, TetherMode};

use clap::error::ErrorKind;
use clap::{Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand};
use podgate::core::argv::Check;
use podgate::core::exit::Exit;
use podgate::core::names;
use std::path::PathBuf;
use std::time::Duration;

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
    #[command(after_help = commands::POST_START_HELP)]
    PostStart(Box<PostStart>),
    /// A gate in front of a container's own command, which runs when the conditions hold
    #[command(after_help = commands::ENTRYPOINT_HELP)]
    Entrypoint(Box<Entrypoint>),
    /// A container's preStop hook: stays until those who use the container are gone
    #[command(after_help = commands::PRE_STOP_HELP)]
    PreStop(Box<PreStop>),
    /// A startupProbe: passes when this container's gate has opened
    #[command(after_help = commands::OPENED_HELP)]
    Opened(Opened),
    /// Put this binary into a folder, in one step, executable by everybody
    #[command(after_help = "Example:\n  podgate install /podgate/bin")]
    Install {
        /// The folder; made if it is missing
        dir: PathBuf,
    },
    /// Look once, as --check does: exit code 0 if it passes, 69 if not
    #[command(after_help = "Example:\n  podgate check tcp://127.0.0.1:5432")]
    Check(CheckArgs),
    /// Wait for so long: a hook's `sleep` as a command, for images that have none
    #[command(after_help = "Example:\n  podgate sleep 5s")]
    Sleep {
        /// How long
        #[arg(value_name = "DURATION", value_parser = values::duration)]
        duration: Duration,
    },
    /// Holds the tether that `post-start --tether` hands it; ends with its container
    #[command(hide = true)]
    Hold,
    /// Print the version
    Version,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// What to look at: tcp://HOST:PORT, http://HOST:PORT/PATH, exec:["COMMAND","ARG"], file:///PATH[+content]
    #[arg(value_name = "URL")]
    pub(crate) check: Check,
    /// How long it may take
    #[arg(long, value_name = "DURATION", env = "PODGATE_CHECK_TIMEOUT", default_value = "5s", value_parser = values::duration)]
    pub(crate) check_timeout: Duration,
}

/// Reads the command line. Help shows the environment's names and not its values, which may be nobody's business.
pub(crate) fn parse() -> Result<Args, clap::Error> {
    let command = Args::command().mut_subcommands(|command| command.mut_args(|arg| arg.hide_env_values(true)));
    Args::from_arg_matches_mut(&mut command.try_get_matches()?)
}

/// Says what is wrong with the command line, where people look for a hook's reason too, and how it ends: help and version are
/// no mistakes.
pub(crate) fn print_error(error: &clap::Error) -> Exit {
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
    let line = crate::gate::output::one_line(&format!("podgate: {first}; see podgate --help"));
    // Beside a program that runs, the last words are its own.
    let beside = std::env::args_os().nth(1).is_some_and(|command| command == "pre-stop" || command == "opened");
    if !beside {
        // Flags are what is wrong, so the environment alone can say where.
        let path = std::env::var_os("PODGATE_TERMINATION_LOG").map_or(names::TERMINATION_LOG.into(), PathBuf::from);
        crate::gate::output::write_termination_message(&path, &line);
    }
    crate::gate::output::print_stderr(&line);
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
        let listed = [Exit::Released, Exit::Usage, Exit::NeverMet, Exit::TimedOut, Exit::BadSetup];
        for exit in listed {
            assert!(EXIT_CODES.contains(&format!("\n  {:<4} ", exit.code())), "{exit:?}");
        }
    }
}
