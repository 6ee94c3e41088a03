//! A pause that ends on time: the runtime's own clock counts whole milliseconds and rounds up, so that a pause of one takes
//! up to two (`timerfd_create(2)`).

use crate::clock::now;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Less than this is nothing to pause for; the kernel takes a time of 0 for "never".
const MIN_SLEEP: Duration = Duration::from_nanos(1);

/// One timer of the kernel; made when it is first needed.
pub(crate) struct PreciseTimer {
    timer: Option<AsyncFd<OwnedFd>>,
}

impl PreciseTimer {
    pub(crate) fn new() -> PreciseTimer {
        PreciseTimer { timer: None }
    }

    /// Waits until `at`, to some 50 µs. May be dropped and called anew, with another time. Needs a tokio runtime with I/O and
    /// time; without a timer (no descriptor left) the runtime's own clock does.
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
        let pause = at.saturating_duration_since(now()).max(MIN_SLEEP);
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(pause).map_err(|_| io::ErrorKind::InvalidInput)?,
        };
        // What an earlier pause has left is gone with this.
        timerfd_settime(timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        let rang = |timer: &OwnedFd| Ok(rustix::io::read(timer, &mut [0; 8])?);
        timer.async_io(Interest::READABLE, rang).await.map(drop)
    }
}

fn create_timer() -> io::Result<AsyncFd<OwnedFd>> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    #[allow(deprecated, reason = "sound here: an OwnedFd stays the same descriptor")]
    AsyncFd::with_interest(timer, Interest::READABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn ends_at_its_time_and_not_before() {
        let mut alarm = PreciseTimer::new();
        for pause in [0, 1, 700, 3000].map(Duration::from_micros) {
            let at = now() + pause;
            alarm.sleep_until(at).await;
            assert!(now() >= at, "{pause:?}");
        }
        alarm.sleep_until(now() - Duration::from_secs(1)).await;
    }

    #[tokio::test]
    async fn a_pause_that_was_dropped_does_not_end_the_next_one() {
        let mut alarm = PreciseTimer::new();
        let mut short = Box::pin(alarm.sleep_until(now() + Duration::from_millis(2)));
        assert!(short.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::thread::sleep(Duration::from_millis(5));
        drop(short);
        let at = now() + Duration::from_millis(20);
        alarm.sleep_until(at).await;
        assert!(now() >= at);
    }
}
