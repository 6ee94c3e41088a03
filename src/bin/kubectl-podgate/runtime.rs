//! What the commands that ask a cluster run on.

use crate::output::fail;
use std::process::ExitCode;

/// Runs `work` to its end; what it could not do is said in one line, and is exit code 1.
pub(crate) fn block_on(work: impl Future<Output = Result<ExitCode, String>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("can't start: {error}")),
    };
    runtime.block_on(work).unwrap_or_else(|what| fail(&what))
}
