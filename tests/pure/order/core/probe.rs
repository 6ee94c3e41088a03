//! Tests of `podgate::core::probe`.

use podgate::core::container::{Handler, PortRef, Probe, TcpSocket};
use podgate::core::probe::*;
use serde_json::json;
use std::time::Duration;

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

/// The API server replaces 0 with the default value of the field.
#[test]
fn zero_in_a_probe_is_the_default() {
    let json = json!({"tcpSocket": {"port": 1}, "timeoutSeconds": 0, "periodSeconds": 0, "successThreshold": 0,
        "failureThreshold": 0});
    assert_eq!(serde_json::from_value::<Probe>(json).unwrap(), probe());
}

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn readiness(probe: Probe) -> ProbeProgress {
    ProbeProgress::for_network(None, Some(&probe), Duration::ZERO).unwrap()
}

#[test]
fn interval_grows_from_the_minimum_to_the_period() {
    let period = ms(10_000);
    assert_eq!(interval(ms(0), period, Duration::ZERO), ms(10));
    assert_eq!(interval(ms(5_000), period, Duration::ZERO), ms(40));
    assert_eq!(interval(ms(20_000), period, Duration::ZERO), ms(500));
    assert_eq!(interval(ms(5_000_000), period, Duration::ZERO), period);
    assert_eq!(interval(ms(0), period, ms(200)), ms(200));
    assert_eq!(interval(ms(500_000), ms(1_000), ms(2_000)), ms(1_000));
}

#[test]
fn attempts_slow_down_after_the_first_success() {
    let mut progress = readiness(probe());
    assert_eq!(progress.next_due(true), ms(0));
    progress.record(ms(1), ms(1), Some(false));
    assert_eq!(progress.next_due(true), ms(11));
    progress.record(ms(12), ms(12), Some(true));
    assert_eq!((progress.verdict(), progress.next_due(true)), (ProbeVerdict::Passed, ms(10_012)));
    let mut progress = readiness(Probe { success_threshold: 2, ..probe() });
    progress.record(ms(12), ms(12), Some(true));
    assert_eq!((progress.verdict(), progress.next_due(true)), (ProbeVerdict::NotYet, ms(10_012)));
}

#[test]
fn attempts_are_rare_while_no_socket_listens() {
    let mut progress = readiness(probe());
    progress.record(ms(2_000), ms(2_000), Some(false));
    assert_eq!((progress.next_due(true), progress.next_due(false)), (ms(2_016), ms(3_000)));
    progress.record(ms(20_000), ms(20_000), Some(false));
    assert_eq!((progress.next_due(true), progress.next_due(false)), (ms(20_500), ms(21_000)));
    progress.record(ms(200_000), ms(200_000), Some(false));
    assert_eq!((progress.next_due(true), progress.next_due(false)), (ms(205_000), ms(205_000)));
}

#[test]
fn early_attempts_respect_the_initial_delay() {
    let progress = readiness(Probe { initial_delay_seconds: 2, ..probe() });
    assert_eq!((progress.next_due(true), progress.initial_delay_end()), (ms(2_000), ms(2_000)));
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
            progress.record(ms(*at), ms(*at), Some(*success));
            assert_eq!(progress.verdict(), *verdict, "after {at} ms");
        }
        progress.record(ms(9_000), ms(9_000), Some(true));
        assert_eq!((progress.verdict(), progress.next_due(true)), (Passed, ms(10_000)));
    }
}

#[test]
fn startup_probe_runs_first_and_only_once() {
    let mut progress =
        ProbeProgress::for_network(Some(&probe()), Some(&Probe { period_seconds: 3, ..probe() }), Duration::ZERO)
            .unwrap();
    progress.record(ms(50), ms(50), Some(true));
    assert_eq!(
        (progress.verdict(), progress.next_probe().period_seconds, progress.next_due(true)),
        (ProbeVerdict::StartupPassed, 3, ms(0))
    );
    progress.record(ms(51), ms(51), Some(true));
    assert_eq!(progress.verdict(), ProbeVerdict::Passed);
    let mut alone = ProbeProgress::for_network(Some(&probe()), None, Duration::ZERO).unwrap();
    alone.record(ms(1), ms(1), Some(true));
    assert!(alone.has_passed_for_good());
}

/// Makes attempts whenever they are due, each of which takes `takes` and has the result `success`. Returns the time at
/// which the startupProbe has failed too often; `None` within 200 s.
fn startup_failure(probe: &Probe, takes: Duration, success: impl Fn(Duration) -> Option<bool>) -> Option<Duration> {
    let mut progress = ProbeProgress::for_network(Some(probe), None, Duration::ZERO).unwrap();
    let mut now = ms(0);
    while now < ms(200_000) && progress.verdict() != ProbeVerdict::Passed {
        let started = now.max(progress.next_due(true));
        now = started + takes.max(ms(1));
        progress.record(started, now, success(started));
        if progress.verdict() == ProbeVerdict::StartupFailed {
            return Some(now);
        }
    }
    None
}

/// The kubelet's worker makes the first attempt within one period after the start, and loses ticks while an attempt
/// runs. So `threshold` failures take at most `initialDelaySeconds` + `threshold` x max(period, time of an attempt).
#[test]
fn startup_probe_fails_as_late_as_the_kubelets() {
    for (initial, period, timeout, threshold, takes, earliest, latest) in [
        (0, 10, 1, 3, 0, 30_000, 30_100),
        (0, 10, 1, 1, 0, 10_000, 10_100),
        (5, 10, 1, 3, 0, 35_000, 35_100),
        // Each attempt hangs for 5 s, and the kubelet makes them one after the other.
        (0, 1, 5, 10, 5_000, 50_000, 55_100),
        (0, 10, 5, 3, 5_000, 30_000, 40_100),
    ] {
        let probe = Probe {
            initial_delay_seconds: initial,
            period_seconds: period,
            timeout_seconds: timeout,
            failure_threshold: threshold,
            ..probe()
        };
        let failed = startup_failure(&probe, ms(takes), |_| Some(false)).unwrap();
        assert!((ms(earliest)..=ms(latest)).contains(&failed), "{probe:?}: {failed:?}");
        // The last failure that the kubelet would still allow.
        let passes_at = ms(earliest) - ms(takes.max(1_000));
        assert_eq!(startup_failure(&probe, ms(takes), |started| Some(started >= passes_at)), None, "{probe:?}");
        assert_eq!(startup_failure(&probe, ms(takes), |_| None), None, "discarded attempts do not count");
    }
}

#[test]
fn startup_probe_that_has_passed_cannot_fail() {
    let mut progress = ProbeProgress::for_network(Some(&probe()), None, Duration::ZERO).unwrap();
    progress.record(ms(1), ms(1), Some(true));
    for at in 1..100 {
        progress.record(ms(at * 10_000), ms(at * 10_000), Some(false));
    }
    assert_eq!(progress.verdict(), ProbeVerdict::Failing);
}

#[test]
fn exec_probes_are_not_tracked() {
    let exec = Probe { handler: Handler::Exec(Default::default()), ..probe() };
    assert!(ProbeProgress::for_network(Some(&exec), None, Duration::ZERO).is_none());
    assert!(ProbeProgress::for_network(Some(&exec), Some(&probe()), Duration::ZERO).is_some());
}
