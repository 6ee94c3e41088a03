//! Splits a file into documents as kubectl does, before any YAML is parsed, and parses one document as Kubernetes does.
//! Scalars follow YAML 1.1, and duplicate keys are errors. An error for invalid YAML has the problem in plain words, and
//! the fix.

use super::SourceError;
use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::granit_parser::ErrorKind;
use serde_saphyr::{Error, ExternalMessageSource, Options};
use std::ops::Range;

/// Maximum nesting depth. An unoptimized build can parse this depth on a thread's stack of 2 MiB.
const DEPTH_MAX: usize = 80;

/// Returns the ranges of the documents in file order, and true if the file holds only JSON. Omits separators, and the
/// text that Kubernetes skips: from a line `...` to the next separator.
///
/// Fails with the offset of a line that begins with `---` but is no separator, such as `--- {a: 1}` or an unindented
/// PEM header. Kubernetes rejects files with such a line.
pub(crate) fn split_documents(text: &str) -> Result<(Vec<Range<usize>>, bool), usize> {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    if let Some(values) = split_json(text, start) {
        return Ok((values, true));
    }
    let mut pieces = Vec::new();
    let (mut from, mut at, mut end) = (start, start, None);
    for line in text[start..].split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("---") {
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err(at);
            }
            pieces.push(from..end.take().unwrap_or(at));
            from = at + line.len();
        } else if end.is_none()
            && line.strip_prefix("...").is_some_and(|rest| rest.trim_start().len() < rest.len() || rest.is_empty())
        {
            end = Some(at);
        }
        at += line.len();
    }
    pieces.push(from..end.unwrap_or(at));
    pieces.retain(|piece| !piece.is_empty());
    Ok((pieces, false))
}

/// Returns the values from `start` on if the file holds only JSON, otherwise `None`. A file that begins with `{` may be
/// YAML.
pub(crate) fn split_json(text: &str, start: usize) -> Option<Vec<Range<usize>>> {
    if !text[start..].trim_start().starts_with('{') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<serde::de::IgnoredAny>();
    let mut pieces = Vec::new();
    loop {
        let before = start + values.byte_offset();
        let from = before + (text[before..].len() - text[before..].trim_start().len());
        match values.next() {
            None => return Some(pieces),
            Some(Ok(_)) => pieces.push(from..start + values.byte_offset()),
            Some(Err(_)) => return None,
        }
    }
}

/// Returns the value of a YAML document, or `Null` if the document is empty.
pub(crate) fn yaml(text: &str) -> Result<Value, SourceError> {
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options(text)).map_err(|error| parse_error(text, &error))?;
    if documents.len() > 1 {
        // Should not happen: `split_documents` leaves no separator in `text`.
        let message = "more than one document without a separator".to_owned();
        return Err(SourceError { offset: 0, message, fix: "add a line ---" });
    }
    Ok(documents.pop().unwrap_or_default())
}

