//! Renders new text for a manifest. Quotes strings that a YAML 1.1 or 1.2 parser might read as another type.

use serde_json::Value;
use std::fmt::Write;

/// Maximum length of a list of scalars on one line, in bytes. Longer lists are rendered with one item per line.
const LINE_WIDTH: usize = 100;

/// Style of the surrounding document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// True if the document is JSON.
    pub(crate) is_json: bool,
    /// True for JSON with a space after `:` and `,`.
    pub(crate) spaced: bool,
    pub(crate) newline: &'static str,
    /// Indentation of an object's fields, relative to their parent's key.
    pub(crate) indent: usize,
    /// Indentation of a list's items, relative to the list's key; `kubectl` uses 0.
    pub(crate) list_indent: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowStyle {
    /// True to quote every key and string.
    pub(crate) is_json: bool,
    /// True to put a space after `:` and `,`.
    pub(crate) spaced: bool,
}

/// Renders a field in block style as whole lines, with the key at `column`.
pub(crate) fn field(key: &str, value: &Value, column: usize, style: &Style) -> String {
    let (key, newline) = (quote_if_needed(key, false), style.newline);
    match lines_below_key(value, column, style) {
        Some(lines) => format!("{:column$}{key}:{newline}{lines}", ""),
        None => format!("{:column$}{key}: {}{newline}", "", inline(value)),
    }
}

/// Renders a list item in block style as whole lines, with the dash at `column`.
pub(crate) fn item(value: &Value, column: usize, style: &Style) -> String {
    let fields = Some(value).filter(|value| value.is_object()).and_then(|value| block(value, column + 2, 0, style));
    match fields {
        // The first field follows the dash.
        Some(lines) => format!("{:column$}- {}", "", &lines[column + 2..]),
        None => format!("{:column$}- {}{}", "", inline(value), style.newline),
    }
}

/// Renders a whole document in block style.
pub(crate) fn document(value: &Value, style: &Style) -> String {
    block(value, 0, 0, style).unwrap_or_else(|| format!("{}{}", inline(value), style.newline))
}

/// Renders the lines below a key at `column`. Returns `None` if the value fits on the line of the key.
pub(crate) fn lines_below_key(value: &Value, column: usize, style: &Style) -> Option<String> {
    let scalar = |item: &Value| !item.is_object() && !item.is_array();
    let scalars = value.as_array().is_some_and(|items| items.iter().all(scalar));
    let fits = scalars && column + inline(value).chars().count() <= LINE_WIDTH;
    block(value, column + style.indent, column + style.list_indent, style).filter(|_| !fits)
}

/// Renders fields at column `fields_at`, or items at `items_at`. Returns `None` for scalars and empty collections.
fn block(value: &Value, fields_at: usize, items_at: usize, style: &Style) -> Option<String> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            Some(fields.iter().map(|(key, value)| field(key, value, fields_at, style)).collect())
        }
        Value::Array(items) if !items.is_empty() => {
            Some(items.iter().map(|value| item(value, items_at, style)).collect())
        }
        _ => None,
    }
}

/// Renders a value on one line: a scalar, or a collection in YAML flow style.
pub(crate) fn inline(value: &Value) -> String {
    flow(value, FlowStyle { is_json: false, spaced: true })
}

/// Renders a value on one line in the given style.
pub(crate) fn flow(value: &Value, style: FlowStyle) -> String {
    let comma = if style.spaced { ", " } else { "," };
    match value {
        Value::String(string) => quote_if_needed(string, style.is_json),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| flow(item, style)).collect();
            format!("[{}]", items.join(comma))
        }
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| flow_key(key, style) + &flow(value, style);
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<String>>().join(comma))
        }
        scalar => scalar.to_string(),
    }
}

/// Renders a key in flow style, including the `:`.
pub(crate) fn flow_key(key: &str, style: FlowStyle) -> String {
    quote_if_needed(key, style.is_json) + if style.spaced { ": " } else { ":" }
}

/// Renders a string. Adds quotes if a YAML 1.1 or 1.2 parser might read the bare text as another value.
pub(crate) fn quote_if_needed(string: &str, json: bool) -> String {
    let escaped = |c: char| needs_escape(c) || c == '\'';
    match () {
        () if json => quote(string),
        () if is_plain(string) || is_quantity(string) => string.to_owned(),
        // Use single quotes for a string that contains JSON, because double quotes would need many escapes.
        () if string.contains(['"', '\\']) && !string.contains(escaped) => format!("'{string}'"),
        () => quote(string),
    }
}

/// Returns true for a number with a unit, such as `5m` or `32Mi`. No YAML number ends with one of these units.
fn is_quantity(string: &str) -> bool {
    const UNITS: [&str; 10] = ["m", "s", "h", "ms", "Ki", "Mi", "Gi", "Ti", "k", "M"];
    let digits = string.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.len() < string.len() && !string.starts_with('0') && UNITS.contains(&digits)
}

/// Returns true for strings that are safe without quotes: a word, a path, a flag, a qualified name, an image.
fn is_plain(string: &str) -> bool {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let bytes = string.as_bytes();
    let word = match bytes {
        [b'-', b'-', rest @ ..] | [b'-', rest @ ..] => rest,
        _ => bytes,
    };
    let begins =
        word.first().is_some_and(|byte| byte.is_ascii_alphabetic() || (*byte == b'/' && word.len() == bytes.len()));
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-=@:".contains(byte);
    // A letter must follow a leading dash. This excludes YAML's negative numbers and `-.inf`; `-Inf` is a string.
    begins
        && bytes.iter().all(inside)
        && !string.ends_with(':')
        && !WORDS.contains(&string.to_ascii_lowercase().as_str())
}

/// Renders a string in double quotes, as JSON. Also escapes the characters that YAML does not allow in a line.
fn quote(string: &str) -> String {
    let mut out = String::new();
    for c in Value::from(string).to_string().chars() {
        let _ = if needs_escape(c) { write!(out, "\\u{:04x}", u32::from(c)) } else { out.write_char(c) };
    }
    out
}

/// Returns true for characters that YAML treats as non-printable or as a line break.
fn needs_escape(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}
