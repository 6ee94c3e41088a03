//! Manifests as text: splits files into documents, parses each document as Kubernetes does, and locates every value.
//! Edits keep all other text unchanged.
//!
//! Only [`files`] does I/O. Everything else is pure functions of text and values.

pub(crate) mod files;
mod locate;
mod parse;
mod spans;
mod write;

pub(crate) use locate::{LocatedFinding, locate, locate_error};
pub(crate) use parse::split_json;
pub(crate) use write::{DocumentEditor, Style};

use clap::{ArgAction, Args};
use podgate::order::edit::Place;
use serde_json::Value;
use spans::Tree;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

/// Flags and arguments that select the manifests to read.
#[derive(Debug, Clone, Args)]
pub(crate) struct ManifestArgs {
    /// Files or directories (reads *.yaml, *.yml and *.json), or - for standard input
    #[arg(value_name = "FILE", required_unless_present = "named")]
    files: Vec<PathBuf>,
    /// Same as FILE, in kubectl's syntax; repeatable, or FILE,FILE
    #[arg(id = "named", short = 'f', long = "filename", value_name = "FILE", action = ArgAction::Append)]
    #[arg(value_delimiter = ',')]
    named: Vec<PathBuf>,
    /// Read subdirectories too
    #[arg(short = 'R', long)]
    recursive: bool,
}

impl ManifestArgs {
    /// Reads the manifests. For a file that cannot be read, returns a source with one document that holds the error.
    pub(crate) fn read(&self) -> Vec<Source> {
        let named: Vec<PathBuf> = self.paths().cloned().collect();
        files::read_sources(&named, self.recursive)
    }

    /// Returns true if the user passed `-`, which means standard input.
    pub(crate) fn has_standard_input(&self) -> bool {
        self.paths().any(|path| files::is_stdin(path))
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(&self.named)
    }
}

/// Text of a file or of standard input, with its documents.
pub(crate) struct Source {
    /// The path as the user passed it; `-` for standard input.
    pub(crate) path: PathBuf,
    /// The name for messages.
    pub(crate) name: String,
    /// The documents in file order, including empty ones.
    pub(crate) documents: Vec<Document>,
    /// The text after the last document.
    end: String,
}

#[derive(Default)]
pub(crate) struct Document {
    /// The text of the document, without separators.
    pub(crate) text: String,
    /// The value as Kubernetes reads it; `Null` if the document is empty or unreadable.
    pub(crate) value: Value,
    pub(crate) error: Option<SourceError>,
    /// The separator and other text before the document.
    before: String,
    /// Number of the document's first line in its source, counted from 1.
    pub(crate) line: usize,
    pub(crate) is_json: bool,
    /// True if the file is a template of a Helm chart, and a directory of the user contains it.
    is_chart_template: bool,
    tree: OnceCell<Option<Tree>>,
    /// Offsets with their positions, one for each KiB of text, because counting a long line's columns is slow.
    marks: OnceCell<Vec<(usize, Position)>>,
}

/// Position in a file as editors show it. Lines and columns start at 1. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    /// Returns the position after `text`, which begins at this position.
    fn after(self, text: &str) -> Position {
        match text.rsplit_once('\n') {
            Some((lines, last)) => {
                Position { line: self.line + 1 + lines.matches('\n').count(), column: 1 + last.chars().count() }
            }
            None => Position { column: self.column + text.chars().count(), ..self },
        }
    }

    /// Formats the position as `file:line:column`.
    pub(crate) fn in_file(self, file: &str) -> String {
        format!("{file}:{}:{}", self.line, self.column)
    }
}

/// Error in a document, with a message of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceError {
    /// Byte offset in the document.
    pub(crate) offset: usize,
    pub(crate) message: String,
    pub(crate) fix: &'static str,
}

impl Source {
    /// Splits a file's text into documents and parses each document. Stores the error of an unreadable document in
    /// [`Document::error`].
    pub(crate) fn parse(path: impl Into<PathBuf>, text: String) -> Source {
        let (pieces, is_json, bad_separator) = match parse::split_documents(&text) {
            Ok((pieces, is_json)) => (pieces, is_json, None),
            // A separator is invalid, so treat the whole file as one document.
            Err(offset) => (vec![Range { start: 0, end: text.len() }], false, Some(offset)),
        };
        let mut documents = Vec::with_capacity(pieces.len());
        let (mut line, mut counted, mut end) = (1, 0, 0);
        for piece in pieces {
            line += text[counted..piece.start].matches('\n').count();
            counted = piece.start;
            let body = &text[piece.clone()];
            let value = match bad_separator {
                Some(offset) => Err(SourceError {
                    offset,
                    message: "invalid document separator: only a comment may follow ---".to_owned(),
                    fix: "move the rest to the next line",
                }),
                None if is_json => parse::json(body),
                None => parse::yaml(body),
            };
            let (value, error) = value.map_or_else(|error| (Value::Null, Some(error)), |value| (value, None));
            let (text, before) = (body.to_owned(), text[end..piece.start].to_owned());
            documents.push(Document { text, value, before, line, is_json, error, ..Document::default() });
            end = piece.end;
        }
        let path = path.into();
        Source { name: files::display_name(&path), path, documents, end: text[end..].to_owned() }
    }

