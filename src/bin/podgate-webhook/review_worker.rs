//! Runs reviews on a worker thread, one at a time. This limits memory to that of one review. A slow review does not
//! delay connections or the status port.

use crate::clock::now;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Time limit for one review, including the wait for earlier reviews. A review of 200 containers takes about 0.5 s. The
/// API server waits for 5 s.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(3);

/// Reason why a review has no result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// This review exceeded `REVIEW_TIMEOUT`, or an earlier review exceeded it and still runs.
    Overdue,
    Panicked,
}

pub(crate) struct ReviewWorker {
    seat: Arc<Semaphore>,
    /// Start time of the running review.
    running_since: Arc<Mutex<Option<Instant>>>,
}

impl Default for ReviewWorker {
    fn default() -> ReviewWorker {
        ReviewWorker { seat: Arc::new(Semaphore::new(1)), running_since: Arc::default() }
    }
}

impl ReviewWorker {
    /// Runs `review` after the earlier reviews.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        review: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let set_running = |since: &Mutex<_>, to| *since.lock().unwrap_or_else(PoisonError::into_inner) = to;
        let since = *self.running_since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.is_some_and(|since| since.elapsed() > REVIEW_TIMEOUT) {
            return Err(Failure::Overdue);
        }
        let (seat, running_since) = (Arc::clone(&self.seat), Arc::clone(&self.running_since));
        let result = async {
            let seat = seat.acquire_owned().await.ok();
            let work = spawn_blocking(move || {
                set_running(&running_since, Some(now()));
                let result = catch_unwind(AssertUnwindSafe(review));
                set_running(&running_since, None);
                drop(seat);
                result
            });
            work.await.ok()?.ok()
        };
        match timeout(REVIEW_TIMEOUT, result).await {
            Ok(result) => result.ok_or(Failure::Panicked),
            Err(_) => Err(Failure::Overdue),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[tokio::test]
    async fn reviews_are_refused_while_one_is_overdue() {
        let worker = ReviewWorker::default();
        assert_eq!(worker.run(|| 1).await, Ok(1));
        assert_eq!(worker.run(|| -> u8 { panic!("expected by the test") }).await, Err(Failure::Panicked));
        let (release, released) = channel::<()>();
        let slow = worker.run(move || released.recv().is_err());
        // The second review waits for the first one, and then times out too.
        let (slow, waiting) = tokio::join!(slow, worker.run(|| 2));
        assert_eq!((slow, waiting), (Err(Failure::Overdue), Err(Failure::Overdue)));
        let since = now();
        for _ in 0..100 {
            assert_eq!(worker.run(|| 3).await, Err(Failure::Overdue));
        }
        assert!(since.elapsed() < REVIEW_TIMEOUT, "the worker must refuse the review at once");
        drop(release);
        while worker.run(|| 4).await != Ok(4) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
