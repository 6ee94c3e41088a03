//! Publishes the reason for a wait or failure: in the termination message, in the log and on standard error.

use crate::args::LogArgs;
use crate::failure::Failure;
use crate::output;
use podgate::edge::files::open_pipe_or_device;
use podgate::edge::log::{self, Target};
use std::path::PathBuf;
use std::process::ExitCode;
use tracing::{error, info};

pub(crate) struct Messenger {
    /// Prefix of messages, such as `podgate post-start: db`.
    prefix: String,
    termination_log: Option<PathBuf>,
    log_error: Option<String>,
    logs_to_stderr: bool,
}

impl Messenger {
    /// Creates a messenger, and starts logging to `--log-to`, or to `by_default` without that flag. An unusable log is
    /// not fatal. If `termination_log` is `None`, the termination message is left to the container's program.
    pub(crate) fn new(
        command: &str,
        container: Option<&str>,
        logs: &LogArgs,
        termination_log: Option<PathBuf>,
        by_default: Option<Target>,
    ) -> Messenger {
        let (target, log_error) = match &logs.log_to {
            Some(path) => match open_pipe_or_device(path) {
                Ok(file) => (Some(Target::File(file)), None),
                Err(error) => (None, Some(format!("{}: {error}", path.display()))),
            },
            None => (by_default, None),
        };
        let logs_to_stderr = matches!(target, Some(Target::Stderr));
        if let Some(target) = target {
            log::init(logs.log_format, logs.log_level, target);
        }
        let prefix = match container {
            Some(container) => format!("podgate {command}: {container}"),
            None => format!("podgate {command}"),
        };
        Messenger { prefix, termination_log, log_error, logs_to_stderr }
    }

    /// Logs the reason for the wait, and writes it as the termination message.
    pub(crate) fn publish_wait(&self, obstacles: &[String]) {
        let line = format!("{}: waiting for {}", self.prefix, obstacles.join("; "));
        info!("{line}");
        output::write_termination_message(self.termination_log.as_deref(), &output::short_line(&line));
    }

    pub(crate) fn clear_message(&self) {
        output::clear_termination_message(self.termination_log.as_deref());
    }

    /// Logs the failure, writes it as the termination message and to standard error, and returns its exit code.
    pub(crate) fn print_failure(&self, Failure(code, why): Failure) -> ExitCode {
        let note = self.log_error.as_ref().map(|error| format!(" (cannot open the log: {error})")).unwrap_or_default();
        let line = output::short_line(&format!("{}: {why}{note}", self.prefix));
        error!(code, "{line}");
        output::write_termination_message(self.termination_log.as_deref(), &line);
        if !self.logs_to_stderr {
            output::print_stderr(&line);
        }
        code.into()
    }
}
