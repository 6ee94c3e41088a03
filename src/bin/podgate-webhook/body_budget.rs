//! Limits the total memory for request bodies. The webhook reserves memory as bytes arrive. When a budget is used up,
//! the oldest incomplete body loses its reservation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Maximum size of a small body, in bytes. Small bodies have a separate budget, so that a few large bodies can't evict
/// them.
const SMALL_BODY_MAX: usize = 256 << 10;
/// Memory limit for all small bodies together, in bytes.
const SMALL_BUDGET: usize = 8 << 20;
/// Memory limit for all larger bodies together, in bytes.
const LARGE_BUDGET: usize = 16 << 20;

#[derive(Default)]
pub(crate) struct BodyBudget(Mutex<State>);

#[derive(Default)]
struct State {
    /// Number of the next body. A body with a lower number began earlier.
    next: u64,
    bodies: BTreeMap<u64, Body>,
}

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
    /// Starts a reservation of 0 bytes.
    pub(crate) fn reserve(&self) -> Reservation<'_> {
        let mut state = self.lock();
        let (number, evicted) = (state.next, Arc::<Notify>::default());
        state.next += 1;
        state.bodies.insert(number, Body { size: 0, is_complete: false, evicted: Arc::clone(&evicted) });
        Reservation { budget: self, number, evicted }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation<'_> {
    /// Raises this reservation to `size` bytes in total. If the budget is exceeded, evicts incomplete bodies, the
    /// oldest first. This body may be among them.
    pub(crate) fn grow(&self, size: usize) {
        let mut state = self.budget.lock();
        let is_large = size > SMALL_BODY_MAX;
        if let Some(body) = state.bodies.get_mut(&self.number) {
            body.size = size;
        }
        let same_budget = |body: &&mut Body| (body.size > SMALL_BODY_MAX) == is_large;
        let mut excess = state.bodies.values_mut().filter(same_budget).map(|body| body.size).sum::<usize>();
        excess = excess.saturating_sub(if is_large { LARGE_BUDGET } else { SMALL_BUDGET });
        for body in state.bodies.values_mut().filter(same_budget).filter(|body| !body.is_complete) {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(std::mem::take(&mut body.size));
            body.evicted.notify_one();
        }
    }

    /// Protects the body from eviction. Call this when the whole body has arrived.
    pub(crate) fn complete(&self) {
        if let Some(body) = self.budget.lock().bodies.get_mut(&self.number) {
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
        self.budget.lock().bodies.remove(&self.number);
    }
}
