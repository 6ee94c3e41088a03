//! Async runtime of the commands that talk to a cluster or a registry.

use crate::output::fail_all;
use podgate::core::text::error_chain;
use std::process::ExitCode;

/// Runs `work` and returns its exit code. If `work` fails, prints the error as one line and returns exit code 1.
pub(crate) fn block_on(work: impl Future<Output = Result<ExitCode, String>>) -> ExitCode {
    run(async { work.await.map_err(|line| vec![line]) }).unwrap_or_else(|lines| fail_all(&lines))
}

/// Returns the result of `work`. Fails with one line for each error.
pub(crate) fn run<T>(work: impl Future<Output = Result<T, Vec<String>>>) -> Result<T, Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| vec![format!("cannot start the async runtime: {}", error_chain(&error))])?.block_on(work)
}
