//! The wall clock jumps.

use super::cell::Cell;
use super::fault_run::CellSetup;
use crate::clock::wall_ms;
use crate::pod::{Pod, STEP_FILE};
use podgate::core::names;
use std::fs;
use std::time::{Duration, SystemTime};

const HOUR: f64 = 3600.0;

/// By an hour forth, back, and forth again, while `db` is awaited. A node's own clock is everybody's: it is the sidecar, the
/// hooks and the gates that see it step.
pub(super) fn steps(stage: &CellSetup<'_>) -> Cell {
    let course = stage.begin(&Pod::new("chain", stage.chain(&[], 8000)).with_stepping_clock(HOUR as i64));
    course.wait_until_db_is_awaited(0);
    let since = wall_ms();
    let step = format!("/proc/{}/root{STEP_FILE}", course.run.pid("podgate").expect("the sidecar runs"));
    let forth = || fs::write(&step, "").expect("the board, from the node");
    forth();
    course.settle();
    fs::remove_file(&step).expect("what was written");
    course.settle();
    forth();
    course.settle_for(Duration::from_secs(1));
    let words = course.waiter_message();
    course.make_ready("db");
    let cell = course.finish(since, &format!("`{words}`"));
    // They have seen it.
    let board = course.run.board_annotations("db").expect("a board");
    let seen = humantime::parse_rfc3339(&board[names::SANDBOX_SEEN]).expect("a time");
    let ahead = seen.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64() - wall_ms() / 1000.0;
    assert!((HOUR - 120.0..HOUR + 60.0).contains(&ahead), "{ahead} s ahead: {board:?}");
    cell
}
