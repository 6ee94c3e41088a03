//! Staying as the command's parent.

use crate::args::Entrypoint;
use crate::report::Reporter;
use crate::voice::{Failed, Voice};
use crate::wait::Place;
use podgate::core::argv::Check;
use podgate::edge::tether::Tether;
use std::process::ExitCode;

/// What the parent has to work with.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) args: Entrypoint,
    /// Checks of this container itself.
    pub(super) own_checks: Vec<Check>,
    pub(super) place: Place,
    pub(super) reporter: Reporter,
    pub(super) tether: Option<Tether>,
}

/// Runs the command to its end.
pub(super) fn run(plan: Plan, voice: &Voice) -> Result<ExitCode, Failed> {
    let _ = (plan, voice);
    todo!()
}

/// The gate has failed: the command will not run.
pub(super) fn never_ran(args: &Entrypoint, failed: &Failed) {
    let _ = (args, failed);
}
