//! Limits the memory that request bodies take together.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Largest body of the lane for small ones, in bytes.
const SMALL_BODY_MAX: usize = 256 << 10;

/// Memory for bodies, in KiB. Small bodies have a lane of their own, so that a few huge ones do not block all others.
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
    /// Waits for room for a body of `size` bytes. It is held until the permit is dropped.
    pub(crate) async fn reserve(&self, size: usize) -> Option<SemaphorePermit<'_>> {
        let lane = if size <= SMALL_BODY_MAX { &self.small } else { &self.large };
        lane.acquire_many(u32::try_from(size.div_ceil(1024)).ok()?).await.ok()
    }
}
