//! Splits a file into documents as kubectl does, before any YAML is parsed.

use std::ops::Range;

/// Range of one document in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentSpan {
    /// Range of the text that Kubernetes reads. Kubernetes skips the text from a line `...` to the next separator.
    pub(crate) body: Range<usize>,
    /// True if the document is a JSON value in a file that holds only JSON.
    pub(crate) is_json: bool,
}

/// Returns the documents of `text` in file order. Omits separators and text that Kubernetes ignores.
///
/// Fails with the offset of a line that begins with `---` but is no separator, such as `--- {a: 1}` or an unindented PEM
/// header. Kubernetes rejects files with such a line.
pub(crate) fn split_documents(text: &str) -> Result<Vec<DocumentSpan>, usize> {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    if let Some(values) = split_json(text, start) {
        return Ok(values);
    }
    let mut pieces = Vec::new();
    let (mut from, mut at, mut end) = (start, start, None);
    for line in text[start..].split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("---") {
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err(at);
            }
            pieces.push(DocumentSpan { body: from..end.take().unwrap_or(at), is_json: false });
            from = at + line.len();
        } else if end.is_none()
            && line.strip_prefix("...").is_some_and(|rest| rest.trim_start().len() < rest.len() || rest.is_empty())
        {
            end = Some(at);
        }
        at += line.len();
    }
    pieces.push(DocumentSpan { body: from..end.unwrap_or(at), is_json: false });
    pieces.retain(|piece| !piece.body.is_empty());
    Ok(pieces)
}

/// Returns the values from `start` on if the file holds only JSON, otherwise `None`. A file that begins with `{` may be
/// YAML.
pub(crate) fn split_json(text: &str, start: usize) -> Option<Vec<DocumentSpan>> {
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
            Some(Ok(_)) => pieces.push(DocumentSpan { body: from..start + values.byte_offset(), is_json: true }),
            Some(Err(_)) => return None,
        }
    }
}
