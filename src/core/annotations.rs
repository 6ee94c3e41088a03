//! The downward-API file format.
//!
//! Each line is `key="value"`. The lines are sorted by key, and the values are quoted as in Go or JSON. The file has no
//! newline at the end (<https://kubernetes.io/docs/concepts/storage/volumes/#downwardapi>, kubelet `fieldpath.go`).
//!
//! The reader accepts everything that the kubelet writes. It rejects the whole file as torn if one line is incomplete,
//! so that a half-written file never makes a container *ready*. The reader decodes only the values that the caller
//! requests.

use crate::core::sandbox::fnv1a;
use std::collections::BTreeMap;

/// Maximum length of an annotation's value, in bytes. The admission policy in `manifests/policy.yaml` enforces this
/// limit.
pub const VALUE_MAX: usize = 4096;

/// Size of a memory page, in bytes. A volume in memory allocates whole pages.
pub const PAGE_SIZE: usize = 4096;
/// Start of the last line of a padded file. The key `~` sorts after all other keys.
const PADDING: &str = "\n~=\"";
/// Length of the hash in a padded file, in hexadecimal digits.
const HASH_LENGTH: usize = 8;

/// Single-letter escapes and, at the same positions, their bytes.
const ESCAPES: (&[u8; 9], &[u8; 9]) = (b"abfnrtv\\\"", b"\x07\x08\x0c\n\r\t\x0b\\\"");

/// Annotations, sorted by key.
pub type Annotations = BTreeMap<String, String>;

/// Error: the file is not in the downward-API format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Torn {
    /// Line number, counted from 1.
    pub line: usize,
    /// Description of the error.
    pub what: &'static str,
}

/// Returns `annotations` in the downward-API file format. The values are written as JSON strings, which are also valid
/// Go strings.
pub fn write(annotations: &Annotations) -> String {
    let line = |(key, value): (&String, &String)| format!("{key}={}", serde_json::Value::from(value.as_str()));
    annotations.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Appends a line with a hash of `text` and with filler, so that the result has at least `size` bytes. A
/// file of `size` bytes can then be overwritten in place, even if the volume is full. During that write, a reader may
/// see a mixture of two padded files, which [`read`] rejects.
pub fn pad_with_hash(mut text: String, size: usize) -> String {
    let hash = fnv1a(text.as_bytes());
    let filler = size.saturating_sub(text.len() + PADDING.len() + HASH_LENGTH + "\"".len());
    text.push_str(&format!("{PADDING}{hash:0HASH_LENGTH$x}{}\"", "-".repeat(filler)));
    text
}

/// Checks the hash of a padded file.
fn check_hash(bytes: &[u8]) -> Result<(), Torn> {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let (text, last) = bytes.split_at(end);
    match last.strip_prefix(PADDING.as_bytes()) {
        Some(hash) if !hash.starts_with(format!("{:0HASH_LENGTH$x}", fnv1a(text)).as_bytes()) => {
            let line = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
            Err(Torn { line, what: "the hash does not match" })
        }
        _ => Ok(()),
    }
}

/// Reads the annotations whose key `wanted` accepts. Fails if a line is not `key="value"`, even if `wanted` rejects its
/// key. Also fails if the hash of a padded file does not match. An accepted value with invalid escapes is skipped, so
/// that one bad annotation cannot hide the others.
pub fn read(bytes: &[u8], mut wanted: impl FnMut(&str) -> bool) -> Result<Annotations, Torn> {
    let mut found = Annotations::new();
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if text.is_empty() {
        return Ok(found);
    }
    check_hash(text)?;
    for (index, line) in text.split(|b| *b == b'\n').enumerate() {
        let torn = |what| Torn { line: index + 1, what };
        let at = line.iter().position(|b| *b == b'=').ok_or(torn("no '='"))?;
        let (key, value) = (&line[..at], &line[at + 1..]);
        if key.is_empty() || !key.iter().all(u8::is_ascii_graphic) {
            return Err(torn("no annotation key before '='"));
        }
        let body = quoted_body(value).ok_or(torn("the value is not a complete quoted string"))?;
        let key = std::str::from_utf8(key).map_err(|_| torn("no annotation key before '='"))?;
        if wanted(key)
            && let Some(value) = unquote(body)
        {
            found.insert(key.to_owned(), value);
        }
    }
    Ok(found)
}

/// Returns the bytes between the quotes if `value` is exactly one quoted string.
fn quoted_body(value: &[u8]) -> Option<&[u8]> {
    let body = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut escaped = false;
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return None,
            _ => {}
        }
    }
    (!escaped).then_some(body)
}

/// Decodes `body` like Go's `strconv.Unquote`. Returns `None` for an unknown escape or if the result is not UTF-8.
fn unquote(body: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let (kind, after) = rest.split_first()?;
        rest = after;
        if let Some(at) = ESCAPES.0.iter().position(|letter| letter == kind) {
            out.push(ESCAPES.1[at]);
            continue;
        }
        let digits = match kind {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            _ => return None,
        };
        let number = u32::from_str_radix(std::str::from_utf8(rest.get(..digits)?).ok()?, 16).ok()?;
        if !rest[..digits].iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        rest = &rest[digits..];
        if *kind == b'x' {
            out.push(u8::try_from(number).ok()?);
        } else {
            out.extend_from_slice(char::from_u32(number)?.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    String::from_utf8(out).ok()
}

/// Shortens a comma-separated list to at most [`VALUE_MAX`] bytes. Removes whole items from the end.
pub fn drop_items_over_max(value: &mut String) {
    if value.len() > VALUE_MAX {
        let end = value.as_bytes()[..=VALUE_MAX].iter().rposition(|byte| *byte == b',');
        value.truncate(end.unwrap_or(0));
    }
}
