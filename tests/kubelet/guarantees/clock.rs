//! Injects faults of the wall clock.

use super::cell::Cell;
use super::fault_run::CellSetup;
use crate::clock::wall_ms;
use crate::pod::{Pod, STEP_FILE};
use podgate::core::names;
use std::fs;
use std::time::{Duration, SystemTime};

const HOUR: f64 = 3600.0;

/// Steps the clock an hour forward, back, and forward again while a hook or gate waits for `db`. Only the sidecar, the
/// hooks and the gates read the stepped clock. The node's own clock does not change.
pub(super) fn clock_steps(setup: &CellSetup<'_>) -> Cell {
    let fault_run = setup.begin(&Pod::new("chain", setup.chain(&[], 8000)).with_stepping_clock(HOUR as i64));
    fault_run.wait_until_db_is_awaited(0);
    let since = wall_ms();
    let step_file = format!("/proc/{}/root{STEP_FILE}", fault_run.run.pid("podgate").expect("the sidecar runs"));
    let step_forward = || fs::write(&step_file, "").expect("the board is writable from the node");
    step_forward();
    fault_run.settle();
    fs::remove_file(&step_file).expect("the step file exists");
    fault_run.settle();
    step_forward();
    fault_run.settle_for(Duration::from_secs(1));
    let message = fault_run.waiter_message();
    fault_run.make_ready("db");
    let cell = fault_run.finish(since, &format!("`{message}`"));
    // Check that the sidecar read the stepped clock.
    let board = fault_run.run.board_annotations("db").expect("a board");
    let seen = humantime::parse_rfc3339(&board[names::LAST_SEEN_TIME_KEY]).expect("a time");
    let ahead = seen.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64() - wall_ms() / 1000.0;
    assert!((HOUR - 120.0..HOUR + 60.0).contains(&ahead), "the sidecar's clock is {ahead} s ahead: {board:?}");
    cell
}
