//! Limits the load that one container or Pod can cause: requests to the API server, restarts of its probes, changes of
//! the board, and CPU time for events. Also limits how often parts of the sidecar restart after a panic. No I/O.

use std::time::{Duration, Instant};

/// Pause before the first restart after a panic.
const RESTART_DELAY: Duration = Duration::from_millis(100);
const MAX_RESTART_DELAY: Duration = Duration::from_secs(5);

/// Returns the pause before a restart after a panic. `last` is the previous pause, at first zero; `ran_for` is the time
/// from the last start to the panic.
pub(crate) fn panic_restart_delay(last: Duration, ran_for: Duration) -> Duration {
    if ran_for > MAX_RESTART_DELAY { RESTART_DELAY } else { (last * 2).clamp(RESTART_DELAY, MAX_RESTART_DELAY) }
}

/// Token bucket: at first `BURST` tokens, then one token every `SECONDS` seconds.
#[derive(Debug, Default)]
pub(crate) struct TokenBucket<const BURST: u32 = 10, const SECONDS: u64 = 10> {
    full_at: Option<Instant>,
}

/// Limits the changes of a container's directory. Allows ten restarts in a row, with about six changes each.
pub(crate) type ReportBucket = TokenBucket<60, 1>;

impl<const BURST: u32, const SECONDS: u64> TokenBucket<BURST, SECONDS> {
    const INTERVAL: Duration = Duration::from_secs(SECONDS);

    /// Takes a token. If the bucket is empty, fails with the time of the next token.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        if let Some(at) = self.ready_from().filter(|at| *at > now) {
            return Err(at);
        }
        self.reserve(now);
        Ok(())
    }

    /// Takes a token, or the next token if the bucket is empty. Returns the time from which the token is valid.
    pub(crate) fn reserve(&mut self, now: Instant) -> Instant {
        let at = self.ready_from().map_or(now, |at| at.max(now));
        self.full_at = Some(self.full_at.map_or(at, |full_at| full_at.max(at)) + Self::INTERVAL);
        at
    }

    /// Returns the time of the next token, which may be in the past; `None` before the first token was taken.
    pub(crate) fn ready_from(&self) -> Option<Instant> {
        self.full_at?.checked_sub(Self::INTERVAL * (BURST - 1))
    }
}

/// Limits the CPU time for handling events: at first to `BURST`, later to 1 / `SHARE` of the elapsed time.
#[derive(Debug, Default)]
pub(crate) struct CpuBucket {
    full_at: Option<Instant>,
}

impl CpuBucket {
    const BURST: Duration = Duration::from_millis(200);
    const SHARE: u32 = 20;

    /// Records `used`, the CPU time for the handling of the last event.
    pub(crate) fn charge(&mut self, used: Duration, now: Instant) {
        self.full_at = Some(self.full_at.map_or(now, |full_at| full_at.max(now)) + used * Self::SHARE);
    }

    /// Returns the time from which the next event can be handled, which may be in the past.
    pub(crate) fn ready_from(&self) -> Option<Instant> {
        self.full_at?.checked_sub(Self::BURST * Self::SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    #[test]
    fn bucket_allows_a_burst_and_then_one_token_per_interval() {
        const INTERVAL: Duration = Duration::from_secs(10);
        let (mut bucket, start) = (<TokenBucket>::default(), now());
        assert!((0..10).all(|_| bucket.take(start).is_ok()));
        assert_eq!(bucket.take(start), Err(start + INTERVAL));
        assert_eq!(bucket.take(start + INTERVAL), Ok(()));
        assert_eq!(bucket.take(start + INTERVAL), Err(start + INTERVAL * 2));
        let later = start + INTERVAL * 100;
        assert_eq!((0..100).filter(|_| bucket.take(later).is_ok()).count(), 10);
        assert_eq!([(); 3].map(|()| bucket.reserve(later)), [1, 2, 3].map(|tokens| later + INTERVAL * tokens));
        assert_eq!(bucket.take(later), Err(later + INTERVAL * 4), "reserved tokens are taken");
    }

    #[test]
    fn events_cost_a_burst_and_then_a_share_of_the_cpu() {
        let (mut bucket, start) = (CpuBucket::default(), now());
        let mut at = start;
        let mut used = Duration::ZERO;
        while at < start + Duration::from_secs(60) {
            at = bucket.ready_from().map_or(at, |ready| ready.max(at + Duration::from_millis(2)));
            bucket.charge(Duration::from_millis(1), at);
            used += Duration::from_millis(1);
            assert!(used <= CpuBucket::BURST + (at - start) / CpuBucket::SHARE + Duration::from_millis(2), "{used:?}");
        }
        assert!(used >= Duration::from_secs(3), "{used:?}");
    }

    #[test]
    fn restarts_back_off_until_a_long_run() {
        let short = Duration::from_millis(10);
        let delays = std::iter::successors(Some(Duration::ZERO), |last| Some(panic_restart_delay(*last, short)));
        let delays: Vec<_> = delays.skip(1).take(9).map(|delay| delay.as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        assert_eq!(panic_restart_delay(MAX_RESTART_DELAY, Duration::from_secs(60)), RESTART_DELAY);
    }
}
