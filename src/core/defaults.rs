//! Default time limits of the agent's flags. `inject` omits a flag whose value is the default. If a flag is missing,
//! `check` assumes the default.

use std::time::Duration;

/// Time limit of a gate or postStart hook, if neither `--timeout` nor `podgate.io/timeout` is set.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Time limit of one check that a gate or postStart hook runs (`--check-timeout`).
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit of `podgate probe`, which repeats a readinessProbe's command until the command passes (`--limit`).
pub const PROBE_REPEAT_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Time limit of a preStop hook (`--grace`).
pub const PRE_STOP_GRACE: Duration = Duration::from_secs(25);
/// Part of [`PRE_STOP_GRACE`] that is reserved for the user's own preStop hook (`--then-timeout`).
pub const THEN_RESERVE: Duration = Duration::from_secs(5);
