//! Tests the table of rules in `core/gate.rs`: a row for each rule, with the decision of each kind of gate.

use podgate::core::gate::{
    Decision, GateKind, GateSpec, GiveUpReason, HoldFacts, Observations, Obstacle, OnTimeout, OpenReason, SETTLE_TIME,
    SidecarHealth, decide, decide_hold,
};
use podgate::core::snapshot::{REASON_ENDED, Snapshot};
use podgate::core::sources::{PodView, Source};
use podgate::core::state::{Stage, State};
use podgate::core::until::WaitCondition;

/// Facts that a gate of `web` has while it waits for `db`.
struct Case {
    snapshot: Snapshot,
    fail_fast: bool,
    on_timeout: OnTimeout,
    observed: Observations,
    facts: HoldFacts,
}

type Change = fn(&mut Case);

impl Case {
    /// Returns a case in which `db` is Ready, and this state is known to be current.
    fn new() -> Case {
        let states = [("api", State::Started), ("db", State::Ready), ("web", State::Waiting)];
        let mut snapshot = Snapshot::new("0-1-0".parse().unwrap(), "e", &states);
        snapshot.confirmed_tickets.insert("web".to_owned(), "t".to_owned());
        Case {
            snapshot,
            fail_fast: false,
            on_timeout: OnTimeout::Fail,
            observed: Observations::default(),
            facts: HoldFacts::Confirmed,
        }
    }

    fn set_db(&mut self, state: State, stuck: Option<&str>) {
        self.snapshot.states.insert("db".to_owned(), state);
        self.snapshot.stuck.extend(stuck.map(|why| ("db".to_owned(), why.to_owned())));
    }

