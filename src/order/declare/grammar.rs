//! Grammar: `,` separates steps, `&` joins parallel containers. Each item is `CONTAINER[?][=STATE]` or `*[=STATE]`.

use crate::core::container_list::CONTAINERS_MAX;
use crate::core::names;
use crate::core::until::{WaitCondition, WantedState};
use std::ops::Range;

/// Word of a list that stands for all containers of the Pod that the list does not name.
pub(super) const OTHERS: &str = "*";

/// One entry of a list: a container and a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerItem {
    /// The container, or `*`, and the state that later containers wait for.
    pub until: WaitCondition,
    /// True if the name ends in `?`. Podgate ignores such an entry if the Pod lacks the container.
    pub is_optional: bool,
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
    /// Instruction that fixes the problem. `None` if podgate cannot guess the intended text.
    pub fix: Option<String>,
}

/// Rules for the list in one kind of annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grammar {
    /// True if the list has steps, so that `&` and `*` are allowed.
    pub has_steps: bool,
    /// States that can follow `=`. Empty if a state is not allowed.
    pub states: &'static [WantedState],
}

/// Grammar of `podgate.io/order`.
pub const ORDER: Grammar = Grammar { has_steps: true, states: &WantedState::ALL };
/// Grammar of `after.podgate.io/CONTAINER`.
pub const AFTER: Grammar = Grammar { has_steps: false, states: &WantedState::ALL };
/// Grammar of `podgate.io/stop-order`.
pub const STOP: Grammar = Grammar { has_steps: true, states: &[WantedState::Exited] };
/// Grammar of `podgate.io/job-sidecars`.
pub const JOB_SIDECARS: Grammar = Grammar { has_steps: false, states: &[] };

/// Separators that users write instead of a comma.
const WRONG_SEPARATORS: [&str; 6] = ["->", "=>", "→", ">", ";", "|"];

/// Returns an error message if `text` is empty or in another syntax, such as brackets or arrows.
fn find_foreign_syntax(text: &str) -> Option<String> {
    let plain = text.trim();
    if plain.is_empty() {
        return Some("the list is empty".to_owned());
    }
    if plain.contains("{{") {
        return Some(format!(
            "{} is a Helm template that was not rendered; check the output of helm template",
            quoted(plain)
        ));
    }
    if plain.starts_with(['[', '(']) {
        return Some(format!("{} has brackets; write the list without brackets", quoted(plain)));
    }
    let (at, found) = WRONG_SEPARATORS.iter().filter_map(|word| Some((plain.find(word)?, word))).min()?;
    let place = character_number(plain, at);
    Some(format!("{found} does not separate containers (character {place}); a comma separates steps"))
}

/// Parses a text from a user, as `parse_steps` does. The syntax of another tool is one error without entries.
pub fn parse_list(text: &str, grammar: Grammar) -> (Vec<Vec<ContainerItem>>, Vec<SyntaxError>) {
    match find_foreign_syntax(text) {
        Some(message) => (Vec::new(), vec![SyntaxError { span: 0..text.len(), message, fix: None }]),
        None => parse_steps(text, grammar),
    }
}

/// Returns the items that the step after `earlier` waits for. The flag is true for the items of the last step. From
/// the steps before the last step, omits items that require an exit, because the last step has already waited for that
/// exit. A container that runs again after its exit must not delay later steps.
pub(super) fn awaited(earlier: &[Vec<ContainerItem>]) -> impl Iterator<Item = (&ContainerItem, bool)> {
    let items = earlier.iter().rev().enumerate().rev();
    let items = items.flat_map(|(distance, step)| step.iter().map(move |item| (item, distance == 0)));
    items.filter(|(item, is_direct)| *is_direct || !item.until.want.is_exit())
}

