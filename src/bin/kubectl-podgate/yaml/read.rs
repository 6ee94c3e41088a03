//! Reads one document as Kubernetes does (YAML 1.1 scalars), and as strictly: a doubled key is an error.

use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter};

/// Why a document can't be read: where in its text (a byte), and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The byte at which the reader stumbled.
    pub(crate) offset: usize,
    /// One line.
    pub(crate) what: String,
}

/// How deep a document may be nested: what a thread of 2 MiB bears in a build without optimization.
const DEPTH: usize = 80;

/// The value of a YAML document; `Null` where there is none.
///
/// # Errors
/// [`Unreadable`].
pub(crate) fn yaml(text: &str) -> Result<Value, Unreadable> {
    if let Some(offset) = directive(text) {
        let what = "a directive (%YAML, %TAG): Kubernetes does not read a document with one".to_owned();
        return Err(Unreadable { offset, what });
    }
    let size = text.len();
    let budget = serde_saphyr::budget! {
        // A node takes a byte at least, and so does an event or two: these bound what aliases make of it.
        max_nodes: size.saturating_mul(4).max(250_000),
        max_events: size.saturating_mul(8).max(1_000_000),
        max_depth: DEPTH,
        max_total_scalar_bytes: size.saturating_mul(4).max(1 << 20),
        max_aliases: 1_000_000,
        max_anchors: 1_000_000,
    };
    let options = serde_saphyr::options! {
        budget: budget,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| unreadable(text, &error))?;
    match documents.len() {
        0 => Ok(Value::Null),
        1 => Ok(documents.remove(0)),
        // The cutter has left no separator in it.
        _ => Err(Unreadable { offset: 0, what: "more than one document without a separator".to_owned() }),
    }
}

/// The value of a JSON document.
///
/// # Errors
/// [`Unreadable`].
pub(crate) fn json(text: &str) -> Result<Value, Unreadable> {
    serde_json::from_str(text).map_err(|error| {
        let line_start: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let offset = (line_start + error.column().saturating_sub(1)).min(text.len());
        Unreadable { offset: text.floor_char_boundary(offset), what: error.to_string() }
    })
}

fn unreadable(text: &str, error: &Error) -> Unreadable {
    let error = error.without_snippet();
    // A syntax error has no place in bytes.
    let offset = error.location().map_or(0, |location| {
        let line = usize::try_from(location.line()).unwrap_or(usize::MAX).saturating_sub(1);
        let column = usize::try_from(location.column()).unwrap_or(usize::MAX).saturating_sub(1);
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        text[start..].char_indices().nth(column).map_or(text.len(), |(index, _)| start + index)
    });
    let what = match error {
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => format!("nested more than {DEPTH} deep"),
        Error::Budget { breach, .. } => format!("too much, with its aliases worked out ({breach:?})"),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate mapping key: {key}"),
        Error::DuplicateMappingKey { .. } => "duplicate mapping key".to_owned(),
        other => DefaultMessageFormatter.format_message(other).into_owned(),
    };
    let what = what.lines().next().unwrap_or_default().trim_end_matches([':', ',']).to_owned();
    Unreadable { offset, what }
}

/// Where the document begins with a directive.
fn directive(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let code = line.trim_start();
        if !code.is_empty() && !code.starts_with('#') {
            return line.starts_with('%').then_some(at);
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_scalars_as_kubernetes_does() {
        let text =
            "a: yes\nb: n\nc: 0755\nd: 1_000\ne: \"yes\"\nf: 0o17\ng: ~\nh: 12:30\ni: on\nj: .5\nk: 1e3\nl: 0x1f\n";
        let value = yaml(text).unwrap();
        assert_eq!(value["a"], json!(true));
        assert_eq!(value["b"], json!(false));
        assert_eq!((&value["c"], &value["d"]), (&json!(493), &json!(1000)));
        assert_eq!(value["e"], json!("yes"));
        assert_eq!(value["g"], Value::Null);
        assert_eq!(value["l"], json!(31));
    }

    #[test]
    fn anchors_and_merge_keys_are_worked_out() {
        let value = yaml("a: &x {b: 1, c: [1]}\nd: *x\ne:\n  <<: *x\n  b: 2\n").unwrap();
        assert_eq!(value["d"], json!({"b": 1, "c": [1]}));
        assert_eq!(value["e"], json!({"b": 2, "c": [1]}));
    }

    #[test]
    fn nothing_is_null() {
        for text in ["", "\n", "# comment\n", "\r\n  \n"] {
            assert_eq!(yaml(text), Ok(Value::Null), "{text:?}");
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_refused_with_its_place() {
        for (text, at) in [
            ("a: 1\nb: 2\na: 3\n", 10),
            ("a:\n\tb: 1\n", 3),
            ("a: *nobody\n", 3),
            ("%YAML 1.1\n", 0),
            ("# x\n%TAG ! tag:x,2000:\n", 4),
            ("a: {{ .Values.x }}\n", 3),
            ("a: [1\n", 6),
            ("a: 'x\n", 3),
        ] {
            let error = yaml(text).unwrap_err();
            assert!(!error.what.contains('\n') && !error.what.is_empty(), "{text:?}: {error:?}");
            assert!(error.offset.abs_diff(at) <= 4, "{text:?}: {error:?}");
        }
    }

    #[test]
    fn bombs_and_towers_are_refused_at_once() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for n in 1..10 {
            let below = format!("*a{}, ", n - 1).repeat(10);
            bomb.push_str(&format!("a{n}: &a{n} [{}]\n", below.trim_end_matches(", ")));
        }
        assert!(yaml(&bomb).is_err());
        assert!(yaml(&"[".repeat(100_000)).is_err());
        assert!(yaml(&"- ".repeat(100_000)).is_err());
        assert!(json(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn big_documents_are_read() {
        let text: String = (0..60_000).map(|n| format!("- [{n}, 1, 2, 3]\n")).collect();
        assert_eq!(yaml(&text).unwrap().as_array().map(Vec::len), Some(60_000));
    }
}
