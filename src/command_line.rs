//! Parses the command line of a program. `--help` prints a long help, and `-h` only its flags.

use clap::{Command, Error, Parser};
use std::ffi::OsString;

/// Parses `words`, of which the first is the program. No flag's help shows a variable, because a long help names all
/// variables once.
pub fn parse<T: Parser>(words: &[OsString]) -> Result<T, Error> {
    let is_short = words.iter().any(|word| word == "-h");
    let edit = |command: Command| {
        let command = command.mut_args(|arg| arg.hide_env(true));
        match is_short && command.get_after_help().is_some() {
            true => command.after_help("--help shows more."),
            false => command,
        }
    };
    T::from_arg_matches_mut(&mut edit(T::command()).mut_subcommands(edit).try_get_matches_from(words)?)
}