    fn decide(&self, kind: Option<GateKind<'_>>) -> &'static str {
        let conditions: [WaitCondition; 1] = ["db".parse().unwrap()];
        let decision = match kind {
            Some(kind) => {
                let spec =
                    GateSpec { kind, conditions: &conditions, fail_fast: self.fail_fast, on_timeout: self.on_timeout };
                decide(&PodView::Snapshot(self.snapshot.clone(), Source::Board), &spec, &self.observed)
            }
            None => decide_hold(&self.snapshot, &conditions, self.facts),
        };
        match decision {
            Decision::Open(OpenReason::ConditionsMet) => "open",
            Decision::Open(OpenReason::AlreadyStarted) => "open: started",
            Decision::Open(OpenReason::PodTerminating) => "open: deleted",
            Decision::Open(OpenReason::FallbackPassed) => "open: fallback",
            Decision::Open(OpenReason::TimedOut) => "open: time limit",
            Decision::Closed(obstacles) => match obstacles.last().unwrap() {
                Obstacle::Unconfirmed => "closed: not recent",
                Obstacle::CheckPending(_) => "closed: check",
                Obstacle::UnknownContainer(_) => "closed: unknown",
                Obstacle::Unseen(_) => "closed: unseen",
                Obstacle::NoFallbackCheck | Obstacle::SidecarDead => "closed: sidecar dead",
                Obstacle::FallbackFailed(_) => "closed: fallback failed",
                _ => "closed",
            },
            Decision::GiveUp(GiveUpReason::NoSuchContainer(..)) => "gives up: unknown",
            Decision::GiveUp(GiveUpReason::ImpossibleCheck(_)) => "gives up: check",
            Decision::GiveUp(GiveUpReason::PodDeleted) => "gives up: deleted",
            Decision::GiveUp(GiveUpReason::PredecessorEnded(..)) => "gives up: predecessor",
            Decision::GiveUp(GiveUpReason::ContainerEnded(..) | GiveUpReason::ContainerStuck(..)) => "gives up",
        }
    }
}

fn check(rule: &str, change: Change, expected: [&str; 3]) {
    let mut case = Case::new();
    change(&mut case);
    let kinds = [Some(GateKind::Hook("web")), Some(GateKind::Entrypoint("t")), None];
    assert_eq!(kinds.map(|kind| case.decide(kind)), expected, "{rule}: hook, gate, gate at the kubelet");
}

#[test]
fn each_rule_holds_for_each_kind_of_gate() {
    let rows: [(&str, Change, [&str; 3]); 19] = [
        ("all conditions are met", |_| {}, ["open"; 3]),
        ("a condition is not met", |case| case.set_db(State::Started, None), ["closed"; 3]),
        (
            "the states are not recent",
            |case| {
                case.snapshot.confirmed_tickets.clear();
                case.facts = HoldFacts::Unconfirmed;
            },
            ["open", "closed: not recent", "closed: not recent"],
        ),
        (
            "a check is pending",
            |case| case.observed.pending_checks.push("file:///ready".to_owned()),
            ["closed: check", "closed: check", "open"],
        ),
        (
            "a check cannot pass any more",
            |case| case.observed.impossible_check = Some("/ready.err exists".to_owned()),
            ["gives up: check", "gives up: check", "open"],
        ),
        (
            "a condition cannot be met, with fail-fast",
            |case| {
                case.set_db(State::Failed, Some(REASON_ENDED));
                case.fail_fast = true;
            },
            ["gives up", "gives up", "closed"],
        ),
        (
            "a container is stuck, with fail-fast",
            |case| {
                case.set_db(State::Waiting, Some("ImagePullBackOff"));
                case.fail_fast = true;
            },
            ["gives up", "gives up", "closed"],
        ),
        (
            "the sidecar cannot see a condition, with fail-fast",
            |case| {
                case.set_db(State::Waiting, None);
                case.snapshot.unseen = ["db=Ready".to_owned()].into();
                case.fail_fast = true;
            },
            ["closed: unseen"; 3],
        ),
        (
            "a container is unknown",
            |case| _ = case.snapshot.states.remove("db"),
            ["closed: unknown", "closed: unknown", "closed: unknown"],
        ),
        (
            "a container is unknown after 2 s",
            |case| {
                case.snapshot.states.remove("db");
                case.observed.waited = SETTLE_TIME;
            },
            ["gives up: unknown", "gives up: unknown", "closed: unknown"],
        ),
        (
            "an earlier container in the list has ended",
            |case| {
                case.set_db(State::Started, None);
                case.snapshot.states.insert("api".to_owned(), State::Failed);
            },
            ["gives up: predecessor", "closed", "closed"],
        ),
        (
            "the Pod has started",
            |case| {
                case.set_db(State::Waiting, None);
                case.snapshot.stage = Stage::Started;
            },
            ["open: started", "closed", "closed"],
        ),
        (
            "the Pod is being deleted",
            |case| {
                case.set_db(State::Waiting, None);
                case.snapshot.stage = Stage::Terminating;
            },
            ["open: deleted", "gives up: deleted", "closed"],
        ),
        (
            "the sidecar is not running",
            |case| {
                case.set_db(State::Waiting, None);
                case.observed.sidecar = SidecarHealth::Dead(None);
            },
            ["closed: sidecar dead", "closed: sidecar dead", "closed"],
        ),
        (
            "the sidecar is not running, and the fallback check has failed",
            |case| {
                case.set_db(State::Waiting, None);
                case.observed.sidecar = SidecarHealth::Dead(Some(Err("refused".to_owned())));
            },
            ["closed: fallback failed", "closed: fallback failed", "closed"],
        ),
        (
            "the sidecar is not running, and the fallback check has passed",
            |case| {
                case.set_db(State::Waiting, None);
                case.observed.sidecar = SidecarHealth::Dead(Some(Ok(())));
            },
            ["open: fallback", "open: fallback", "closed"],
        ),
        (
            "on-timeout is continue: no other container opens the gate early",
            |case| {
                case.set_db(State::Failed, Some(REASON_ENDED));
                case.snapshot.states.insert("api".to_owned(), State::Failed);
                (case.fail_fast, case.on_timeout) = (true, OnTimeout::Continue);
                case.observed.impossible_check = Some("/ready.err exists".to_owned());
            },
            ["closed", "closed", "closed"],
        ),
        (
            "the time limit has passed, and on-timeout is continue",
            |case| {
                case.set_db(State::Waiting, None);
                (case.on_timeout, case.facts) = (OnTimeout::Continue, HoldFacts::Expired);
            },
            // For hooks and entrypoint gates, the agent's wait loop applies the time limit.
            ["closed", "closed", "open: time limit"],
        ),
        (
            "the gate is open, and a condition is no longer met",
            |case| {
                case.set_db(State::NotReady, None);
                case.facts = HoldFacts::Open;
            },
            // After its opening, a hook or entrypoint gate makes no more decisions.
            ["closed", "closed", "closed"],
        ),
    ];
    for (rule, change, expected) in rows {
        check(rule, change, expected);
    }
}
