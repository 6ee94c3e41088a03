//! Tests of `podgate::core::report`.

use podgate::core::annotations;
use podgate::core::container_list::CONTAINERS_MAX;
use podgate::core::report::*;
use podgate::core::until::WaitCondition;

#[test]
fn report_survives_a_round_trip() {
    let full = Report {
        sandbox: Some("3f2a9c1e-4097-1a0c5f3b".parse().unwrap()),
        epoch: "e1".to_owned(),
        agent_version: "0.1.0".to_owned(),
        gate: Some(GateState::Waiting),
        opened_at: Some(4711),
        waiting_for: vec!["db=Ready".parse().unwrap(), "migrate=Completed".parse().unwrap()],
        started: true,
        check_passed: true,
        check_fails: false,
        is_parent: true,
        exit_code: Some(-1),
        stopping: PreStopState::Finished,
        ticket: Some("3f2a9c1e".to_owned()),
        process: Some(Process { pid: 1, start_ticks: 4711 }),
        watched_containers: vec!["app".to_owned()],
    };
    let fails = Report { check_passed: false, check_fails: true, ..full.clone() };
    for report in [full, fails] {
        assert_eq!(Report::parse(report.to_text().as_bytes()), Ok(report));
    }
    assert_eq!(Report::parse(Report::default().to_text().as_bytes()), Ok(Report::default()));
}

fn many(prefix: &str, count: usize) -> Vec<WaitCondition> {
    let name = |number| format!("{prefix}-{number:04}-{}", "x".repeat(50)).parse().unwrap();
    (0..count).map(name).collect()
}

/// Returns the report of an agent with long values in each key.
fn longest(waiting_for: Vec<WaitCondition>) -> Report {
    Report {
        sandbox: Some(format!("3f2a9c1e-{}-1a0c5f3b", u64::MAX).parse().unwrap()),
        epoch: "0123456789abcdef".to_owned(),
        agent_version: "1.23.456-rc.7".to_owned(),
        gate: Some(GateState::Waiting),
        opened_at: Some(u64::MAX),
        waiting_for,
        started: true,
        check_passed: true,
        check_fails: false,
        is_parent: true,
        exit_code: Some(i32::MIN),
        stopping: PreStopState::Finished,
        ticket: Some("3f2a9c1e".to_owned()),
        process: Some(Process { pid: u32::MAX, start_ticks: u64::MAX }),
        watched_containers: (0..4).map(|number| format!("{number}{}", "w".repeat(62))).collect(),
    }
}

#[test]
fn each_report_fits_into_the_reserved_file() {
    for count in 0..=CONTAINERS_MAX {
        let report = longest(many("db", count));
        let size = reserved_size(&report.waiting_for);
        let text = report.to_padded_text(size);
        assert_eq!(text.len(), size, "{count} conditions");
        assert_eq!(Report::parse(text.as_bytes()), Ok(report));
    }
    assert_eq!(reserved_size(&[]), annotations::PAGE_SIZE);
    let watched_containers = (0..60).map(|number| format!("app-{number}")).collect();
    let long = Report { watched_containers, ..longest(Vec::new()) };
    assert_eq!(Report::parse(long.to_text().as_bytes()).unwrap().watched_containers, [ALL_CONTAINERS]);
}

/// A process that is killed while it overwrites a file leaves the start of the new file and the end of the old one.
#[test]
fn mixture_of_two_reports_is_torn() {
    let (old, new) = (longest(many("db", 90)), longest(many("api", 60)));
    let size = reserved_size(&old.waiting_for);
    let (old_text, new_text) = (old.to_padded_text(size), new.to_padded_text(size));
    for at in 0..=size {
        let mixture = format!("{}{}", &new_text[..at], &old_text[at..]);
        match Report::parse(mixture.as_bytes()) {
            Ok(found) => assert!(found == old && mixture == old_text || found == new, "{at}: {found:?}"),
            Err(_) => assert!(mixture != old_text && mixture != new_text, "{at}"),
        }
    }
}

#[test]
fn lists_and_words_of_a_report_have_a_maximum() {
    const FILE_MAX: usize = podgate::core::names::BOARD_FILE_MAX;
    for key in ["epoch", "agent", "ticket", "waiting-for", "watching"] {
        let distinct: Vec<String> = (0..5000).map(|number| format!("db-{number}")).collect();
        for value in ["a".repeat(FILE_MAX), "a,".repeat(FILE_MAX / 2), "-".repeat(FILE_MAX), distinct.join(",")] {
            let report = Report::parse(format!("{key}=\"{value}\"").as_bytes()).unwrap();
            let text = report.to_text();
            assert!(text.len() <= CONTAINERS_MAX * "db-123=Ready,".len() + 100, "{key}: {} bytes", text.len());
        }
    }
    let twice = Report::parse(b"waiting-for=\"a,b,a=Ready,a=Exited\"\nwatching=\"a,a\"").unwrap();
    assert_eq!((twice.waiting_for.len(), twice.watched_containers.len()), (3, 1));
}

#[test]
fn invalid_values_are_skipped() {
    let report =
        Report::parse(b"check=\"yes\"\nexit-code=\"x\"\ngate=\"open\"\nstarted=\"1\"\nwaiting-for=\"A,b\"").unwrap();
    assert_eq!(report, Report { waiting_for: vec!["b".parse().unwrap()], ..Report::default() });
    assert!(Report::parse(b"started").is_err());
}
