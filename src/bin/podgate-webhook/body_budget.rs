//! Limits the total memory for request bodies, and for answers that clients have not read. The webhook reserves memory
//! as bytes arrive. When the budget is used up, the oldest incomplete body loses its reservation. Small bodies never
//! lose theirs.

use hyper::body::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Size limit of a small body, in bytes. Most Pods have less than 20 KiB.
pub(crate) const SMALL_BODY_MAX: usize = 32 << 10;
/// Memory limit for all bodies and answers together, in bytes.
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
pub(crate) struct Reservation {
    budget: Arc<BodyBudget>,
    number: u64,
    evicted: Arc<Notify>,
}

/// Answer with its reservation.
struct HeldAnswer(String, #[expect(dead_code, reason = "released when dropped")] Reservation);

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl BodyBudget {
    pub(crate) fn reserve(self: &Arc<Self>) -> Reservation {
        let mut bodies = self.lock();
        let number = bodies.last_key_value().map_or(0, |(last, _)| last + 1);
        let evicted = Arc::<Notify>::default();
        bodies.insert(number, Body { size: 0, is_complete: false, evicted: Arc::clone(&evicted) });
        Reservation { budget: Arc::clone(self), number, evicted }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Body>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// Sets the size of this reservation. If the budget is exceeded, evicts incomplete bodies, the oldest first, perhaps
    /// this one. Returns true if the budget is kept.
    /// Keeps small bodies: even 512 of them, one for each connection, need less memory than the budget.
    pub(crate) fn resize(&self, size: usize) -> bool {
        let mut bodies = self.budget.lock();
        bodies.entry(self.number).and_modify(|body| body.size = size);
        let mut excess = bodies.values().map(|body| body.size).sum::<usize>().saturating_sub(BUDGET);
        for body in bodies.values_mut().filter(|body| !body.is_complete && body.size > SMALL_BODY_MAX) {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(std::mem::take(&mut body.size));
            body.evicted.notify_one();
        }
        excess == 0
    }

    /// Returns `answer`, which keeps this reservation until it is written. Call this when the body is no longer needed.
    /// Returns `None` if the budget has no room for a large answer.
    pub(crate) fn hold(self, answer: String) -> Option<Bytes> {
        let has_room = self.resize(answer.len()) || answer.len() <= SMALL_BODY_MAX;
        has_room.then(|| Bytes::from_owner(HeldAnswer(answer, self)))
    }

    /// Protects the body from eviction. Call this when the whole body has arrived.
    pub(crate) fn mark_body_complete(&self) {
        self.budget.lock().entry(self.number).and_modify(|body| body.is_complete = true);
    }

    /// Waits until the body is evicted. The caller must then drop the body.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_large_answers_do_not_pile_up() {
        let budget = Arc::<BodyBudget>::default();
        let answer = |size: usize| {
            let reservation = budget.reserve();
            reservation.mark_body_complete();
            reservation.hold("x".repeat(size))
        };
        let mut unread: Vec<Bytes> = std::iter::from_fn(|| answer(1 << 20)).take(1000).collect();
        assert_eq!(unread.len(), BUDGET >> 20);
        assert_eq!(answer(SMALL_BODY_MAX).map(|small| small.len()), Some(SMALL_BODY_MAX));
        // A reader of a part of the answer still holds the whole answer.
        let part = unread.pop().unwrap().slice(..1);
        assert_eq!(answer(1 << 20), None);
        drop(part);
        assert!(answer(1 << 20).is_some());
    }
}
