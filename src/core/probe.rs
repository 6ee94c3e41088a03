//! Probe semantics: the kubelet's thresholds and delays, at intervals of our own.
//!
//! The kubelet probes on a grid of whole seconds, and not at all while a postStart hook runs. [`ProbeProgress`] asks sooner: from
//! 10 ms at 0.8 % of the time since the container started, never further apart than the probe's own period. Time is an
//! argument everywhere: how long ago the container started.

use crate::core::container::Probe;
use std::time::Duration;

/// Shortest interval between two attempts.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// How long to leave between two attempts, `elapsed` after the container's start; `min_interval` is the shortest that the user wants.
pub fn interval(elapsed: Duration, period: Duration, floor: Duration) -> Duration {
    (elapsed / 125).max(MIN_INTERVAL).max(floor).min(period.max(MIN_INTERVAL))
}

/// What probing says of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// It has not passed yet.
    NotYet,
    /// All its probes have passed.
    Passed,
    /// It had passed, and its readiness probe fails now.
    Failing,
}

/// The probing of one container, from its start: its startup probe, then its readiness probe.
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
    /// The course of those probes that can be run from outside the container; `None` if there is none such.
    pub fn new(startup: Option<&Probe>, readiness: Option<&Probe>, floor: Duration) -> Option<ProbeProgress> {
        let stage = |probe: Option<&Probe>, is_startup| {
            probe.filter(|p| !p.is_exec()).map(|probe| Stage { probe: probe.clone(), is_startup })
        };
        let stages: Vec<Stage> = [stage(startup, true), stage(readiness, false)].into_iter().flatten().collect();
        (!stages.is_empty()).then_some(ProbeProgress {
            stages,
            stage_index: 0,
            min_interval: floor,
            verdict: ProbeVerdict::NotYet,
            successes: 0,
            failures: 0,
            counted_at: None,
            attempted_at: None,
            is_resumed: false,
        })
    }

    /// The same course of a container that has passed it before, in this incarnation: it begins where that left off, with no
    /// initial delay.
    pub fn resumed(mut self) -> ProbeProgress {
        self.stage_index = self.stages.len() - 1;
        (self.verdict, self.is_resumed) = (ProbeVerdict::Passed, true);
        self
    }

    /// What is known.
    pub fn verdict(&self) -> ProbeVerdict {
        self.verdict
    }

    /// The probe to run next.
    pub fn probe(&self) -> &Probe {
        &self.stages[self.stage_index].probe
    }

    /// When the next attempt is due, as time since the container's start.
    pub fn next_due(&self) -> Duration {
        let probe = self.probe();
        let earliest = self.earliest_attempt();
        let Some(last) = self.attempted_at else { return earliest };
        let period = seconds(probe.period_seconds);
        // Past the first success, successes and failures alike are counted in the kubelet's periods.
        let counting = self.verdict == ProbeVerdict::Passed || self.successes > 0;
        let wait = if counting { period.max(MIN_INTERVAL) } else { interval(last, period, self.min_interval) };
        earliest.max(last + wait)
    }

    /// When an attempt may be made because something has begun to listen: not before the initial delay.
    pub fn earliest_attempt(&self) -> Duration {
        if self.is_resumed { Duration::ZERO } else { seconds(self.probe().initial_delay_seconds) }
    }

    /// Takes in the outcome of an attempt that ended at `now`.
    pub fn record(&mut self, now: Duration, success: bool) {
        self.attempted_at = Some(now);
        let Stage { probe, is_startup } = &self.stages[self.stage_index];
        let (needed, allowed) = (probe.success_threshold.max(1), probe.failure_threshold.max(1));
        let period = seconds(probe.period_seconds);
        // An attempt that was hastened counts no second time within a period.
        let hastened = self.counted_at.is_some_and(|at| now < at + period.mul_f32(0.9));
        if !success {
            self.successes = 0;
            if self.verdict != ProbeVerdict::Passed {
                self.counted_at = None;
            } else if !hastened {
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
        if self.successes > 0 && hastened {
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

    /// Whether nothing is left to ask: the startup probe has passed, and there is no readiness probe.
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

    /// Records each outcome at its time in milliseconds, and asserts what is known after it.
    fn record(course: &mut ProbeProgress, outcomes: &[(u64, bool, ProbeVerdict)]) {
        for (at, success, word) in outcomes {
            course.record(ms(*at), *success);
            assert_eq!(course.verdict(), *word, "after {at} ms");
        }
    }

    #[test]
    fn intervals_grow_with_the_time_between_the_first_and_the_period() {
        let period = ms(10_000);
        assert_eq!(interval(ms(0), period, Duration::ZERO), ms(10));
        assert_eq!(interval(ms(5_000), period, Duration::ZERO), ms(40));
        assert_eq!(interval(ms(5_000_000), period, Duration::ZERO), period);
        assert_eq!(interval(ms(0), period, ms(200)), ms(200));
        assert_eq!(interval(ms(500_000), ms(1_000), ms(2_000)), ms(1_000));
    }

    #[test]
    fn one_success_passes_and_the_next_is_due_a_period_later() {
        let mut course = readiness(probe());
        assert_eq!(course.next_due(), ms(0));
        course.record(ms(1), false);
        assert_eq!(course.next_due(), ms(11));
        course.record(ms(12), true);
        assert_eq!(course.verdict(), ProbeVerdict::Passed);
        assert_eq!(course.next_due(), ms(10_012));
    }

    #[test]
    fn the_initial_delay_is_kept_though_something_listens() {
        let course = readiness(Probe { initial_delay_seconds: 2, ..probe() });
        assert_eq!((course.next_due(), course.earliest_attempt()), (ms(2_000), ms(2_000)));
    }

    #[test]
    fn a_success_threshold_is_counted_in_periods() {
        let mut course = readiness(Probe { success_threshold: 2, period_seconds: 1, ..probe() });
        record(&mut course, &[(100, true, ProbeVerdict::NotYet)]);
        assert_eq!(course.next_due(), ms(1_100));
        // The second is hastened.
        record(&mut course, &[(200, true, ProbeVerdict::NotYet), (1_100, true, ProbeVerdict::Passed)]);
    }

    #[test]
    fn a_failure_between_starts_the_count_anew() {
        let mut course = readiness(Probe { success_threshold: 2, period_seconds: 1, ..probe() });
        record(&mut course, &[(100, true, ProbeVerdict::NotYet), (1_100, false, ProbeVerdict::NotYet)]);
        record(&mut course, &[(1_200, true, ProbeVerdict::NotYet), (2_200, true, ProbeVerdict::Passed)]);
    }

    #[test]
    fn a_ready_container_fails_after_its_threshold_and_comes_back_by_one_success() {
        let mut course = readiness(Probe { period_seconds: 1, ..probe() });
        record(
            &mut course,
            &[
                (0, true, ProbeVerdict::Passed),
                (1_000, false, ProbeVerdict::Passed),
                (2_000, false, ProbeVerdict::Passed),
            ],
        );
        record(&mut course, &[(3_000, false, ProbeVerdict::Failing), (3_100, true, ProbeVerdict::Passed)]);
    }

    #[test]
    fn the_startup_probe_comes_first_and_is_not_asked_again() {
        let mut course =
            ProbeProgress::new(Some(&probe()), Some(&Probe { period_seconds: 3, ..probe() }), Duration::ZERO).unwrap();
        course.record(ms(50), true);
        assert_eq!(
            (course.verdict(), course.probe().period_seconds, course.next_due()),
            (ProbeVerdict::NotYet, 3, ms(0))
        );
        course.record(ms(51), true);
        assert_eq!(course.verdict(), ProbeVerdict::Passed);
        let mut alone = ProbeProgress::new(Some(&probe()), None, Duration::ZERO).unwrap();
        alone.record(ms(1), true);
        assert!(alone.is_finished());
    }

    #[test]
    fn what_only_the_container_can_run_is_no_course() {
        let exec = Probe { handler: Handler::Exec(Default::default()), ..probe() };
        assert!(ProbeProgress::new(Some(&exec), None, Duration::ZERO).is_none());
        assert!(ProbeProgress::new(Some(&exec), Some(&probe()), Duration::ZERO).is_some());
    }
}
