//! Random delays and faults: no container starts before its conditions hold, no run takes longer than its limit, and
//! nothing stays behind.

use super::{Machine, Outcome};
use proptest::prelude::*;
use serde_json::Value;
use std::time::{Duration, Instant};

const NAMES: [&str; 3] = ["db", "api", "web"];
const LIMIT: Duration = Duration::from_secs(4);

fn fault() -> impl Strategy<Value = String> {
    let container = prop::sample::select(&NAMES[..]);
    let fault = prop_oneof![
        Just("never".to_owned()),
        (50..900_u64).prop_map(|ms| format!("slow:{ms}ms")),
        (50..900_u64).prop_map(|ms| format!("crash:{ms}ms")),
        (50..1500_u64).prop_map(|ms| format!("kill:{ms}ms")),
    ];
    let of_sidecar = (300..1500_u64).prop_map(|ms| format!("sidecar@kill:{ms}ms"));
    prop_oneof![4 => (container, fault).prop_map(|(name, fault)| format!("{name}@{fault}")), 1 => of_sidecar]
}

/// Returns the time of a container's milestone, for comparisons.
fn time<'a>(run: &'a Value, name: &str, milestone: &str) -> Option<&'a str> {
    let rows = run["containers"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name)?[milestone]["at"].as_str()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 4, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_fault_breaks_the_order(
        delays in prop::collection::vec(20..500_u64, 3),
        faults in prop::collection::vec(fault(), 0..3),
    ) {
        let mut arguments = vec!["-o=json".to_owned(), format!("--timeout={}s", LIMIT.as_secs())];
        arguments.extend(NAMES.iter().zip(delays).map(|(name, ms)| format!("--ready={name}={ms}ms")));
        arguments.extend(faults.iter().map(|fault| format!("--break={fault}")));
        let machine = Machine::new();
        let since = Instant::now();
        let Outcome { code, out, err } = machine.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert!(since.elapsed() < LIMIT + Duration::from_secs(3), "{arguments:?} took {:?}", since.elapsed());
        prop_assert!(code == 0 || code == 3, "{arguments:?}: {code}\n{out}\n{err}");
        let run: Value = serde_json::from_str(&out).unwrap();
        for (before, after) in [("db", "api"), ("api", "web")] {
            if let Some(started) = time(&run, after, "started") {
                let ready = time(&run, before, "ready");
                // The first run of a restarted container may never have been Ready.
                let was_restarted = run["containers"].as_array().unwrap().iter().any(|row| row["name"] == before && row["restarts"] != 0);
                prop_assert!(was_restarted || ready.is_some_and(|ready| ready <= started), "{arguments:?}\n{out}\n{err}");
            }
        }
        machine.assert_clean();
    }
}
