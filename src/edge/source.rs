//! Reading the two sources of the pod's states: the board and the downward-API volume.

use crate::core::annotations::{self, Annotations};
use crate::core::names;
use crate::core::snapshot::{NoWord, Snapshot, is_ours};
use crate::core::sources::Reading;
use crate::edge::files;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Reads the snapshot on the board at `folder`.
pub fn board(folder: &Path) -> Reading {
    snapshot(board_bytes(folder).map_err(no_word)?.as_slice())
}

/// Reads one annotation on the board at `folder`, if it is there.
pub fn board_annotation(folder: &Path, key: &str) -> Option<String> {
    annotations::read(&board_bytes(folder).ok()?, |found| found == key).ok()?.remove(key)
}

fn board_bytes(folder: &Path) -> io::Result<Vec<u8>> {
    let folder = files::open_folder(folder)?;
    files::read_beneath(folder.as_fd(), Path::new(names::ANNOTATIONS_FILE), names::BOARD_FILE_MAX)
}

/// Reads the snapshot in the downward-API volume at `folder`.
pub fn volume(folder: &Path) -> Reading {
    snapshot(volume_bytes(folder).map_err(no_word)?.as_slice())
}

/// Reads those annotations in the downward-API volume at `folder` that `wanted` accepts.
///
/// # Errors
/// [`NoWord`] when the file is missing, can't be read or is not whole.
pub fn volume_annotations(folder: &Path, wanted: impl FnMut(&str) -> bool) -> Result<Annotations, NoWord> {
    read(&volume_bytes(folder).map_err(no_word)?, wanted)
}

fn volume_bytes(folder: &Path) -> io::Result<Vec<u8>> {
    let path = folder.join(names::ANNOTATIONS_FILE);
    let read = || files::read_trusted(&path, names::PODINFO_FILE_MAX);
    // The kubelet deletes the old folder right after it has swapped `..data`: a path walk that straddles the swap finds nothing.
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => read(),
        other => other,
    }
}

fn snapshot(bytes: &[u8]) -> Reading {
    Snapshot::from_annotations(&read(bytes, is_ours)?)
}

fn read(bytes: &[u8], wanted: impl FnMut(&str) -> bool) -> Result<Annotations, NoWord> {
    annotations::read(bytes, wanted).map_err(|torn| NoWord::Torn(torn.to_string()))
}

fn no_word(error: io::Error) -> NoWord {
    match error.kind() {
        io::ErrorKind::NotFound => NoWord::Missing,
        _ => NoWord::Unreadable(error.to_string()),
    }
}