    pub(crate) fn unreadable(path: PathBuf, message: String) -> Source {
        let error = SourceError { offset: 0, message, fix: "" };
        let document = Document { error: Some(error), line: 1, ..Document::default() };
        Source { name: files::display_name(&path), path, documents: vec![document], end: String::new() }
    }

    pub(crate) fn errors(&self) -> impl Iterator<Item = (&Document, &SourceError)> {
        self.documents.iter().filter_map(|document| Some((document, document.error.as_ref()?)))
    }

    /// Returns the whole text with some documents replaced. `replaced` maps the index of a document to its new text.
    pub(crate) fn with_replaced(&self, replaced: &BTreeMap<usize, String>) -> String {
        let mut text = String::new();
        for (index, document) in self.documents.iter().enumerate() {
            text.push_str(&document.before);
            text.push_str(replaced.get(&index).unwrap_or(&document.text));
        }
        text + &self.end
    }

    pub(crate) fn text(&self) -> String {
        self.with_replaced(&BTreeMap::new())
    }
}

impl Document {
    /// Returns false if the document cannot declare an order, so that podgate can ignore its errors.
    pub(crate) fn may_declare_order(&self) -> bool {
        // The text is empty if podgate could not read the file, so the file may contain an order.
        self.text.is_empty() || !self.is_chart_template && self.text.contains("podgate.io")
    }

    fn tree(&self) -> Option<&Tree> {
        self.tree.get_or_init(|| Tree::parse(&self.text)).as_ref()
    }

    /// Returns the range of the value at `place` in [`Document::text`], or `None` if the value does not exist.
    ///
    /// For an alias, returns the range of the alias. For a value inside an alias or a merge key, returns the range of
    /// the definition.
    pub(crate) fn span(&self, place: &Place) -> Option<Range<usize>> {
        let tree = self.tree()?;
        Some(tree.nodes[tree.node_at(&self.text, place)?].content())
    }

    /// Returns the range to underline for `place`: the key of a field, or the first line of an item. For a missing
    /// value, returns the range of the nearest existing parent, at worst the first line of the document.
    pub(crate) fn highlight(&self, place: &Place) -> Range<usize> {
        let Some(tree) = self.tree() else { return 0..0 };
        let (key, value) = tree.nearest_existing(&self.text, place);
        let whole = tree.nodes[key.unwrap_or(value)].content();
        // Underline only the first line of a collection.
        let first_line = self.text[whole.clone()].lines().next().unwrap_or_default().trim_end().len();
        whole.start..whole.start + first_line
    }

    /// Returns the range of `word` within the string at `place`, or [`Document::highlight`] if `word` is not found.
    pub(crate) fn highlight_word(&self, place: &Place, word: Option<&Range<usize>>) -> Range<usize> {
        let inside = || {
            let (word, span, value) = (word?, self.span(place)?, place.of(&self.value)?.as_str()?);
            let written = &self.text[span.clone()];
            // A value without escapes and line breaks is literally in the text. Otherwise search for a unique match.
            let at = match written.find(value) {
                Some(at) if !value.is_empty() => at + word.start,
                _ => {
                    let text = value.get(word.clone()).filter(|text| !text.trim().is_empty())?;
                    let mut found = written.match_indices(text);
                    found.next().filter(|_| found.next().is_none())?.0
                }
            };
            let start = span.start + at;
            let end = start + word.len().max(1);
            (self.text.is_char_boundary(start) && self.text.is_char_boundary(end)).then_some(start..end)
        };
        inside().unwrap_or_else(|| self.highlight(place))
    }

    /// Converts a byte offset in [`Document::text`] to a position in the file.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let marks = self.marks.get_or_init(|| {
            let mut marks = vec![(0, Position { line: self.line, column: 1 })];
            while let Some((from, at)) = marks.last().filter(|(from, _)| *from < self.text.len()) {
                let to = self.text.floor_char_boundary(from + 1024);
                marks.push((to, at.after(&self.text[*from..to])));
            }
            marks
        });
        let offset = self.text.ceil_char_boundary(offset);
        let (from, at) = marks[marks.partition_point(|(mark, _)| *mark <= offset) - 1];
        at.after(&self.text[from..offset])
    }
}
