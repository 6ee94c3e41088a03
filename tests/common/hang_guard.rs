//! Time limit of the tests.

use std::time::Duration;

/// Time limit for everything that normally takes milliseconds or a few seconds. The limit only ends a test that hangs.
/// No test asserts that something is fast, because the machine may be busy.
pub(crate) const HANG_GUARD: Duration = Duration::from_secs(30);
