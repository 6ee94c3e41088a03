//! Splits a file into documents as kubectl does, before any YAML is parsed.

use std::ops::Range;

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
