//! Tests the table of rules in `core/gate.rs`: a row for each rule, with the decision of a hook and of a gate in front
//! of a command. The tests of `HoldGate` cover the gate at the kubelet.

use podgate::core::gate::{
    Decision, GateKind, GateSpec, Observations, OnTimeout, SIDECAR_START_TIMEOUT, SidecarHealth, decide,
};
use podgate::core::snapshot::{REASON_ENDED_FOR_GOOD, Snapshot};
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
        let (kind, text) = match decide(&view, &spec, &self.observed) {
            Decision::Open(reason) => ("open", reason.to_owned()),
            Decision::Closed(mut obstacles) => ("closed", obstacles.pop().unwrap()),
            Decision::GiveUp(exit, reason) => ("gives up", format!("{} {reason}", exit.code())),
        };
        let texts = [
            ("open", "the pod has started before, ", "open: started"),
            ("open", "the pod is being deleted", "open: deleted"),
            ("open", "the sidecar is not running, and the fallback check has passed", "open: fallback"),
            ("open", "all conditions are met", "open"),
            ("closed", "the confirmation of the conditions", "closed: not confirmed"),
            ("closed", "file:///ready", "closed: check"),
            ("closed", "db=Ready (no state published yet)", "closed: unknown"),
            ("closed", "db=Ready (podgate cannot see this: ", "closed: unseen"),
            ("closed", "the sidecar is not running and cannot restart", "closed: sidecar dead"),
            ("closed", "the sidecar is not running; see its log", "closed: sidecar dead"),
            ("closed", "the sidecar is not running; fallback check refused", "closed: fallback failed"),
            ("closed", "db=Ready (now ", "closed"),
            ("gives up", "78 no such container: db; the pod has api, web", "gives up: unknown"),
            ("gives up", "69 /ready.err exists", "gives up: check"),
            ("gives up", "143 the pod is being deleted", "gives up: deleted"),
            ("gives up", "69 api is Failed; the kubelet restarts api only after", "gives up: predecessor"),
            ("gives up", "69 db=Ready cannot be met: ", "gives up"),
        ];
        let found = texts.into_iter().find(|(of, start, _)| *of == kind && text.starts_with(start));
        found.unwrap_or_else(|| panic!("{kind}: {text}")).2
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
                case.set_db(State::Failed, Some(REASON_ENDED_FOR_GOOD));
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
                case.observed.waited = SIDECAR_START_TIMEOUT;
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
                case.observed.sidecar = SidecarHealth::Dead;
            },
            ["closed: sidecar dead", "closed: sidecar dead"],
        ),
        (
            "the sidecar is not running, and the fallback check has failed",
            |case| {
                case.set_db(State::Waiting, None);
                case.observed.sidecar = SidecarHealth::FallbackFailed("refused".to_owned());
            },
            ["closed: fallback failed", "closed: fallback failed"],
        ),
        (
            "the sidecar is not running, and the fallback check has passed",
            |case| {
                case.set_db(State::Waiting, None);
                case.observed.sidecar = SidecarHealth::FallbackPassed;
            },
            ["open: fallback", "open: fallback"],
        ),
        (
            "on-timeout is continue: no other container opens the gate early",
            |case| {
                case.set_db(State::Failed, Some(REASON_ENDED_FOR_GOOD));
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
