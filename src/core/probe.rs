//! Probe semantics: the kubelet's thresholds and delays, but shorter intervals.
//!
//! The kubelet's intervals are whole seconds, and the kubelet does not probe while a postStart hook runs.
//! [`ProbeProgress`] schedules earlier attempts: the interval is 0.8 % of the time since the container's start, and
//! 2.5 % after 10 s (`LONG_WAIT`). The interval is at least 10 ms ([`MIN_INTERVAL`]) and at most the probe's period.
//! While nothing listens on the port, it is at least 1 s (`UNHEARD_INTERVAL`). Times begin at the container's start.

use crate::core::container::Probe;
use std::time::Duration;

/// Minimum interval between two attempts.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Minimum interval while nothing listens on the probe's port. Then only a redirected connection can succeed.
const UNHEARD_INTERVAL: Duration = Duration::from_secs(1);

/// Time since the container's start after which attempts become less frequent. If a start is slow, a slightly earlier
/// result does not justify the CPU time of frequent attempts.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// Returns the interval until the next attempt, for the time `elapsed` since the start. The user sets `min_interval`.
pub fn interval(elapsed: Duration, period: Duration, min_interval: Duration) -> Duration {
    let share = if elapsed < LONG_WAIT { 125 } else { 40 };
    (elapsed / share).max(MIN_INTERVAL).max(min_interval).min(period.max(MIN_INTERVAL))
}

/// Result of probing a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// No probe has passed yet.
    NotYet,
    /// The startup probe has failed as often as its failure threshold allows, and has not passed since.
    StartupFailed,
    /// The startup probe has passed, but the readiness probe has not.
    StartupPassed,
    /// All probes have passed.
    Passed,
    /// All probes had passed, and the readiness probe fails now.
    Failing,
}

impl ProbeVerdict {
    /// Returns true if the startup probe has passed, or there is none and the readiness probe has passed.
    pub fn proves_start(self) -> bool {
        !matches!(self, ProbeVerdict::NotYet | ProbeVerdict::StartupFailed)
    }
}

/// Counts the failures of a probe like the kubelet's worker (`pkg/kubelet/prober/worker.go`): one attempt per period
/// counts, and none begins before the last one has ended. Podgate's additional attempts in between do not count.
#[derive(Debug, Clone, Copy)]
pub struct StartupFailureCount {
    period: Duration,
    /// Time from which the next attempt counts. The kubelet's first attempt is up to one period after the start.
    pub due: Duration,
    /// Number of counted failures.
    pub failures: u32,
}

impl StartupFailureCount {
    /// Creates a count for attempts that begin at `start`.
    pub fn new(start: Duration, period: Duration) -> StartupFailureCount {
        StartupFailureCount { period, due: start + period, failures: 0 }
    }

    /// Records the result of an attempt that began at `started`.
    pub fn record(&mut self, started: Duration, has_failed: bool) {
        if started >= self.due {
            self.due = started + self.period;
            self.failures += u32::from(has_failed);
        }
    }
}

/// Tracks the probing of one container: first the startup probe, then the readiness probe.
#[derive(Debug, Clone)]
pub struct ProbeProgress {
    stages: Vec<Stage>,
    stage_index: usize,
    min_interval: Duration,
    verdict: ProbeVerdict,
    successes: u32,
    failures: u32,
    startup: StartupFailureCount,
    counted_at: Option<Duration>,
    attempted_at: Option<Duration>,
    is_assumed: bool,
}

#[derive(Debug, Clone)]
struct Stage {
    probe: Probe,
    is_startup: bool,
}

impl ProbeProgress {
    /// Starts to track the network probes, which run from outside the container. Returns `None` if there are none.
    pub fn for_network(startup: Option<&Probe>, readiness: Option<&Probe>, min_interval: Duration) -> Option<Self> {
        let stage = |probe: Option<&Probe>, is_startup| {
            probe.filter(|p| !p.is_exec()).map(|probe| Stage { probe: probe.clone(), is_startup })
        };
        let stages: Vec<Stage> = [stage(startup, true), stage(readiness, false)].into_iter().flatten().collect();
        let times = startup.map_or((0, 0), |probe| (probe.initial_delay_seconds, probe.period_seconds));
        (!stages.is_empty()).then_some(ProbeProgress {
            stages,
            stage_index: 0,
            min_interval,
            verdict: ProbeVerdict::NotYet,
            successes: 0,
            failures: 0,
            startup: StartupFailureCount::new(seconds(times.0), seconds(times.1)),
            counted_at: None,
            attempted_at: None,
            is_assumed: false,
        })
    }

