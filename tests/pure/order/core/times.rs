//! Tests of `podgate::core::times`.

use podgate::core::annotations::VALUE_MAX;
use podgate::core::times::*;

fn sample() -> Times {
    let mut times = Times::default();
    for (name, what, ms) in [
        ("db", Milestone::Started, 1_763_733_605_123),
        ("db", Milestone::Ready, 1_763_733_606_700),
        ("api", Milestone::GateWaiting, 1_763_733_605_200),
        ("api", Milestone::GateOpened, 1_763_733_606_703),
    ] {
        times.record_first(name, what, ms);
    }
    times.record_state_change("api", 1_763_733_606_710);
    times
}

#[test]
fn times_survive_a_round_trip() {
    let text = sample().to_string();
    assert_eq!(text, "1763733605123,api=gate+77;opened+1580;since+1587,db=started+0;ready+1577");
    assert_eq!(Times::parse(&text), sample());
    assert!(Times::parse(&Times::default().to_string()).is_empty());
}

#[test]
fn first_time_counts_except_for_state_changes() {
    let mut times = sample();
    times.record_first("db", Milestone::Started, 9);
    times.record_state_change("api", 1_763_733_609_000);
    assert_eq!(times.get("db", Milestone::Started), Some(1_763_733_605_123));
    assert_eq!(times.get("api", Milestone::StateChanged), Some(1_763_733_609_000));
}

#[test]
fn invalid_parts_are_skipped() {
    for (text, left) in [
        ("", 0),
        ("x,db=started+1", 0),
        ("-1,db=started+1", 0),
        ("5,db=started+x;ready+2,api,=,web=never+3;ready", 1),
        ("18446744073709551615,db=started+1;ready+0", 1),
    ] {
        let times = Times::parse(text);
        assert_eq!(times.to_string().matches('+').count(), left, "{text}");
    }
}

#[test]
fn text_stays_within_the_size_limit() {
    let mut times = sample();
    for number in 0..200 {
        for what in Milestone::ALL {
            times.record_first(&format!("{}-{number}", "x".repeat(50)), what, 1_763_733_605_123 + 86_400_000);
        }
    }
    let text = times.to_string();
    assert!(text.len() <= VALUE_MAX && text.len() > VALUE_MAX - 200, "{}", text.len());
    assert_eq!(Times::parse(&text).get("db", Milestone::Ready), times.get("db", Milestone::Ready));
}
