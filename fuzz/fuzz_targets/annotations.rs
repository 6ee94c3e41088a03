//! Fuzzes the readers of files that another container may have written: annotations, snapshots, reports.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podgate::core::annotations::{read, write};
use podgate::core::report::Report;
use podgate::core::snapshot::{Snapshot, is_snapshot_key};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(report) = Report::parse(bytes) {
        assert_eq!(Report::parse(report.to_text().as_bytes()), Ok(report));
    }
    let Ok(mut all) = read(bytes, |_| true) else { return };
    // A last line with this key must contain the hash of the other lines. No annotation can have this name.
    all.remove("~");
    assert_eq!(read(write(&all).as_bytes(), |_| true), Ok(all.clone()), "does not round-trip");
    let own = read(bytes, is_snapshot_key).expect("skipping keys causes no error");
    assert!(own.iter().all(|(key, value)| all.get(key) == Some(value)));
    if let Ok(snapshot) = Snapshot::from_annotations(&own) {
        assert_eq!(Snapshot::from_annotations(&snapshot.to_annotations()), Ok(snapshot));
    }
});
