//! Tests of `podgate::core::evidence`.

use podgate::core::evidence::*;
use podgate::core::probe::ProbeVerdict;
use podgate::core::state::State;

#[test]
fn evidence_is_used_in_order_of_precedence() {
    use ProbeVerdict::{Failing, NotYet, Passed};
    let running = Evidence {
        exit_code: None,
        gate_closed: false,
        started: true,
        probe_verdict: None,
        exec_probes: None,
        was_ready: false,
    };
    let passed = Evidence { probe_verdict: Some(Passed), ..running };
    let exec = |reported_passed, current| Evidence {
        exec_probes: Some(ExecEvidence { reported_passed, kubelet: KubeletReady { current, was_ready: false } }),
        ..running
    };
    let later = |reported_passed, current| Evidence {
        exec_probes: Some(ExecEvidence { reported_passed, kubelet: KubeletReady { current, was_ready: true } }),
        was_ready: true,
        ..running
    };
    for (evidence, state) in [
        (running, State::Ready),
        (Evidence { exit_code: Some(0), gate_closed: true, ..passed }, State::Completed),
        (Evidence { exit_code: Some(137), ..passed }, State::Failed),
        (Evidence { gate_closed: true, ..passed }, State::Waiting),
        (Evidence { gate_closed: true, ..exec(true, Some(true)) }, State::Waiting),
        (Evidence { started: false, ..passed }, State::Waiting),
        (passed, State::Ready),
        (Evidence { probe_verdict: Some(NotYet), ..running }, State::Started),
        (Evidence { probe_verdict: Some(Failing), ..running }, State::NotReady),
        (Evidence { probe_verdict: Some(NotYet), ..exec(true, None) }, State::Started),
        (exec(false, None), State::Started),
        (exec(true, None), State::Ready),
        (exec(false, Some(true)), State::Ready),
        // The kubelet has not probed the container yet, so the kubelet's "not ready" does not count.
        (exec(true, Some(false)), State::Ready),
        (Evidence { was_ready: true, ..exec(true, Some(false)) }, State::Ready),
        (later(true, Some(false)), State::NotReady),
        (later(false, Some(false)), State::NotReady),
        (later(true, None), State::Ready),
    ] {
        assert_eq!(resolve_state(&evidence), state, "{evidence:?}");
    }
}
