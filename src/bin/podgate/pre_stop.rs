//! `podgate pre-stop`: a container's preStop hook, which stays until those who use the container are gone.

use crate::args::PreStop;
use std::process::ExitCode;

pub(crate) fn run(args: PreStop) -> ExitCode {
    let _ = args;
    todo!()
}
