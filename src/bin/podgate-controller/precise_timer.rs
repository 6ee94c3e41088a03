//! Sleeps with sub-millisecond precision (`timerfd_create(2)`). Tokio's timer rounds up to whole milliseconds, so a
//! sleep of 1 ms takes up to 2 ms.

use crate::clock::now;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Shortest sleep, because 0 would disarm the kernel's timer.
const MIN_SLEEP: Duration = Duration::from_nanos(1);

/// A kernel timer, created on first use.
#[derive(Debug, Default)]
pub(crate) struct PreciseTimer {
    timer: Option<AsyncFd<OwnedFd>>,
}

impl PreciseTimer {
    /// Waits until `at`, with a precision of about 50 µs. Cancel-safe. Needs a tokio runtime with I/O and time. Falls
    /// back to tokio's timer if no kernel timer is available, for example for lack of file descriptors.
    pub(crate) async fn sleep_until(&mut self, at: Instant) {
        if self.try_sleep_until(at).await.is_err() {
            self.timer = None;
            tokio::time::sleep_until(at.into()).await;
        }
    }

    async fn try_sleep_until(&mut self, at: Instant) -> io::Result<()> {
        let timer = match &mut self.timer {
            Some(timer) => timer,
            none => none.insert(create_timer()?),
        };
        let delay = at.saturating_duration_since(now()).max(MIN_SLEEP);
        let it_value = Timespec::try_from(delay).map_err(|_| io::ErrorKind::InvalidInput)?;
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        // This call also clears the expiration of an earlier sleep that was dropped.
        timerfd_settime(timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        let read_expirations = |timer: &OwnedFd| Ok(rustix::io::read(timer, &mut [0; 8])?);
        timer.async_io(Interest::READABLE, read_expirations).await.map(drop)
    }
}

fn create_timer() -> io::Result<AsyncFd<OwnedFd>> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    #[expect(deprecated, reason = "sound here: an OwnedFd stays the same descriptor")]
    AsyncFd::with_interest(timer, Interest::READABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn sleep_never_ends_early() {
        let mut timer = PreciseTimer::default();
        for pause in [0, 1, 700, 3000].map(Duration::from_micros) {
            let at = now() + pause;
            timer.sleep_until(at).await;
            assert!(now() >= at, "{pause:?}");
        }
        timer.sleep_until(now() - Duration::from_secs(1)).await;
        // A dropped sleep does not end the next one.
        let mut short = Box::pin(timer.sleep_until(now() + Duration::from_millis(2)));
        assert!(short.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::thread::sleep(Duration::from_millis(5));
        drop(short);
        let at = now() + Duration::from_millis(20);
        timer.sleep_until(at).await;
        assert!(now() >= at);
    }
}
