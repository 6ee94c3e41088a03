//! Output of the new manifests: to standard output, or in place.

use crate::error::CommandResult;
use crate::yaml::{Document, Source, split_json};
use podgate::core::text::error_chain;
use similar::TextDiff;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use tempfile::NamedTempFile;

/// Input file with its new text.
pub(crate) struct FileChange<'a> {
    pub(crate) source: &'a Source,
    /// The whole new text. Equal to the old text if nothing changes.
    pub(crate) new_text: String,
}

impl FileChange<'_> {
    /// Returns the change as a patch for `patch` and `git apply`. The patch is empty if nothing changes.
    pub(super) fn diff(&self) -> String {
        let old = self.source.text();
        let [old, new] = [&old, &self.new_text].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
        let diff = TextDiff::configure().newline_terminated(true).diff_slices(&old, &new);
        diff.unified_diff().header(&self.source.name, &self.source.name).to_string()
    }
}

/// Joins all files into one stream for `kubectl apply -f -`. Leaves a single file unchanged; adds separators between
/// several files.
pub(super) fn joined_stream(changed: &[FileChange<'_>]) -> String {
    if let [one] = changed {
        return one.new_text.clone();
    }
    // kubectl reads a stream that begins with `{` as JSON to the end. A separator makes kubectl read YAML instead.
    let mut out = String::new();
    let has_content = |d: &Document| !d.value.is_null() || d.error.is_some();
    for changed in changed.iter().filter(|changed| changed.source.documents.iter().any(has_content)) {
        for part in stream_parts(changed) {
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
            let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
            if !part.lines().find(is_code).is_some_and(|line| line.starts_with("---")) {
                out.push_str("---\n");
            }
            out.push_str(part);
        }
    }
    out
}

/// Returns a file's text without the byte order mark. Splits a JSON file into one part per value.
fn stream_parts<'c>(changed: &'c FileChange<'_>) -> Vec<&'c str> {
    let text = changed.new_text.trim_start_matches('\u{feff}');
    split_json(text, 0).map_or(vec![text], |values| values.into_iter().map(|value| &text[value]).collect())
}

/// Rewrites each changed file atomically. Stops at the first error.
pub(crate) fn write_in_place(changed: &[FileChange<'_>]) -> CommandResult<()> {
    for changed in changed.iter().filter(|changed| changed.new_text != changed.source.text()) {
        let path = &changed.source.path;
        let failed = |error| format!("{}: cannot write: {}", path.display(), error_chain(&error));
        rewrite(path, &changed.new_text).map_err(failed)?;
    }
    Ok(())
}

fn rewrite(path: &Path, text: &str) -> io::Result<()> {
    // Rewrite the target of a symbolic link. The link itself remains.
    let path = fs::canonicalize(path)?;
    let mode = fs::metadata(&path)?.permissions();
    if mode.readonly() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
    }
    // The temporary file is in the same directory, because a rename works only within one file system.
    let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(mode)?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(())
}
