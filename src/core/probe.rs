//! Probe semantics: the kubelet's thresholds and delays, but shorter intervals.
//!
//! The kubelet probes in whole seconds, and not at all while a postStart hook runs. [`ProbeProgress`] schedules earlier
//! attempts: the interval is 0.8 % of the time since the container's start, at least 10 ms and at most the probe's
//! period. All times are relative to the container's start.

use crate::core::container::Probe;
use std::time::Duration;

/// Minimum interval between two attempts.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Returns the interval between attempts, `elapsed` after the container's start. `min_interval` is set by the user.
pub fn interval(elapsed: Duration, period: Duration, min_interval: Duration) -> Duration {
    (elapsed / 125).max(MIN_INTERVAL).max(min_interval).min(period.max(MIN_INTERVAL))
}

/// Result of probing a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// The probes have not passed yet.
    NotYet,
    /// All probes have passed.
    Passed,
    /// All probes had passed, and the readiness probe fails now.
    Failing,
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
    counted_at: Option<Duration>,
    attempted_at: Option<Duration>,
    is_resumed: bool,
}

#[derive(Debug, Clone)]
struct Stage {
    probe: Probe,
    is_startup: bool,
}

impl ProbeProgress {
    /// Creates the progress of the probes that the sidecar can run from outside the container. Returns `None` without
    /// such probes.
    pub fn new(startup: Option<&Probe>, readiness: Option<&Probe>, min_interval: Duration) -> Option<ProbeProgress> {
        let stage = |probe: Option<&Probe>, is_startup| {
            probe.filter(|p| !p.is_exec()).map(|probe| Stage { probe: probe.clone(), is_startup })
        };
        let stages: Vec<Stage> = [stage(startup, true), stage(readiness, false)].into_iter().flatten().collect();
        (!stages.is_empty()).then_some(ProbeProgress {
            stages,
            stage_index: 0,
            min_interval,
            verdict: ProbeVerdict::NotYet,
            successes: 0,
            failures: 0,
            counted_at: None,
            attempted_at: None,
            is_resumed: false,
        })
    }

    /// Resumes the probing of an incarnation whose probes have passed before: verdict `Passed`, no initial delay.
    pub fn resumed(mut self) -> ProbeProgress {
        self.stage_index = self.stages.len() - 1;
        (self.verdict, self.is_resumed) = (ProbeVerdict::Passed, true);
        self
    }

    /// Returns the current verdict.
    pub fn verdict(&self) -> ProbeVerdict {
        self.verdict
    }

    /// Returns the probe to run next.
    pub fn probe(&self) -> &Probe {
        &self.stages[self.stage_index].probe
    }

    /// Returns the time at which the next attempt is due.
    pub fn next_due(&self) -> Duration {
        let probe = self.probe();
        let earliest = self.earliest_attempt();
        let Some(last) = self.attempted_at else { return earliest };
        let period = seconds(probe.period_seconds);
        // After the first success, thresholds count at most one attempt per period, as in the kubelet.
        let counting = self.verdict == ProbeVerdict::Passed || self.successes > 0;
        let wait = if counting { period.max(MIN_INTERVAL) } else { interval(last, period, self.min_interval) };
        earliest.max(last + wait)
    }

    /// Returns the end of the initial delay. If the port begins to listen, an extra attempt must not run earlier.
    pub fn earliest_attempt(&self) -> Duration {
        if self.is_resumed { Duration::ZERO } else { seconds(self.probe().initial_delay_seconds) }
    }

    /// Records the outcome of an attempt that ended at `now`.
    pub fn record(&mut self, now: Duration, success: bool) {
        self.attempted_at = Some(now);
        let Stage { probe, is_startup } = &self.stages[self.stage_index];
        let (needed, allowed) = (probe.success_threshold.max(1), probe.failure_threshold.max(1));
        let period = seconds(probe.period_seconds);
        // At most one attempt per period counts. Earlier attempts are ignored.
        let is_early = self.counted_at.is_some_and(|at| now < at + period.mul_f32(0.9));
        if !success {
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
                (self.attempted_at, self.counted_at) = (None, None);
            } else {
                self.verdict = ProbeVerdict::Passed;
            }
        }
    }

    /// Returns true if no attempts are left: the startup probe has passed, and there is no readiness probe.
    pub fn is_finished(&self) -> bool {
        self.verdict == ProbeVerdict::Passed && self.stages[self.stage_index].is_startup
    }
}

