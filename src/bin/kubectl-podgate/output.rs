//! Standard output, as all commands write to it.

use podgate::core::text::sanitize;
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Writes `text`; its colours are for a terminal alone, and not where NO_COLOR asks for none. A reader that has gone away has seen
/// enough: that is no error. Gives whether there is one still.
pub(crate) fn write_stdout(text: &str) -> Result<bool, String> {
    let mut out = anstream::AutoStream::auto(std::io::stdout());
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("can't write: {error}")),
    }
}

/// Writes all that a command has to write.
pub(crate) fn print(text: &str) -> ExitCode {
    write_stdout(text).map_or_else(|what| fail(&what), |_| ExitCode::SUCCESS)
}

/// `value` as the JSON that a command prints.
pub(crate) fn to_json(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string_pretty(value).map(|json| json + "\n").map_err(|error| format!("can't write: {error}"))
}

/// One line on what went wrong.
pub(crate) fn fail(what: &str) -> ExitCode {
    print_stderr(what);
    ExitCode::FAILURE
}

/// One line for each thing that went wrong.
pub(crate) fn fail_all(lines: &[String]) -> ExitCode {
    lines.iter().for_each(|line| print_stderr(line));
    ExitCode::FAILURE
}

/// One line beside the output, on which no manifest and no cluster can steer the terminal.
pub(crate) fn print_stderr(what: &str) {
    // Nobody is left to tell when this fails too.
    let _ = writeln!(std::io::stderr(), "kubectl podgate: {}", sanitize(what));
}