    /// Resumes the probing of an incarnation whose probes have passed before: skips the delay and begins with `Passed`.
    pub fn assume_passed(mut self) -> ProbeProgress {
        self.stage_index = self.stages.len() - 1;
        (self.verdict, self.is_assumed) = (ProbeVerdict::Passed, true);
        self
    }

    /// Returns the current verdict.
    pub fn verdict(&self) -> ProbeVerdict {
        self.verdict
    }

    /// Returns the probe to run next.
    pub fn next_probe(&self) -> &Probe {
        &self.stages[self.stage_index].probe
    }

    /// Returns the time since the container's start at which the next attempt is due.
    pub fn next_due(&self, is_listening: bool) -> Duration {
        let probe = self.next_probe();
        let earliest = self.initial_delay_end();
        let Some(last) = self.attempted_at else { return earliest };
        let period = seconds(probe.period_seconds);
        // After the first success, thresholds count at most one attempt per period, as in the kubelet.
        let counting = self.verdict == ProbeVerdict::Passed || self.successes > 0;
        let shortest = if is_listening { self.min_interval } else { self.min_interval.max(UNHEARD_INTERVAL) };
        let wait = if counting { period.max(MIN_INTERVAL) } else { interval(last, period, shortest) };
        let due = earliest.max(last + wait);
        let counts = self.stages[self.stage_index].is_startup && !self.verdict.proves_start();
        if counts { due.min(self.startup.due.max(last + self.min_interval)) } else { due }
    }

    /// Returns the end of the initial delay, as a time since the container's start. When the port begins to listen, the
    /// sidecar makes an extra attempt, but not before this time.
    pub fn initial_delay_end(&self) -> Duration {
        if self.is_assumed { Duration::ZERO } else { seconds(self.next_probe().initial_delay_seconds) }
    }

    /// Records an attempt from `started` to `now`. `success` is `None` if the kubelet would discard the result.
    pub fn record(&mut self, started: Duration, now: Duration, success: Option<bool>) {
        self.attempted_at = Some(now);
        let Stage { probe, is_startup } = &self.stages[self.stage_index];
        let (needed, allowed) = (probe.success_threshold, probe.failure_threshold);
        let period = seconds(probe.period_seconds);
        // Ignore an attempt that is too early, because at most one attempt per period counts.
        let is_early = self.counted_at.is_some_and(|at| now < at + period.mul_f32(0.9));
        if *is_startup && !self.verdict.proves_start() {
            self.startup.record(started, success == Some(false));
            if self.startup.failures >= allowed {
                self.verdict = ProbeVerdict::StartupFailed;
            }
        }
        if success.is_none() {
            return;
        }
        if success == Some(false) {
            self.successes = 0;
            if self.verdict != ProbeVerdict::Passed {
                self.counted_at = None;
            } else if !is_early {
                self.failures += 1;
                self.counted_at = Some(now);
                if self.failures >= allowed {
                    (self.verdict, self.failures, self.counted_at) = (ProbeVerdict::Failing, 0, None);
                }
            }
            return;
        }
        self.failures = 0;
        if self.verdict == ProbeVerdict::Passed {
            self.counted_at = Some(now);
            return;
        }
        if self.successes > 0 && is_early {
            return;
        }
        self.successes += 1;
        self.counted_at = Some(now);
        if *is_startup || self.successes >= needed {
            self.successes = 0;
            if self.stage_index + 1 < self.stages.len() {
                self.stage_index += 1;
                (self.verdict, self.attempted_at, self.counted_at) = (ProbeVerdict::StartupPassed, None, None);
            } else {
                self.verdict = ProbeVerdict::Passed;
            }
        }
    }

    /// Returns true if no attempts are left: the startup probe has passed, and there is no readiness probe.
    pub fn has_passed_for_good(&self) -> bool {
        self.verdict == ProbeVerdict::Passed && self.stages[self.stage_index].is_startup
    }
}

fn seconds(number: u32) -> Duration {
    Duration::from_secs(u64::from(number))
}
