//! Parses one document as Kubernetes does. Scalars follow YAML 1.1, and duplicate keys are errors.

use super::{SourceError, syntax};
use serde_json::Value;
use serde_saphyr::{Error, Options};

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
        max_depth: syntax::DEPTH_MAX,
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
    let (message, fix) = syntax::explain(&text[..line_end], error);
    SourceError { offset, message, fix }
}
