//! Tests the table of rules in `core/gate.rs`: a row for each rule, with the decision of a hook and of a gate in front
//! of a command. The tests of `HoldGate` cover the gate at the kubelet.

use podgate::core::gate::{
    Decision, GateKind, GateSpec, GiveUpReason, Observations, Obstacle, OnTimeout, OpenReason, SETTLE_TIME,
    SidecarHealth, decide,
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
}

type Change = fn(&mut Case);

impl Case {
    /// Returns a case in which `db` is Ready, and this state is known to be current.
    fn new() -> Case {
        let states = [("api", State::Started), ("db", State::Ready), ("web", State::Waiting)];
        let mut snapshot = Snapshot::new("0-1-0".parse().unwrap(), "e", &states);
        snapshot.confirmed_tickets.insert("web".to_owned(), "t".to_owned());
        Case { snapshot, fail_fast: false, on_timeout: OnTimeout::Fail, observed: Observations::default() }
    }

    fn set_db(&mut self, state: State, stuck: Option<&str>) {
        self.snapshot.states.insert("db".to_owned(), state);
        self.snapshot.stuck.extend(stuck.map(|why| ("db".to_owned(), why.to_owned())));
    }

    fn decide(&self, kind: GateKind<'_>) -> &'static str {
        let conditions: [WaitCondition; 1] = ["db".parse().unwrap()];
        let spec = GateSpec { kind, conditions: &conditions, fail_fast: self.fail_fast, on_timeout: self.on_timeout };
        let view = PodView::Snapshot(self.snapshot.clone(), Source::Board);
        match decide(&view, &spec, &self.observed) {
            Decision::Open(OpenReason::ConditionsMet) => "open",
            Decision::Open(OpenReason::AlreadyStarted) => "open: started",
            Decision::Open(OpenReason::PodTerminating) => "open: deleted",
            Decision::Open(OpenReason::FallbackPassed) => "open: fallback",
            Decision::Closed(obstacles) => match obstacles.last().unwrap() {
                Obstacle::Unconfirmed => "closed: not confirmed",
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

fn check(rule: &str, change: Change, expected: [&str; 2]) {
    let mut case = Case::new();
    change(&mut case);
    let kinds = [GateKind::PostStart("web"), GateKind::Entrypoint("t")];
    assert_eq!(kinds.map(|kind| case.decide(kind)), expected, "{rule}: hook, gate");
}

#[test]
fn each_rule_holds_for_each_kind_of_gate() {
    let rows: [(&str, Change, [&str; 2]); 17] = [
        ("all conditions are met", |_| {}, ["open"; 2]),
        ("a condition is not met", |case| case.set_db(State::Started, None), ["closed"; 2]),
        (
            "the conditions are not confirmed",
            |case| case.snapshot.confirmed_tickets.clear(),
            ["open", "closed: not confirmed"],
        ),
        (
            "a check is pending",
            |case| case.observed.pending_checks.push("file:///ready".to_owned()),
            ["closed: check", "closed: check"],
        ),
        (
            "a check cannot pass any more",
            |case| case.observed.impossible_check = Some("/ready.err exists".to_owned()),
            ["gives up: check", "gives up: check"],
        ),
        (
            "a condition cannot be met, with fail-fast",
            |case| {
                case.set_db(State::Failed, Some(REASON_ENDED));
                case.fail_fast = true;
            },
            ["gives up", "gives up"],
        ),
        (
            "a container is stuck, with fail-fast",
            |case| {
                case.set_db(State::Waiting, Some("ImagePullBackOff"));
                case.fail_fast = true;
            },
            ["gives up", "gives up"],
        ),
        (
            "the sidecar cannot see a condition, with fail-fast",
            |case| {
                case.set_db(State::Waiting, None);
                case.snapshot.unseen = ["db=Ready".to_owned()].into();
                case.fail_fast = true;
            },
            ["closed: unseen"; 2],
        ),
        (
            "a container is unknown",
            |case| _ = case.snapshot.states.remove("db"),
            ["closed: unknown", "closed: unknown"],
        ),
        (
            "a container is unknown after 2 s",
            |case| {
                case.snapshot.states.remove("db");
                case.observed.waited = SETTLE_TIME;
            },
            ["gives up: unknown", "gives up: unknown"],
        ),
        (
            "an earlier container in the list has ended",
            |case| {
                case.set_db(State::Started, None);
                case.snapshot.states.insert("api".to_owned(), State::Failed);
            },
            ["gives up: predecessor", "closed"],
        ),
        (
            "the Pod has started",
            |case| {
                case.set_db(State::Waiting, None);
                case.snapshot.stage = Stage::Started;
            },
            ["open: started", "closed"],
        ),
        (
            "the Pod is being deleted",
            |case| {
                case.set_db(State::Waiting, None);
                case.snapshot.stage = Stage::Terminating;
            },
            ["open: deleted", "gives up: deleted"],
        ),
        (
            "the sidecar is not running",
            |case| {
                case.set_db(State::Waiting, None);
                case.observed.sidecar = SidecarHealth::Dead(None);
            },
            ["closed: sidecar dead", "closed: sidecar dead"],
        ),
        (
            "the sidecar is not running, and the fallback check has failed",
            |case| {
                case.set_db(State::Waiting, None);
                case.observed.sidecar = SidecarHealth::Dead(Some(Err("refused".to_owned())));
            },
            ["closed: fallback failed", "closed: fallback failed"],
        ),
        (
            "the sidecar is not running, and the fallback check has passed",
            |case| {
                case.set_db(State::Waiting, None);
                case.observed.sidecar = SidecarHealth::Dead(Some(Ok(())));
            },
            ["open: fallback", "open: fallback"],
        ),
        (
            "on-timeout is continue: no other container opens the gate early",
            |case| {
                case.set_db(State::Failed, Some(REASON_ENDED));
                case.snapshot.states.insert("api".to_owned(), State::Failed);
                (case.fail_fast, case.on_timeout) = (true, OnTimeout::Continue);
                case.observed.impossible_check = Some("/ready.err exists".to_owned());
            },
            ["closed", "closed"],
        ),
    ];
    for (rule, change, expected) in rows {
        check(rule, change, expected);
    }
}
