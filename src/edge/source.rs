//! Reads the two sources of the pod's state: the board and the downward-API volume.

use crate::core::annotations::{self, Annotations};
use crate::core::names;
use crate::core::snapshot::{Snapshot, Unreadable, is_snapshot_key};
use crate::core::sources::SnapshotResult;
use crate::edge::files;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Reads the snapshot on the board at `directory`.
pub fn read_board(directory: &Path) -> SnapshotResult {
    Snapshot::from_annotations(&read_board_annotations(directory)?)
}

/// Reads the annotations of the snapshot on the board at `directory`.
pub fn read_board_annotations(directory: &Path) -> Result<Annotations, Unreadable> {
    let read = || -> io::Result<Vec<u8>> {
        let directory = files::open_directory_following_links(directory)?;
        files::read_beneath(directory.as_fd(), Path::new(names::ANNOTATIONS_FILE), names::BOARD_FILE_MAX)
    };
    parse_annotations(&read().map_err(unreadable)?, is_snapshot_key)
}

/// Reads the snapshot in the downward-API volume at `directory`.
pub fn read_volume(directory: &Path) -> SnapshotResult {
    Snapshot::from_annotations(&read_volume_annotations(directory, is_snapshot_key)?)
}

/// Reads annotations in the downward-API volume at `directory`. Skips the keys that `wanted` rejects.
pub fn read_volume_annotations(directory: &Path, wanted: impl FnMut(&str) -> bool) -> Result<Annotations, Unreadable> {
    let path = directory.join(names::ANNOTATIONS_FILE);
    let read = || files::read_following_links(&path, names::PODINFO_FILE_MAX);
    // The kubelet swaps the link `..data`, then deletes the old directory. A path lookup during the swap can fail, so
    // retry.
    let bytes = match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => read(),
        other => other,
    };
    parse_annotations(&bytes.map_err(unreadable)?, wanted)
}

fn parse_annotations(bytes: &[u8], wanted: impl FnMut(&str) -> bool) -> Result<Annotations, Unreadable> {
    annotations::read(bytes, wanted).map_err(|torn| Unreadable::Torn(torn.to_string()))
}

fn unreadable(error: io::Error) -> Unreadable {
    match error.kind() {
        io::ErrorKind::NotFound => Unreadable::Missing,
        _ => Unreadable::ReadFailed(error.to_string()),
    }
}
