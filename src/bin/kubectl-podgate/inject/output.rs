//! Where results go: standard output, or the files they came from.

use super::diff;
use crate::yaml::Source;
use crate::yaml::files::Input;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file and what it is to be.
#[derive(Debug)]
pub(super) struct FileChange {
    pub(super) input: Input,
    pub(super) source: Source,
    /// Its whole text; the same if nothing changes.
    pub(super) new_text: String,
}

impl FileChange {
    /// As a patch; empty if nothing changes.
    pub(super) fn diff(&self) -> String {
        diff::unified(&self.source.name, &self.source.text, &self.new_text)
    }
}

/// All files as one stream that `kubectl apply -f -` reads: one alone as it is, several with separators between them.
pub(super) fn joined_stream(changed: &[FileChange]) -> String {
    if let [one] = changed {
        return one.new_text.clone();
    }
    // A stream that begins with `{` is read as JSON from then on; behind a separator JSON is YAML.
    let mut out = String::new();
    for changed in changed.iter().filter(|changed| changed.source.documents.iter().any(|d| !d.value.is_null())) {
        for part in stream_parts(changed) {
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
            if !starts_with_separator(part) {
                out.push_str("---\n");
            }
            out.push_str(part);
        }
    }
    out
}

/// A file's text without its byte order mark. A file of several JSON values gives one text for each.
fn stream_parts(changed: &FileChange) -> Vec<&str> {
    let text = changed.new_text.trim_start_matches('\u{feff}');
    if !changed.source.documents.iter().any(|document| document.is_json) {
        return vec![text];
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    let (mut parts, mut at) = (Vec::new(), 0);
    while let Some(Ok(_)) = values.next() {
        parts.push(text[at..values.byte_offset()].trim_start());
        at = values.byte_offset();
    }
    parts
}

fn starts_with_separator(text: &str) -> bool {
    let code = text.lines().find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    code.is_some_and(|line| line.starts_with("---"))
}

/// Writes to standard output.
pub(super) fn print(text: &str) -> Result<(), Vec<String>> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Who closes the pipe has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| vec![format!("can't write: {error}")]),
    }
}

/// Rewrites the files that change. Each is either as it was or as it is to be, whatever happens; the first that can't be written
/// ends it.
pub(super) fn write_in_place(changed: &[FileChange]) -> Result<(), Vec<String>> {
    for changed in changed.iter().filter(|changed| changed.new_text != changed.source.text) {
        let Input::File(path) = &changed.input else { continue };
        let failed = |error| vec![format!("{}: can't be written: {error}", path.display())];
        rewrite(path, &changed.new_text).map_err(failed)?;
    }
    Ok(())
}

fn rewrite(path: &Path, text: &str) -> io::Result<()> {
    // Behind a symbolic link the file itself is rewritten, and the link stays.
    let path = fs::canonicalize(path)?;
    let mode = fs::metadata(&path)?.permissions();
    if mode.readonly() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is write-protected"));
    }
    let (mut file, beside) = create_temp_file(&path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.set_permissions(mode))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // The error that counts is that of writing.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A new file in the same folder: only within one file system does a rename replace.
fn create_temp_file(path: &Path) -> io::Result<(fs::File, PathBuf)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut number = 0;
    loop {
        let beside = path.with_file_name(format!(".{name}.podgate-{}-{number}", std::process::id()));
        match fs::OpenOptions::new().write(true).create_new(true).open(&beside) {
            Ok(file) => return Ok((file, beside)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_change(text: &str) -> FileChange {
        let source = Source::parse("f", text.to_owned()).unwrap();
        FileChange { input: Input::Stdin, new_text: text.to_owned(), source }
    }

    #[test]
    fn one_file_comes_out_as_it_is() {
        for text in ["", "a: 1", "{\"a\": 1}{\"b\": 2}", "\u{feff}---\na: 1\n---\n"] {
            assert_eq!(joined_stream(&[file_change(text)]), text);
        }
    }

    #[test]
    fn several_files_become_one_stream() {
        let all = [
            file_change("a: 1"),
            file_change("# c\n---\nb: 1\n"),
            file_change("# nothing\n"),
            file_change("{\"c\": 1} {\"d\": 1}\n"),
            file_change("\u{feff}e: 1\n"),
        ];
        assert_eq!(joined_stream(&all), "---\na: 1\n# c\n---\nb: 1\n---\n{\"c\": 1}\n---\n{\"d\": 1}\n---\ne: 1\n");
    }
}
