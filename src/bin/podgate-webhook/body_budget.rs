//! Limits the total memory for request bodies. The webhook reserves memory as bytes arrive. When the budget is used up,
//! the oldest incomplete body loses its reservation. Small bodies never lose theirs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Size limit of a small body, in bytes. Most Pods have less than 20 KiB.
pub(crate) const SMALL_MAX: usize = 32 << 10;
/// Memory limit for all bodies together, in bytes.
const BUDGET: usize = 24 << 20;

/// Tracks the memory that each request body has reserved. Bodies are numbered in the order in which they began.
#[derive(Default)]
pub(crate) struct BodyBudget(Mutex<BTreeMap<u64, Body>>);

struct Body {
    size: usize,
    is_complete: bool,
    evicted: Arc<Notify>,
}

/// Reserved memory of one body, released when dropped.
pub(crate) struct Reservation<'a> {
    budget: &'a BodyBudget,
    number: u64,
    evicted: Arc<Notify>,
}

impl BodyBudget {
    pub(crate) fn reserve(&self) -> Reservation<'_> {
        let mut bodies = self.lock();
        let number = bodies.last_key_value().map_or(0, |(last, _)| last + 1);
        let evicted = Arc::<Notify>::default();
        bodies.insert(number, Body { size: 0, is_complete: false, evicted: Arc::clone(&evicted) });
        Reservation { budget: self, number, evicted }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Body>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation<'_> {
    /// Raises this reservation to `size` bytes in total. If the budget is exceeded, evicts incomplete bodies, the
    /// oldest first. This body may be among them. Keeps small bodies: even 512 of them, one for each connection, need
    /// less memory than the budget.
    pub(crate) fn grow(&self, size: usize) {
        let mut bodies = self.budget.lock();
        if let Some(body) = bodies.get_mut(&self.number) {
            body.size = size;
        }
        let mut excess = bodies.values().map(|body| body.size).sum::<usize>().saturating_sub(BUDGET);
        for body in bodies.values_mut().filter(|body| !body.is_complete && body.size > SMALL_MAX) {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(std::mem::take(&mut body.size));
            body.evicted.notify_one();
        }
    }

    /// Protects the body from eviction. Call this when the whole body has arrived.
    pub(crate) fn complete(&self) {
        if let Some(body) = self.budget.lock().get_mut(&self.number) {
            body.is_complete = true;
        }
    }

    /// Waits until the body is evicted. The caller must then drop the body.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.budget.lock().remove(&self.number);
    }
}
