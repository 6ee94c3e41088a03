//! Async runtime of the commands that talk to a cluster.

use crate::output::fail;
use podgate::core::text::error_chain;
use std::process::ExitCode;

/// Runs `work` and returns its exit code. If `work` fails, prints the error as one line and returns exit code 1.
pub(crate) fn block_on(work: impl Future<Output = Result<ExitCode, String>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start the async runtime: {}", error_chain(&error))),
    };
    runtime.block_on(work).unwrap_or_else(|message| fail(&message))
}
