//! Async runtime of the commands that talk to a cluster.

use crate::output::fail;
use std::process::ExitCode;

/// Runs `work` to its end. Prints its error as one line; the exit code is 1 then.
pub(crate) fn block_on(work: impl Future<Output = Result<ExitCode, String>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("can't start the async runtime: {error}")),
    };
    runtime.block_on(work).unwrap_or_else(|message| fail(&message))
}