fn options(text: &str) -> Options {
    let size = text.len();
    let budget = serde_saphyr::budget! {
        // Only expanded aliases can exceed the limits: a node takes at least one byte of text, and one or two events.
        max_nodes: size.saturating_mul(4).max(250_000),
        max_events: size.saturating_mul(8).max(1_000_000),
        max_depth: DEPTH_MAX,
        max_total_scalar_bytes: size.saturating_mul(4).max(1 << 20),
        max_aliases: 1_000_000,
        max_anchors: 1_000_000,
    };
    serde_saphyr::options! {
        budget: budget,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// Returns the value of a JSON document.
pub(crate) fn json(text: &str) -> Result<Value, SourceError> {
    serde_json::from_str(text).map_err(|error| {
        let line_start: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let offset = (line_start + error.column().saturating_sub(1)).min(text.len());
        // Remove the position at the end of the message, because the caller reports the position itself.
        let message = error.to_string().split(" at line ").next().unwrap_or_default().to_owned();
        SourceError { offset: text.floor_char_boundary(offset), message, fix: "change the value here" }
    })
}

fn parse_error(text: &str, error: &Error) -> SourceError {
    let error = error.without_snippet();
    // Syntax errors have a line and a column, but no byte offset.
    let offset = error.location().map_or(0, |location| {
        let line = usize::try_from(location.line()).unwrap_or(usize::MAX).saturating_sub(1);
        let column = usize::try_from(location.column()).unwrap_or(usize::MAX).saturating_sub(1);
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        text[start..].char_indices().nth(column).map_or(text.len(), |(index, _)| start + index)
    });
    let line_end = text[offset..].find('\n').map_or(text.len(), |end| offset + end);
    let (message, fix) = explain(&text[..line_end], error);
    SourceError { offset, message, fix }
}

/// Returns the problem and the fix. `before` is the text up to the end of the line with the error.
fn explain(before: &str, error: &Error) -> (String, &'static str) {
    let (problem, fix) = match error {
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            return (format!("nested more than {DEPTH_MAX} levels deep"), "use fewer levels");
        }
        Error::Budget { .. } => ("the document is too large after its aliases are expanded", "use fewer aliases"),
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_ref().map(|key| format!(": {key}")).unwrap_or_default();
            return (format!("duplicate mapping key{key}"), "remove one of the two keys");
        }
        Error::UnknownAnchor { .. } => ("no anchor above matches this alias", "add the anchor, or write the value"),
        Error::RecursiveReferencesRequireWeakTypes { .. } => ("an alias inside its own anchor", "write the value"),
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            ("the value of << is not an object", "write an alias of an object")
        }
        Error::NonFiniteFloat { .. } => ("a number that JSON cannot express", "quote the value"),
        Error::ExternalMessage { .. } | Error::NullIntoString { .. } | Error::Unexpected { .. }
            if before.contains("{{") =>
        {
            ("this is a Helm template", "check or inject the output of `helm template`")
        }
        Error::NullIntoString { .. } => ("a key is empty", "write a name before the colon"),
        Error::Unexpected { .. } => ("a key is a list or an object, or a text has no value", "write KEY: VALUE"),
        Error::ExternalMessage { source, .. } => match &**source {
            ExternalMessageSource::Parser(error) => return explain_syntax(error.kind()),
            _ => INVALID,
        },
        _ => ("the value does not fit its tag", "remove the tag, or quote the value"),
    };
    (problem.to_owned(), fix)
}

const INVALID: (&str, &str) =
    ("invalid YAML", "check indentation, quotes and brackets in this line and the line above");

fn explain_syntax(kind: &ErrorKind) -> (String, &'static str) {
    use ErrorKind as K;
    let (problem, fix) = match kind {
        K::InvalidQuotedScalarIndent | K::UnclosedQuotedScalar | K::DocumentIndicatorInQuotedScalar => (
            "this line belongs to a quoted text, but is not indented deeper than the text's key",
            "indent the line, or add the closing quote above",
        ),
        K::TabInIndentation | K::TabInBlockIndentation | K::TabNotAllowed | K::TabAtBlockScalarStart => {
            ("a tab indents this line", "indent it with spaces")
        }
        K::UnclosedFlowCollection { open } => return (format!("unclosed {open}"), "add the closing bracket"),
        K::MisplacedFlowCollectionEnd | K::MismatchedFlowCollectionEnd { .. } => {
            ("this bracket closes nothing", "remove it, or add the opening bracket")
        }
        K::MappingValueNotAllowed | K::InvalidColonPlacement | K::MappingKeyNotAllowed | K::SimpleKeyExpected => (
            "no key is allowed here",
            "indent the key like the other keys of its object; quote text that contains a colon",
        ),
        other => return (format!("invalid YAML: {other}"), INVALID.1),
    };
    (problem.to_owned(), fix)
}
