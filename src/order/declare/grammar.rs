//! Grammar of an order: `,` separates steps, `&` joins parallel containers. Each item is `CONTAINER[=STATE]`.

use crate::core::names;
use crate::core::until::{WaitCondition, WantedState};
use crate::order::declare::nearest::nearest;
use std::ops::Range;

/// One entry of a list: a container and a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The container and the state that later containers wait for.
    pub until: WaitCondition,
    /// True if the text contains `=STATE`; false if the state is the default.
    pub has_explicit_state: bool,
    /// Byte range of the entry in the text.
    pub span: Range<usize>,
}

/// Error for text that does not follow the grammar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Byte range of the error in the text.
    pub span: Range<usize>,
    /// Description of the problem.
    pub message: String,
    /// Instruction that fixes the problem.
    pub fix: String,
}

/// Rules for the list in one kind of annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grammar {
    /// True if `&` is allowed.
    pub may_be_parallel: bool,
    /// States that can follow `=`. Empty if no state is allowed.
    pub states: &'static [WantedState],
    /// Example of a valid list, for error messages.
    pub example: &'static str,
}

/// Grammar of `podgate.io/order`.
pub const ORDER: Grammar =
    Grammar { may_be_parallel: true, states: &WantedState::ALL, example: "migrate=Completed, db & cache, api" };
/// Grammar of `after.podgate.io/CONTAINER`.
pub const AFTER: Grammar =
    Grammar { may_be_parallel: false, states: &WantedState::ALL, example: "db, migrate=Completed" };
/// Grammar of `podgate.io/stop-order`.
pub const STOP: Grammar =
    Grammar { may_be_parallel: true, states: &[WantedState::Exited], example: "web, api & worker, db" };
/// Grammar of `podgate.io/job-sidecars`.
pub const SIDECARS: Grammar = Grammar { may_be_parallel: false, states: &[], example: "proxy, log-shipper" };

/// Parses `text` into steps of one or more containers. Returns all valid entries together with all errors.
#[must_use]
pub fn parse(text: &str, grammar: Grammar) -> (Vec<Vec<Item>>, Vec<SyntaxError>) {
    let mut errors = Vec::new();
    let mut steps = Vec::new();
    if text.trim().is_empty() {
        let fix = format!("write a list such as {}, or remove the annotation", grammar.example);
        return (steps, vec![SyntaxError { span: 0..text.len(), message: "the list is empty".to_owned(), fix }]);
    }
    for step in split_range(text, 0..text.len(), ',') {
        let mut items = Vec::new();
        let words = if grammar.may_be_parallel { split_range(text, step, '&') } else { vec![step] };
        for word in words {
            match parse_item(text, word, grammar) {
                Ok(item) => items.push(item),
                Err(error) => errors.push(error),
            }
        }
        steps.push(items);
    }
    (steps, errors)
}

/// Splits the byte range `range` of `text` at every character `by`.
fn split_range(text: &str, range: Range<usize>, by: char) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = range.start;
    for (at, _) in text[range.clone()].match_indices(by) {
        parts.push(start..range.start + at);
        start = range.start + at + by.len_utf8();
    }
    parts.push(start..range.end);
    parts
}

/// Returns the byte range `range` of `text` without the whitespace at both ends.
fn trim_range(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    start..start.max(range.start + part.trim_end().len())
}

fn parse_item(text: &str, range: Range<usize>, grammar: Grammar) -> Result<Item, SyntaxError> {
    let word = trim_range(text, range.clone());
    let example = format!("write a list such as {}", grammar.example);
    let error = |word: Range<usize>, what: String, fix: String| Err(SyntaxError { span: word, message: what, fix });
    if word.is_empty() {
        let what = format!("a container name is missing at character {}", character_number(text, range.start));
        return error(range.start.saturating_sub(1)..range.end, what, example);
    }
    let written = &text[word.clone()];
    let (name, state) = match written.find('=') {
        None => (word.clone(), None),
        Some(at) => {
            (trim_range(text, word.start..word.start + at), Some(trim_range(text, word.start + at + 1..word.end)))
        }
    };
    if !names::is_container_name(&text[name.clone()]) {
        let what =
            format!("{} is not a container name (character {})", quoted(written), character_number(text, word.start));
        return error(word, what, example);
    }
    let (want, is_stated) = match state {
        None => (WantedState::default(), false),
        Some(at) => (parse_state(text, at, &text[name.clone()], grammar)?, true),
    };
    Ok(Item {
        until: WaitCondition { container: text[name].to_owned(), want },
        has_explicit_state: is_stated,
        span: word,
    })
}

