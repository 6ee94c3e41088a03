//! Tests `try` with random delays, faults and time limits:
//!
//! - No container starts before its conditions are met.
//! - No gate waits longer than its limit, and no run takes longer than its limit.
//! - If all containers start, each fault has occurred.
//! - No process and no file stays behind.

use super::{Machine, Outcome, scenarios};
use crate::hang_guard::HANG_GUARD;
use proptest::prelude::*;
use serde_json::json;
use std::time::{Duration, Instant};

const NAMES: [&str; 3] = ["db", "api", "web"];
const LIMIT: Duration = Duration::from_secs(3);
/// Longest delay after which a busy machine notices a timeout, in seconds.
const SLACK: f64 = 1.5;

fn fault() -> impl Strategy<Value = String> {
    let container = prop::sample::select(&NAMES[..]);
    let fault = prop_oneof![
        Just("never".to_owned()),
        (50..900_u64).prop_map(|ms| format!("crash:{ms}ms")),
        (50..1500_u64).prop_map(|ms| format!("kill:{ms}ms")),
    ];
    let of_sidecar = (300..1500_u64).prop_map(|ms| format!("sidecar@kill:{ms}ms"));
    prop_oneof![4 => (container, fault).prop_map(|(name, fault)| format!("{name}@{fault}")), 1 => of_sidecar]
}

/// Returns the events in the output of `try`, with their times in seconds.
fn events(text: &str) -> Vec<(f64, String)> {
    let event = |line: &str| {
        let (time, rest) = line.split_once(" s  ")?;
        Some((time.trim().parse().ok()?, rest.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    text.lines().filter_map(event).collect()
}

/// Returns the first fault: a container that started before its predecessor permitted it, or a gate that waited longer
/// than `limit` seconds.
fn first_fault(events: &[(f64, String)], limit: Option<f64>) -> Option<String> {
    for pair in NAMES.windows(2) {
        let (before, own) = (pair[0], pair[1]);
        let (mut is_ready, mut waits_since) = (false, None);
        for (at, event) in events {
            let words: Vec<&str> = event.split(' ').collect();
            is_ready |= words[0] == before && words[1] == "Ready";
            if words[0] == own && words[1] == "started" && !is_ready {
                return Some(format!("{own} started at {at} s, before {before} was Ready"));
            }
            if let (Some(since), Some(limit)) = (waits_since, limit)
                && at - since > limit + SLACK
            {
                return Some(format!("the gate of {own} waited from {since} s until {at} s"));
            }
            match words[..] {
                [name, "waits", ..] if name == own => waits_since = Some(*at),
                [name, "started" | "ended", ..] if name == own => waits_since = None,
                _ => {}
            }
        }
    }
    None
}

/// Returns true if the events show that the fault has occurred.
fn has_shown(fault: &str, events: &[(f64, String)]) -> bool {
    let (name, kind) = fault.split_once('@').unwrap();
    let name = if name == "sidecar" { "podgate" } else { name };
    let kind = kind.split(':').next().unwrap();
    let times = |what: &str| {
        let wanted = format!("{name} {what}");
        events.iter().filter(move |(_, event)| event.starts_with(&wanted)).map(|(at, _)| *at).collect::<Vec<_>>()
    };
    match kind {
        "crash" => !times("ended (exit code 1)").is_empty(),
        "kill" => !times("is killed").is_empty() && !times("ended (SIGKILL)").is_empty(),
        "never" => times("Ready").is_empty() && !times("started").is_empty(),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 4, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_fault_breaks_the_order(
        delays in prop::collection::vec(20..300_u64, 3),
        faults in prop::collection::vec(fault(), 0..3),
        timeout_ms in prop::option::of(100..600_u64),
    ) {
        let mut pod = scenarios::chain();
        let timeout = timeout_ms.map_or("1h".to_owned(), |ms| format!("{ms}ms"));
        pod["metadata"]["annotations"]["podgate.io/timeout"] = timeout.clone().into();
        for container in pod["spec"]["containers"].as_array_mut().unwrap() {
            container["readinessProbe"] = json!({"exec": {"command": ["x"]}, "periodSeconds": 1});
        }
        let mut arguments = vec!["-o=json".to_owned(), format!("--timeout={}s", LIMIT.as_secs())];
        arguments.extend(NAMES.iter().zip(delays).map(|(name, ms)| format!("--ready={name}={ms}ms")));
        arguments.extend(faults.iter().map(|fault| format!("--break={fault}")));
        let machine = Machine::new();
        let since = Instant::now();
        let Outcome { code, out, err } =
            machine.run_manifest(&pod, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert!(since.elapsed() < LIMIT + HANG_GUARD, "{arguments:?} took {:?}", since.elapsed());
        prop_assert!([0, 3].contains(&code), "{arguments:?}: {code}\n{out}\n{err}");
        let unseen = faults.iter().find(|fault| !has_shown(fault, &events(&err)));
        prop_assert!(code != 0 || unseen.is_none(), "{unseen:?} did not occur: {arguments:?}\n{out}\n{err}");
        let found = first_fault(&events(&err), timeout_ms.map(|ms| ms as f64 / 1000.0));
        prop_assert!(found.is_none(), "{found:?}: {timeout} {arguments:?}\n{err}");
        machine.assert_clean();
    }
}
