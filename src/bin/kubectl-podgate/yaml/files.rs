//! Finds and reads the manifests that the user passes: files, folders, standard input.

use super::{Source, SourceError};
use serde_json::Value;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Name that messages use for standard input.
pub(crate) const STDIN: &str = "<stdin>";
/// Size limit of a file, in bytes.
pub(crate) const FILE_SIZE_MAX: u64 = 64 << 20;
/// Depth limit for subfolders.
const FOLDER_DEPTH_MAX: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Input {
    Stdin,
    File(PathBuf),
}

impl Input {
    /// Returns the name for messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Input::Stdin => STDIN.to_owned(),
            Input::File(path) => path.display().to_string(),
        }
    }
}

/// Returns the manifests that `named` selects, in the given order. Sorts the files of a folder by name. `-` selects
/// standard input.
///
/// A folder selects its `*.yaml`, `*.yml` and `*.json` files, except hidden ones. `recursive` adds the subfolders.
///
/// # Errors
/// One line with the path and the reason, if a path cannot be read or a folder has no manifests.
pub(crate) fn find_inputs(named: &[PathBuf], recursive: bool) -> Result<Vec<Input>, String> {
    let mut found: Vec<Input> = Vec::new();
    for path in named {
        if path.as_os_str() == "-" {
            found.push(Input::Stdin);
            continue;
        }
        let kind = fs::metadata(path).map_err(|error| read_error(path, &error))?;
        if !kind.is_dir() {
            found.push(Input::File(path.clone()));
            continue;
        }
        let before = found.len();
        walk_folder(path, if recursive { FOLDER_DEPTH_MAX } else { 0 }, &mut found)?;
        if found.len() == before {
            let hint = if recursive { "" } else { "; pass -R to search subfolders too" };
            return Err(format!("{}: no *.yaml, *.yml or *.json files in this folder{hint}", path.display()));
        }
    }
    // The user may pass both a folder and a file in that folder. Return each file only once.
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|input| seen.insert(input.clone()));
    Ok(found)
}

fn walk_folder(folder: &Path, depth: usize, found: &mut Vec<Input>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| read_error(folder, &error))?;
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| read_error(folder, &error))?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    for path in paths {
        let Ok(kind) = fs::metadata(&path) else { continue };
        if kind.is_dir() {
            if depth > 0 {
                walk_folder(&path, depth - 1, found)?;
            }
        } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json") {
            found.push(Input::File(path));
        }
    }
    Ok(())
}

/// Returns the text of one manifest.
///
/// # Errors
/// One line that begins with the manifest's name.
pub(crate) fn read_text(input: &Input) -> Result<String, String> {
    let bytes = match input {
        Input::Stdin => read_limited(io::stdin().lock()),
        Input::File(path) => fs::File::open(path).and_then(read_limited),
    };
    let bytes = bytes.map_err(|error| read_error(Path::new(&input.name()), &error))?;
    if bytes.len() as u64 > FILE_SIZE_MAX {
        return Err(format!("{}: the file is larger than {} MiB", input.name(), FILE_SIZE_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{}: invalid UTF-8 at byte {at}", input.name())
    })
}

/// Finds, reads and parses all manifests that `named` selects.
///
/// # Errors
/// One line for each manifest that cannot be read or parsed.
pub(crate) fn read_sources(named: &[PathBuf], recursive: bool) -> Result<Vec<(Input, Source)>, Vec<String>> {
    let inputs = find_inputs(named, recursive).map_err(|line| vec![line])?;
    let mut sources = Vec::new();
    let mut errors = Vec::new();
    for input in inputs {
        let name = input.name();
        let source =
            read_text(&input).and_then(|text| Source::parse(&name, text).map_err(|error| error.located_message(&name)));
        match source {
            Ok(source) => sources.push((input, source)),
            Err(line) => errors.push(line),
        }
    }
    if errors.is_empty() { Ok(sources) } else { Err(errors) }
}

/// Returns the document of a file that must hold exactly one document.
pub(crate) fn read_single_document(path: &Path) -> Result<Value, String> {
    let input = if path.as_os_str() == "-" { Input::Stdin } else { Input::File(path.to_owned()) };
    let name = input.name();
    let source = Source::parse(&name, read_text(&input)?).map_err(|error| error.located_message(&name))?;
    let mut values = source.documents.into_iter().map(|document| document.value).filter(|value| !value.is_null());
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        (None, _) => Err(format!("{name}: the file is empty")),
        _ => Err(format!("{name}: the file has more than one document; pass a file with a single one")),
    }
}

impl SourceError {
    /// Returns `name:line:column: message`.
    pub(crate) fn located_message(&self, name: &str) -> String {
        match self.position {
            Some(at) => format!("{name}:{}:{}: {}", at.line, at.column, self.message),
            None => format!("{name}: {}", self.message),
        }
    }
}

/// Reads at most one byte more than [`FILE_SIZE_MAX`], because a device file may have no end.
fn read_limited(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(FILE_SIZE_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_error(path: &Path, error: &io::Error) -> String {
    format!("{}: cannot read: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_in_a_stable_order() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("b/deep")).unwrap();
        for name in ["z.yaml", "a.json", "m.yml", "notes.txt", ".hidden.yaml", "b/y.yaml", "b/deep/x.yaml"] {
            fs::write(at(name), "a: 1\n").unwrap();
        }
        let names = |recursive| {
            let found = find_inputs(&[folder.path().to_owned(), at("m.yml"), "-".into()], recursive).unwrap();
            let relative = |input: &Input| input.name().replace(&format!("{}/", folder.path().display()), "");
            found.iter().map(relative).collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["a.json", "m.yml", "z.yaml", "<stdin>"]);
        assert_eq!(names(true), ["a.json", "b/deep/x.yaml", "b/y.yaml", "m.yml", "z.yaml", "<stdin>"]);
    }

    #[test]
    fn errors_name_the_unreadable_file() {
        let folder = tempfile::tempdir().unwrap();
        let bad = folder.path().join("bad.yaml");
        fs::write(&bad, b"a: \xff\n").unwrap();
        let line = &read_sources(&[bad], false).unwrap_err()[0];
        assert!(line.ends_with("bad.yaml: invalid UTF-8 at byte 3"), "{line}");
        let line = find_inputs(&[folder.path().join("none")], false).unwrap_err();
        assert!(line.contains("none: cannot read: No such file"), "{line}");
        let empty = tempfile::tempdir().unwrap();
        assert!(find_inputs(&[empty.path().to_owned()], false).unwrap_err().contains("no *.yaml"));
    }
}