fn parse_state(text: &str, at: Range<usize>, name: &str, grammar: Grammar) -> Result<WantedState, SyntaxError> {
    let written = &text[at.clone()];
    let found = WantedState::ALL.into_iter().find(|want| want.as_str() == written);
    let place = character_number(text, at.start);
    let (what, fix) = match found {
        Some(want) if grammar.states.contains(&want) => return Ok(want),
        _ if grammar.states.is_empty() => {
            (format!("no state is allowed here (character {place})"), format!("write {name}"))
        }
        Some(_) => {
            let fix = format!("write {name}: a container stops when the containers before it have exited");
            (format!("{} is not allowed in a stop order (character {place})", quoted(written)), fix)
        }
        None => {
            let known = WantedState::ALL.map(WantedState::as_str);
            let fix = match nearest(written, known) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("write one of {}", known.join(", ")),
            };
            (format!("{} is not a state (character {place})", quoted(written)), fix)
        }
    };
    let word = if at.is_empty() { at.start.saturating_sub(1)..at.end } else { at };
    Err(SyntaxError { span: word, message: what, fix })
}

/// Returns the number of the character at byte offset `at`, counted from 1.
#[must_use]
pub fn character_number(text: &str, at: usize) -> usize {
    text[..at].chars().count() + 1
}

/// Quotes a word for a message. Escapes control characters and truncates long words.
#[must_use]
pub fn quoted(word: &str) -> String {
    const MAX: usize = 80;
    let short: String = word.chars().take(MAX).collect();
    let rest = if short.len() < word.len() { "…" } else { "" };
    format!("{short:?}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed_steps(text: &str) -> Vec<Vec<String>> {
        let (steps, errors) = parse(text, ORDER);
        assert_eq!(errors, []);
        steps.iter().map(|step| step.iter().map(|item| item.until.to_string()).collect()).collect()
    }

    #[test]
    fn parses_steps_and_parallel_containers() {
        assert_eq!(
            parsed_steps("migrate=Completed, db & cache ,api,\n web = Started"),
            [&["migrate=Completed"][..], &["db=Ready", "cache=Ready"], &["api=Ready"], &["web=Started"]]
        );
        let (steps, _) = parse(" db & cache", ORDER);
        assert_eq!((steps[0][0].span.clone(), steps[0][1].span.clone()), (1..3, 6..11));
        assert!(!steps[0][0].has_explicit_state);
    }

    #[test]
    fn reports_each_error_with_its_position() {
        for (text, grammar, word, what, fix) in [
            ("", ORDER, 0..0, "the list is empty", "such as migrate"),
            ("db,,api", ORDER, 2..3, "missing at character 4", "such as migrate"),
            ("db,", ORDER, 2..3, "missing at character 4", "write"),
            ("db & ,api", ORDER, 3..5, "missing at character 5", "write"),
            ("é, db", ORDER, 0..2, "\"é\" is not a container name (character 1)", "write"),
            ("a, db -> api", ORDER, 3..12, "\"db -> api\" is not a container name (character 4)", "write"),
            ("db=ready", ORDER, 3..8, "\"ready\" is not a state (character 4)", "did you mean Ready?"),
            ("db=", ORDER, 2..3, "\"\" is not a state", "one of Started, Ready, Completed, Exited"),
            ("=Ready", ORDER, 0..6, "not a container name", "write"),
            ("db & api", AFTER, 0..8, "\"db & api\" is not a container name", "such as db, migrate=Completed"),
            ("db=Ready", STOP, 3..8, "not allowed in a stop order", "write db:"),
            ("db=Ready", SIDECARS, 3..8, "no state is allowed", "write db"),
        ] {
            let (_, errors) = parse(text, grammar);
            assert_eq!(errors[0].span, word, "{text}: {errors:?}");
            assert!(errors[0].message.contains(what) && errors[0].fix.contains(fix), "{text}: {errors:?}");
        }
    }

    #[test]
    fn quoted_word_is_short_and_escaped() {
        let shown = quoted(&format!("\u{1b}[31m{}", "x".repeat(1000)));
        assert!(shown.len() < 120 && !shown.contains('\u{1b}'), "{shown}");
    }
}
