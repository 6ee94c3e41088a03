//! Limits the total memory for request bodies.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Largest body that counts as small, in bytes.
const SMALL_BODY_MAX: usize = 256 << 10;

/// Free memory for bodies, in KiB. Small bodies have a separate budget, so that a few large ones do not block them.
pub(crate) struct BodyBudget {
    small: Semaphore,
    large: Semaphore,
}

impl Default for BodyBudget {
    fn default() -> BodyBudget {
        BodyBudget { small: Semaphore::new(16 << 10), large: Semaphore::new(24 << 10) }
    }
}

impl BodyBudget {
    /// Waits for memory for a body of `size` bytes and reserves it until the permit is dropped.
    pub(crate) async fn reserve(&self, size: usize) -> Option<SemaphorePermit<'_>> {
        let budget = if size <= SMALL_BODY_MAX { &self.small } else { &self.large };
        budget.acquire_many(u32::try_from(size.div_ceil(1024)).ok()?).await.ok()
    }
}
