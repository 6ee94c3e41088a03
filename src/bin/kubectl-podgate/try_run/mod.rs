//! `kubectl podgate try`: previews a Pod's start on this machine, with podgate's real sidecar and agent as processes.
//!
//! | file | purpose |
//! |---|---|
//! | `args` | flags and help |
//! | `example` | the built-in Pod |
//! | `programs` | finds agent and sidecar |
//! | `source` | reads the template and plans it for a cluster |
//! | `stage` | rewrites the template so that it runs here |
//! | `script` | turns the injected template into processes |
//! | `guard` | scratch folder, and the clean-up after every end |
//! | `stand_in` | the program that plays a container |
//! | `supervisor` | runs one container as the kubelet does |
//! | `board` | reads the states that the sidecar publishes |
//! | `run` | the main loop |
//! | `history` | what happened, and the verdict |
//! | `screen`, `chart` | output |

mod args;
#[cfg(target_os = "linux")]
mod board;
#[cfg(target_os = "linux")]
mod chart;
#[cfg(target_os = "linux")]
mod example;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod history;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod screen;
#[cfg(target_os = "linux")]
mod script;
#[cfg(target_os = "linux")]
mod source;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod stand_in;
#[cfg(target_os = "linux")]
mod supervisor;

pub(crate) use args::{StandIn, Try};

#[cfg(not(target_os = "linux"))]
use crate::output::fail;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
pub(crate) fn run(args: &Try) -> ExitCode {
    run::run(args).unwrap_or_else(|refusal| {
        let code = crate::output::fail_all(&refusal.lines);
        if refusal.is_usage { podgate::core::exit::Exit::Usage.into() } else { code }
    })
}

#[cfg(target_os = "linux")]
pub(crate) fn run_stand_in(args: &StandIn) -> ExitCode {
    stand_in::run(args)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &Try) -> ExitCode {
    fail("try needs Linux, because podgate's agent and sidecar are Linux programs; use a Linux machine or container")
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run_stand_in(_: &StandIn) -> ExitCode {
    fail("stand-in needs Linux")
}

/// Reason why the Pod can't be run, one line for each problem.
#[derive(Debug)]
struct Refusal {
    lines: Vec<String>,
    /// True if a flag is wrong.
    is_usage: bool,
}

impl Refusal {
    fn new(line: impl Into<String>) -> Refusal {
        Refusal { lines: vec![line.into()], is_usage: false }
    }
}

impl From<String> for Refusal {
    fn from(line: String) -> Refusal {
        Refusal::new(line)
    }
}

/// Returns the wall-clock time in milliseconds since 1970. All processes of a run share this clock.
#[cfg(target_os = "linux")]
fn now_ms() -> i64 {
    let since = crate::clock::wall_time().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
