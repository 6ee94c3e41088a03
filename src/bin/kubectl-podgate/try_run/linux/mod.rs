//! Runs a Pod as processes of this machine. `source`, `template_rewriter` and `run_plan` turn the manifest into
//! processes. `run` and `supervisor` run these processes. `history` judges the events, and `screen` prints the result.

mod board;
mod history;
mod run;
mod run_plan;
mod screen;
mod setup;
mod source;
mod stand_in;
mod supervisor;
mod template_rewriter;

pub(crate) use run::run;
pub(crate) use stand_in::run as run_stand_in;

/// Returns the wall-clock time in milliseconds since 1970. All processes of a run share this clock.
fn now_ms() -> i64 {
    let since = crate::clock::wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
