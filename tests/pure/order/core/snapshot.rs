//! Tests of `podgate::core::snapshot`.

use podgate::core::annotations::Annotations;
use podgate::core::names;
use podgate::core::snapshot::*;
use podgate::core::state::State;
use std::collections::{BTreeMap, BTreeSet};

fn sample() -> Snapshot {
    let states = [("db", State::Ready), ("api", State::Waiting)];
    Snapshot {
        revision: 7,
        stuck: BTreeMap::from([("api".to_owned(), "ImagePullBackOff".to_owned())]),
        restarting: BTreeSet::from(["api".to_owned()]),
        confirmed_tickets: BTreeMap::from([("web".to_owned(), "00d1f6c2".to_owned())]),
        startup: [("api", "00d1f6c2", true), ("db", "3f2a9c1e", false)]
            .map(|(name, ticket, passed)| (name.to_owned(), (ticket.to_owned(), passed)))
            .into(),
        pod_ip: Some("fd00::1".into()),
        stopping: BTreeSet::from(["db".to_owned()]),
        restarts: BTreeMap::from([("db".to_owned(), 2)]),
        ..Snapshot::new("3f2a9c1e-4097-1a0c5f3b".parse().unwrap(), "e1", &states)
    }
}

#[test]
fn snapshot_survives_a_round_trip() {
    assert_eq!(Snapshot::from_annotations(&sample().to_annotations()), Ok(sample()));
}

#[test]
fn unknown_state_is_skipped() {
    let mut annotations = sample().to_annotations();
    annotations.insert("status.podgate.io/db".to_owned(), "READY".to_owned());
    assert_eq!(Snapshot::from_annotations(&annotations).unwrap().states.get("db"), None);
}

#[test]
fn snapshot_without_a_required_key_is_invalid() {
    for (key, bad) in [
        (names::SANDBOX_ID_KEY, "x"),
        (names::EPOCH_KEY, "a b"),
        (names::REVISION_KEY, "9007199254740992"),
        (names::REVISION_KEY, "-1"),
        (names::STAGE_KEY, "Starting"),
    ] {
        let mut annotations = sample().to_annotations();
        annotations.insert(key.to_owned(), bad.to_owned());
        assert_eq!(Snapshot::from_annotations(&annotations), Err(Unreadable::Invalid(key)));
        annotations.remove(key);
        assert_eq!(Snapshot::from_annotations(&annotations), Err(Unreadable::Invalid(key)));
    }
}

#[test]
fn foreign_annotations_are_not_a_snapshot() {
    let foreign = Annotations::from([("example.com/a".to_owned(), "1".to_owned())]);
    assert_eq!(Snapshot::from_annotations(&foreign), Err(Unreadable::Empty));
}
