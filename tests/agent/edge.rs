//! Tests of the functions of `edge` by which agent and sidecar share directories: files, tether, watch, installation.

use podgate::core::annotations::PAGE_SIZE;
use podgate::core::names::{ANNOTATIONS_FILE, BELL_FILE, TETHER_FILE};
use podgate::core::snapshot::Snapshot;
use podgate::core::sources::{PodView, Source, SourceError};
use podgate::edge::bell::Ringer;
use podgate::edge::files::{install, may_be_cached, open_directory_following_links, overwrite, read_beneath, replace};
use podgate::edge::lock::{Tether, is_tethered};
use podgate::edge::watch::{WakeReason, Watch, WatchMethod, reread_interval};
use rustix::fs::{FileType, Mode};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

fn read(directory: &Path, name: &str) -> io::Result<Vec<u8>> {
    read_beneath(open_directory_following_links(directory)?.as_fd(), Path::new(name), 100)
}

fn make_fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

#[test]
fn replace_sets_content_and_mode() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for content in [b"one".as_slice(), b"two"] {
        fs::write(at(".report.tmp"), "left behind").unwrap();
        replace(directory.path(), "report", content, 0o644).unwrap();
        assert_eq!(read(directory.path(), "report").unwrap(), content);
    }
    fs::create_dir_all(at(".report.tmp/file")).unwrap();
    replace(directory.path(), "report", b"two", 0o644).unwrap();
    fs::remove_dir_all(at(".report.tmp")).unwrap();
    assert_eq!(fs::metadata(at("report")).unwrap().permissions().mode() & 0o7777, 0o644);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn existing_path_may_be_cached() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file").display().to_string();
    assert!(!may_be_cached(&path));
    fs::write(&path, "").unwrap();
    assert!(may_be_cached(&path) && !may_be_cached(&format!("{path}.err")));
}

#[test]
fn overwrite_needs_an_existing_regular_file() {
    let directory = tempfile::tempdir().unwrap();
    assert!(overwrite(directory.path(), "report", b"x").is_err());
    fs::write(directory.path().join("report"), "old!").unwrap();
    overwrite(directory.path(), "report", b"new!").unwrap();
    assert_eq!(fs::read(directory.path().join("report")).unwrap(), b"new!");
    overwrite(directory.path(), "report", &[b'x'; PAGE_SIZE]).unwrap();
    for size in [0, 3, PAGE_SIZE - 1, PAGE_SIZE + 1] {
        let error = overwrite(directory.path(), "report", &vec![b'y'; size]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }
    symlink("report", directory.path().join("link")).unwrap();
    assert!(overwrite(directory.path(), "link", b"x").is_err());
}

#[test]
fn reading_rejects_all_but_small_regular_files() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("secret"), "s").unwrap();
    symlink(at("secret"), at("link")).unwrap();
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/file"), "f").unwrap();
    symlink(at("d"), at("dirlink")).unwrap();
    make_fifo(&at("fifo"));
    fs::write(at("huge"), vec![b'x'; 101]).unwrap();
    for bad in ["link", "d", "dirlink/file", "fifo", "huge", "missing", "../x", "/etc/passwd"] {
        assert!(read(directory.path(), bad).is_err(), "{bad}");
    }
    assert_eq!(read(directory.path(), "d/file").unwrap(), b"f");
}

#[test]
fn failed_install_leaves_no_files() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("podgate")).unwrap();
    assert!(install(b"program", directory.path(), "podgate").is_err());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

fn directory_of_db() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("db")).unwrap();
    root
}

#[test]
fn existing_tether_is_used_if_none_can_be_created() {
    let root = directory_of_db();
    let db = root.path().join("db");
    fs::write(db.join(TETHER_FILE), "").unwrap();
    // A directory has the tether's temporary name. The agent cannot unlink this directory, so it cannot create a
    // tether.
    fs::create_dir(db.join(format!(".{TETHER_FILE}.tmp"))).unwrap();
    let tether = Tether::take_over(&db).unwrap();
    assert!(is_tethered(root.path(), "db"));
    assert!(Tether::take_over(&db).is_err(), "the lock is already held");
    drop(tether);
}

