//! Finds and reads the manifests that the user passes: files, directories, standard input.

use super::{Document, Source, SourceError};
use podgate::core::text::{command_line, error_chain};
use serde_json::Value;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub(crate) const FILE_SIZE_MAX: u64 = 64 << 20;
const DIRECTORY_DEPTH_MAX: usize = 32;

pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

pub(crate) fn display_name(path: &Path) -> String {
    if is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() }
}

/// Reads and parses the manifests that `named` selects, in the given order. `-` selects standard input. A directory
/// selects its `*.yaml`, `*.yml` and `*.json` files, sorted by name, except hidden ones. `recursive` adds the
/// subdirectories.
///
/// For an unreadable path or a directory without manifests, returns a source with one document that holds the error.
pub(crate) fn read_sources(named: &[PathBuf], recursive: bool) -> Vec<Source> {
    let mut found = Vec::new();
    for path in named {
        let before = found.len();
        if path.is_dir() && !is_stdin(path) {
            walk_directory(path, if recursive { DIRECTORY_DEPTH_MAX } else { 0 }, &mut found);
        }
        if found.len() == before {
            found.push(path.clone());
        }
    }
    // The user may pass both a directory and a file in that directory. Return each file only once.
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|path| seen.insert(path.clone()));
    let read = |path: PathBuf| match read_text(&path) {
        Ok(text) => {
            let is_chart_template = !named.contains(&path) && is_chart_template(&path);
            let mut source = Source::parse(path, text);
            source.documents.iter_mut().for_each(|document| document.is_chart_template = is_chart_template);
            source
        }
        Err(message) => Source::unreadable(path, message),
    };
    found.into_iter().map(read).collect()
}

fn is_chart_template(path: &Path) -> bool {
    path.ancestors().any(|folder| folder.ends_with("templates") && folder.with_file_name("Chart.yaml").exists())
}

fn walk_directory(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>) else {
        return found.push(directory.to_owned());
    };
    let is_hidden = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    let mut paths: Vec<PathBuf> =
        entries.into_iter().filter(|entry| !is_hidden(entry)).map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(kind) = fs::metadata(&path) else { continue };
        if kind.is_dir() {
            if depth > 0 {
                walk_directory(&path, depth - 1, found);
            }
        } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json") {
            found.push(path);
        }
    }
}

/// Returns the text of one manifest. An error does not name the manifest.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let bytes = match is_stdin(path) {
        true => read_limited(io::stdin().lock()),
        false => fs::File::open(path).and_then(read_limited),
    };
    let bytes = bytes.map_err(|error| match fs::read_dir(path) {
        Ok(_) => "no *.yaml, *.yml or *.json files in this directory; pass -R to search subdirectories too".to_owned(),
        Err(_) if path.starts_with("http:") || path.starts_with("https:") => {
            let curl = command_line(&["curl", "-fsSL", &path.to_string_lossy()]);
            format!("podgate does not download manifests; use `{curl} | kubectl podgate check -`")
        }
        Err(_) => match path.to_str().and_then(|text| text.split_once('/').filter(|_| !text.contains('.'))) {
            // As kubectl's users write the name of an object: `deployment/shop`.
            Some((kind, name)) if !kind.is_empty() && !name.contains('/') && !Path::new(kind).exists() => {
                let get = command_line(&["kubectl", "get", &path.to_string_lossy(), "-o", "yaml"]);
                format!("no such file; to read an object of the cluster, use `{get} | kubectl podgate check -`")
            }
            _ => format!("cannot read: {}", error_chain(&error)),
        },
    })?;
    if bytes.len() as u64 > FILE_SIZE_MAX {
        return Err(format!("the file is larger than {} MiB; split it", FILE_SIZE_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        format!("invalid UTF-8 in line {}; save the file as UTF-8", valid.split(|byte| *byte == b'\n').count())
    })
}

/// Returns an error for each unreadable document that may declare an order, or for all if `reads_all` is true.
pub(crate) fn check_readable(sources: &[Source], reads_all: bool) -> Result<(), Vec<String>> {
    let errors = unreadable(sources, |document| reads_all || document.may_declare_order());
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Returns a message about unreadable documents that podgate ignores because they cannot declare an order. Returns
/// `None` if there are no such documents.
pub(crate) fn ignored_message(sources: &[Source]) -> Option<String> {
    let ignored = unreadable(sources, |document| !document.may_declare_order());
    let why = "without \"podgate.io\" or in a chart's templates";
    let what = match ignored.len() {
        0 => return None,
        1 => format!("ignored an unreadable document {why}"),
        count => format!("ignored {count} unreadable documents {why}, the first"),
    };
    Some(format!("{what}: {}", ignored[0].replacen(": error: ", ": ", 1)))
}

/// Returns the errors of the unreadable documents among the `chosen` ones.
fn unreadable(sources: &[Source], chosen: impl Fn(&Document) -> bool) -> Vec<String> {
    let errors = sources.iter().flat_map(|source| source.errors().map(move |found| (source, found)));
    let errors = errors.filter(|(_, (document, _))| chosen(document));
    errors.map(|(source, (document, error))| error.located_message(&source.name, document)).collect()
}

/// Returns the document of a file that must hold exactly one document.
pub(crate) fn read_single_document(path: &Path) -> Result<Value, String> {
    let name = display_name(path);
    let source = Source::parse(path, read_text(path).map_err(|message| format!("{name}: {message}"))?);
    if let Some((document, error)) = source.errors().next() {
        return Err(error.located_message(&name, document));
    }
    let mut values = source.documents.into_iter().map(|document| document.value).filter(|value| !value.is_null());
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        (None, _) => Err(format!("{name}: the file is empty")),
        _ => Err(format!("{name}: the file has more than one document; pass a file with a single one")),
    }
}

impl SourceError {
    /// Returns `name:line:column: error: message; fix`, or without a position for a file that cannot be read.
    fn located_message(&self, name: &str, document: &Document) -> String {
        let (SourceError { message, fix, .. }, at) = (self, document.position(self.offset));
        let place = if document.text.is_empty() { name.to_owned() } else { at.in_file(name) };
        format!("{place}: error: {message}{}{fix}", if fix.is_empty() { "" } else { "; " })
    }
}

/// Reads at most one byte more than [`FILE_SIZE_MAX`], because a device file may have no end.
fn read_limited(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(FILE_SIZE_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
