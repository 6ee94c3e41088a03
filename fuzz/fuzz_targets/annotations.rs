//! The files that another container may have written: annotations, snapshots, reports.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podgate::core::annotations::{read, write};
use podgate::core::report::Report;
use podgate::core::snapshot::{Snapshot, is_ours};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(report) = Report::read(bytes) {
        assert_eq!(Report::read(report.write().as_bytes()), Ok(report));
    }
    let Ok(all) = read(bytes, |_| true) else { return };
    assert_eq!(
        read(write(&all).as_bytes(), |_| true),
        Ok(all.clone()),
        "what was read is written so that it reads back"
    );
    let ours = read(bytes, is_ours).expect("what is skipped tears no file");
    assert!(ours.iter().all(|(key, value)| all.get(key) == Some(value)));
    if let Ok(snapshot) = Snapshot::from_annotations(&ours) {
        assert_eq!(Snapshot::from_annotations(&snapshot.to_annotations()), Ok(snapshot));
    }
});