#[test]
fn tether_other_than_a_regular_file_is_not_taken() {
    let root = directory_of_db();
    let path = root.path().join("db").join(TETHER_FILE);
    symlink("/etc/passwd", &path).unwrap();
    assert!(!is_tethered(root.path(), "db"));
    fs::remove_file(&path).unwrap();
    make_fifo(&path);
    assert!(!is_tethered(root.path(), "db"));
    assert!(!is_tethered(root.path(), "ghost"));
}

fn with_snapshot() -> PodView {
    PodView::Snapshot(Snapshot::new("0-0-0".parse().unwrap(), "e", &[]), Source::Board)
}

fn without_snapshot() -> PodView {
    PodView::NoSnapshot { board: SourceError::OtherSandbox, volume: Some(SourceError::OtherSandbox) }
}

#[test]
fn slow_rereads_become_rare_but_never_stop() {
    let at = |seconds| reread_interval(Duration::from_secs(seconds)).as_secs();
    assert_eq!([0, 10, 30, 100, 100_000].map(at), [1, 1, 3, 10, 10]);
}

#[test]
fn read_repeats_until_the_armed_source_was_read() {
    let board = tempfile::tempdir().unwrap();
    let mut ringer = Ringer::new(board.path(), BELL_FILE);
    ringer.ring().unwrap();
    let no_volume = Some(board.path().join("no-volume"));
    let mut watch = Watch::new(board.path().to_owned(), no_volume);
    // Reads `view` and replaces the bell during the first `rings` reads. Returns the number of reads, the watch's
    // method, and the reason why the next wait ends.
    let mut reads = |view: fn() -> PodView, rings: usize| {
        let mut count = 0;
        watch.read(|| {
            count += 1;
            (count <= rings).then(|| ringer.ring().unwrap());
            view()
        });
        (count, watch.method, watch.wait(Duration::ZERO, Vec::new()).unwrap())
    };
    assert_eq!(reads(with_snapshot, 0), (1, WatchMethod::Bell, WakeReason::NoEvent));
    // If the bell is replaced after arming, the armed bell does not ring for the next publication, so `read` reads
    // again.
    assert_eq!(reads(with_snapshot, 1), (2, WatchMethod::Bell, WakeReason::NoEvent));
    // The bell does not ring for a change of the volume, so the watch uses inotify.
    assert_eq!(reads(without_snapshot, 0), (2, WatchMethod::Inotify, WakeReason::NoEvent));
    assert_eq!(reads(without_snapshot, 0), (1, WatchMethod::Inotify, WakeReason::NoEvent));
    // When a snapshot appears on the board, the watch switches to the bell.
    assert_eq!(reads(with_snapshot, 0), (2, WatchMethod::Bell, WakeReason::NoEvent));
    // A board that changes at every read does not block `read`. The last ring then ends the wait at once.
    assert_eq!(reads(with_snapshot, usize::MAX), (4, WatchMethod::Bell, WakeReason::Source));
    drop(ringer);
    watch.read(with_snapshot);
    let mut wait = || watch.wait(Duration::ZERO, Vec::new()).unwrap();
    assert_eq!(wait(), WakeReason::NoEvent);
    replace(board.path(), ANNOTATIONS_FILE, b"", 0o644).unwrap();
    assert_eq!(wait(), WakeReason::Source);
    // If the volume is full, the sidecar overwrites the file instead of replacing it.
    overwrite(board.path(), ANNOTATIONS_FILE, b"").unwrap();
    assert_eq!(wait(), WakeReason::Source);
    assert_eq!(watch.method, WatchMethod::Inotify);
}
