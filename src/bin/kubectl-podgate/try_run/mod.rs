//! `kubectl podgate try`: previews a Pod's start on this machine, with podgate's real sidecar and agent as processes.

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only the help is used"))]
mod args;
#[cfg(target_os = "linux")]
mod linux;

pub(crate) use args::{StandIn, Try};

#[cfg(target_os = "linux")]
pub(crate) use linux::{run, run_stand_in};

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &Try) -> std::process::ExitCode {
    crate::output::fail("try needs Linux, because podgate's agent and sidecar are Linux programs; use a Linux machine")
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run_stand_in(_: &StandIn) -> std::process::ExitCode {
    crate::output::fail("stand-in needs Linux")
}
