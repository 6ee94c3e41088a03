//! Renders new text for a manifest. Quotes strings that a YAML 1.1 or 1.2 parser might read as another type.

use serde_json::Value;
use std::fmt::Write;

/// Maximum width of new lines, in characters. Only a line with a single entry can be longer.
const LINE_WIDTH: usize = 100;
/// Maximum number of lines of an object in flow style.
const FLOW_LINES_MAX: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
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
    /// Text between two entries.
    pub(crate) comma: &'static str,
}

/// Objects get one line in flow style if possible. At the outer `block_levels`, they have one line per field instead.
impl Style {
    /// Renders a field or list item as whole lines, with its key or dash at `column`.
    pub(crate) fn entry(&self, key: Option<&str>, value: &Value, column: usize, block_levels: usize) -> String {
        let key = key.map_or("-".to_owned(), |key| quote_if_needed(key, false) + ":");
        let (head, below) = self.value(value, column + key.chars().count() + 1, column, key == "-", block_levels);
        let space = if head.is_empty() { "" } else { " " };
        format!("{:column$}{key}{space}{head}{}{below}", "", self.newline)
    }

    /// Renders the value of a field or list item. Its key or dash is at `column`, and the value begins at `start`.
    /// Returns the text behind the key or dash, and the whole lines below.
    pub(crate) fn value(
        &self,
        value: &Value,
        start: usize,
        column: usize,
        is_item: bool,
        block_levels: usize,
    ) -> (String, String) {
        let (indent, list_indent) = if is_item { (2, 2) } else { (self.indent, self.list_indent) };
        let flow = self.flow_lines(value, start, column + indent);
        let lines: String = match value {
            Value::String(text) if is_block(value) => {
                let line = |line: &str| format!("{:1$}{line}{2}", "", column + indent, self.newline);
                return ("|-".to_owned(), text.lines().map(line).collect());
            }
            Value::Object(fields) if !fields.is_empty() => {
                let block_levels = block_levels.saturating_sub(1);
                fields.iter().map(|(key, value)| self.entry(Some(key), value, column + indent, block_levels)).collect()
            }
            Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array() || is_block(item)) => {
                items.iter().map(|item| self.entry(None, item, column + list_indent, block_levels)).collect()
            }
            _ => return (flow, String::new()),
        };
        // A field has its key on a line of its own above `lines`.
        let (count, limit) = (flow.lines().count(), lines.lines().count() + if is_item { 0 } else { 2 });
        // On several lines, a list of objects is easier to read with one line per item.
        let is_readable = count == 1 || count <= FLOW_LINES_MAX && !flow.contains("[{");
        if block_levels == 0 && value.is_object() && !is_block(value) && is_readable && count < limit {
            return (flow, String::new());
        }
        // The first line of a list item follows the dash.
        match lines.split_once(self.newline) {
            Some((head, below)) if is_item => (head.trim_start().to_owned(), below.to_owned()),
            _ => (String::new(), lines),
        }
    }

    /// Renders a value in flow style, from column `start`. Breaks long lines, and indents the next lines by `indent`.
    fn flow_lines(&self, value: &Value, start: usize, indent: usize) -> String {
        let (mut out, mut column) = (String::new(), start);
        // No rendered string contains NUL.
        let text = flow(value, FlowStyle { is_json: false, comma: "\0" });
        let mut entries = text.split('\0').peekable();
        while let Some(entry) = entries.next() {
            let width = |entry: &str| entry.chars().count() + 2;
            // A flag and its argument stay on the same line.
            let argument = entries.peek().filter(|next| entry.starts_with("--") && !next.starts_with("--"));
            if !out.is_empty() && column + width(entry) + argument.map_or(0, |next| width(next)) > LINE_WIDTH {
                out += &format!(",{}{:indent$}", self.newline, "");
                column = indent;
            } else if !out.is_empty() {
                out += ", ";
            }
            out += entry;
            column += width(entry);
        }
        out
    }
}

/// Returns true if flow style does not suit the value, because it contains a text of several lines, or an object with
/// qualified names as keys, such as annotations, to which users add lines.
fn is_block(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let is_simple = |line: &str| !line.is_empty() && !line.ends_with(' ') && !line.contains(needs_escape);
            text.contains('\n') && !text.starts_with(' ') && text.split('\n').all(is_simple)
        }
        Value::Array(items) => items.iter().any(is_block),
        Value::Object(fields) => fields.iter().any(|(key, value)| key.contains('/') || is_block(value)),
        _ => false,
    }
}

pub(crate) fn flow(value: &Value, style: FlowStyle) -> String {
    match value {
        Value::String(string) => quote_if_needed(string, style.is_json),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| flow(item, style)).collect();
            format!("[{}]", items.join(style.comma))
        }
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| flow_key_with_colon(key, style) + &flow(value, style);
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<String>>().join(style.comma))
        }
        scalar => scalar.to_string(),
    }
}

/// Renders a key in flow style, including the `:`.
pub(crate) fn flow_key_with_colon(key: &str, style: FlowStyle) -> String {
    quote_if_needed(key, style.is_json) + if style.comma == "," { ":" } else { ": " }
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