fn seconds(number: u32) -> Duration {
    Duration::from_secs(u64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::container::{Handler, PortRef, TcpSocket};

    fn probe() -> Probe {
        Probe {
            handler: Handler::TcpSocket(TcpSocket { port: PortRef::Number(1), host: None }),
            initial_delay_seconds: 0,
            timeout_seconds: 1,
            period_seconds: 10,
            success_threshold: 1,
            failure_threshold: 3,
        }
    }

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    fn readiness(probe: Probe) -> ProbeProgress {
        ProbeProgress::new(None, Some(&probe), Duration::ZERO).unwrap()
    }

    #[test]
    fn interval_grows_from_the_minimum_to_the_period() {
        let period = ms(10_000);
        assert_eq!(interval(ms(0), period, Duration::ZERO), ms(10));
        assert_eq!(interval(ms(5_000), period, Duration::ZERO), ms(40));
        assert_eq!(interval(ms(5_000_000), period, Duration::ZERO), period);
        assert_eq!(interval(ms(0), period, ms(200)), ms(200));
        assert_eq!(interval(ms(500_000), ms(1_000), ms(2_000)), ms(1_000));
    }

    #[test]
    fn attempts_slow_down_after_the_first_success() {
        let mut progress = readiness(probe());
        assert_eq!(progress.next_due(), ms(0));
        progress.record(ms(1), false);
        assert_eq!(progress.next_due(), ms(11));
        progress.record(ms(12), true);
        assert_eq!((progress.verdict(), progress.next_due()), (ProbeVerdict::Passed, ms(10_012)));
        let mut progress = readiness(Probe { success_threshold: 2, ..probe() });
        progress.record(ms(12), true);
        assert_eq!((progress.verdict(), progress.next_due()), (ProbeVerdict::NotYet, ms(10_012)));
    }

    #[test]
    fn early_attempts_respect_the_initial_delay() {
        let progress = readiness(Probe { initial_delay_seconds: 2, ..probe() });
        assert_eq!((progress.next_due(), progress.earliest_attempt()), (ms(2_000), ms(2_000)));
    }

    #[test]
    fn thresholds_count_one_attempt_per_period() {
        use ProbeVerdict::{Failing, NotYet, Passed};
        for (success_threshold, attempts) in [
            // The attempt at 200 ms is early and does not count.
            (2, &[(100, true, NotYet), (200, true, NotYet), (1_100, true, Passed)][..]),
            (2, &[(100, true, NotYet), (1_100, false, NotYet), (1_200, true, NotYet), (2_200, true, Passed)]),
            (1, &[(0, true, Passed), (1_000, false, Passed), (2_000, false, Passed), (3_000, false, Failing)]),
            (1, &[(0, true, Passed), (1_000, false, Passed), (1_100, true, Passed), (2_100, false, Passed)]),
        ] {
            let mut progress = readiness(Probe { success_threshold, period_seconds: 1, ..probe() });
            for (at, success, verdict) in attempts {
                progress.record(ms(*at), *success);
                assert_eq!(progress.verdict(), *verdict, "after {at} ms");
            }
            progress.record(ms(9_000), true);
            assert_eq!((progress.verdict(), progress.next_due()), (Passed, ms(10_000)));
        }
    }

    #[test]
    fn startup_probe_runs_first_and_only_once() {
        let mut progress =
            ProbeProgress::new(Some(&probe()), Some(&Probe { period_seconds: 3, ..probe() }), Duration::ZERO).unwrap();
        progress.record(ms(50), true);
        assert_eq!(
            (progress.verdict(), progress.probe().period_seconds, progress.next_due()),
            (ProbeVerdict::NotYet, 3, ms(0))
        );
        progress.record(ms(51), true);
        assert_eq!(progress.verdict(), ProbeVerdict::Passed);
        let mut alone = ProbeProgress::new(Some(&probe()), None, Duration::ZERO).unwrap();
        alone.record(ms(1), true);
        assert!(alone.is_finished());
    }

    #[test]
    fn exec_probes_are_not_tracked() {
        let exec = Probe { handler: Handler::Exec(Default::default()), ..probe() };
        assert!(ProbeProgress::new(Some(&exec), None, Duration::ZERO).is_none());
        assert!(ProbeProgress::new(Some(&exec), Some(&probe()), Duration::ZERO).is_some());
    }
}