/// Parses `text` into steps of one or more containers. Returns all valid entries and all errors. More than
/// [`CONTAINERS_MAX`] entries are one error without entries.
pub(super) fn parse_steps(text: &str, grammar: Grammar) -> (Vec<Vec<ContainerItem>>, Vec<SyntaxError>) {
    let mut errors = Vec::new();
    let mut steps = Vec::new();
    if text.matches([',', '&']).count() >= CONTAINERS_MAX {
        let message = format!("more than {CONTAINERS_MAX} containers");
        let fix = Some("list each container once".to_owned());
        return (steps, vec![SyntaxError { span: 0..text.len(), message, fix }]);
    }
    for step in split_range(text, 0..text.len(), ',') {
        let mut items = Vec::new();
        let words = if grammar.has_steps { split_range(text, step, '&') } else { vec![step] };
        for word in words {
            match parse_item(text, word, grammar) {
                Ok(item) => items.push(item),
                Err((span, message)) => errors.push(SyntaxError { span, message, fix: None }),
            }
        }
        steps.push(items);
    }
    (steps, errors)
}

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

/// Parses one entry. Returns the byte range of the problem and a message on error.
fn parse_item(text: &str, range: Range<usize>, grammar: Grammar) -> Result<ContainerItem, (Range<usize>, String)> {
    let word = trim_range(text, range.clone());
    if word.is_empty() {
        let what = format!("a container name is missing at character {}", character_number(text, range.start));
        return Err((range.start.saturating_sub(1)..range.end, what));
    }
    let written = &text[word.clone()];
    let (name, state) = match written.split_once('=') {
        None => (written, None),
        Some((name, state)) => (name.trim_end(), Some(trim_range(text, word.end - state.len()..word.end))),
    };
    let (name, is_optional) = name.strip_suffix('?').map_or((name, false), |bare| (bare.trim_end(), true));
    let is_others = name == OTHERS;
    let is_valid = if is_others { grammar.has_steps && !is_optional } else { names::is_container_name(name) };
    if !is_valid {
        let place = character_number(text, word.start);
        let what = match written {
            _ if is_others && grammar.has_steps => format!("* cannot have a ? (character {place})"),
            _ if is_others => format!("* is allowed only in an order or a stop order (character {place})"),
            _ if written.starts_with('?') => format!("a container name is missing before ? (character {place})"),
            _ if written.contains(':') => {
                format!("{} has a colon (character {place}); put = before a state", quoted(written))
            }
            _ if names::is_container_name(&name.to_lowercase()) => {
                format!("{} is not a container name, because names are lowercase (character {place})", quoted(written))
            }
            _ => format!("{} is not a container name (character {place})", quoted(written)),
        };
        return Err((word, what));
    }
    let want = state.map_or(Ok(WantedState::default()), |at| parse_state(text, at, grammar))?;
    Ok(ContainerItem { until: WaitCondition { container: name.to_owned(), want }, is_optional, span: word })
}

fn parse_state(text: &str, at: Range<usize>, grammar: Grammar) -> Result<WantedState, (Range<usize>, String)> {
    let written = &text[at.clone()];
    let found = WantedState::ALL.into_iter().find(|want| want.as_str() == written);
    let place = character_number(text, at.start);
    let what = match found {
        Some(want) if grammar.states.contains(&want) => return Ok(want),
        _ if grammar.states.is_empty() => format!("a state is not allowed here (character {place})"),
        Some(_) => format!(
            "{} is not allowed in a stop order (character {place}), because a stop order waits only for Exited",
            quoted(written)
        ),
        None => {
            let known = WantedState::ALL.map(WantedState::as_str).join(", ");
            format!("{} is not a state (character {place}); the states are {known}", quoted(written))
        }
    };
    let word = if at.is_empty() { at.start.saturating_sub(1)..at.end } else { at };
    Err((word, what))
}

/// Returns the number of the character at byte offset `at`, counted from 1.
pub fn character_number(text: &str, at: usize) -> usize {
    text[..at].chars().count() + 1
}

/// Quotes a word for a message. Escapes control characters and truncates long words.
pub fn quoted(word: &str) -> String {
    const MAX: usize = 80;
    let short: String = word.chars().take(MAX).collect();
    let rest = if short.len() < word.len() { "…" } else { "" };
    format!("{short:?}{rest}")
}
