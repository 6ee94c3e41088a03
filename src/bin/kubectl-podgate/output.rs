//! Standard output and standard error of all commands.

use crate::error::{CommandError, CommandResult};
use podgate::core::text::{error_chain, sanitize};
use podgate::order::finding::Level;
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Writes `text` to standard output. Removes colors unless standard output is a terminal and NO_COLOR is unset.
/// Returns false if the reader has closed the pipe, as `head` does. A closed pipe is not an error.
pub(crate) fn write_stdout(text: &str) -> CommandResult<bool> {
    write_to(anstream::AutoStream::auto(std::io::stdout()), text)
}

/// Writes `text` to standard output, passed as `stdout`. Returns the same as [`write_stdout`].
pub(crate) fn write_to(mut stdout: impl Write, text: &str) -> CommandResult<bool> {
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write to standard output: {}", error_chain(&error)).into()),
    }
}

/// Writes the whole output of a successful command.
pub(crate) fn print(text: &str) -> CommandResult {
    write_stdout(text).map(|_| ExitCode::SUCCESS)
}

/// Returns `value` as indented JSON with a final line break.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    format!("{:#}\n", serde_json::json!(value))
}

/// Prints one line for each problem. Returns the exit code.
pub(crate) fn print_error(error: &CommandError) -> ExitCode {
    error.lines.iter().for_each(|line| print_stderr(Level::Error, line));
    error.kind.exit_code()
}

/// Prints the line `LEVEL: MESSAGE` on standard error, like clap. Adds no level to a message about a place in a file,
/// which already has the form `PLACE: LEVEL: MESSAGE`.
pub(crate) fn print_stderr(level: Level, message: &str) {
    let label = format!("{}: ", level.as_str());
    let label = if message.contains(&format!(": {label}")) { "" } else { &label };
    print_stderr_line(&format!("{label}{message}"));
}

/// Prints a line on standard error, without control characters that a manifest or the cluster may contain.
pub(crate) fn print_stderr_line(line: &str) {
    // Ignore an error, because a failed write to standard error cannot be reported anywhere.
    let _ = writeln!(std::io::stderr(), "{}", sanitize(line));
}
