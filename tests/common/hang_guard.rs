//! Time limit of the tests.

use std::time::Duration;

/// Time limit for everything that normally takes milliseconds or a few seconds. It only ends a test that hangs: the
/// machine may be busy, so no test asserts that something is fast.
pub(crate) const HANG_GUARD: Duration = Duration::from_secs(30);
