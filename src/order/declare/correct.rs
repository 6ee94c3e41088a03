//! Reads an order, and corrects lists that the user wrote in another syntax, such as `[db, api]` or `db -> api`.

use super::grammar::{Grammar, Item, OTHERS, SyntaxError, WRONG_SEPARATORS, find_foreign_syntax, parse_steps};
use super::nearest::nearest;
use crate::core::until::WantedState;

/// Maximum length of a text that podgate corrects, in bytes. A longer text would make the message unreadable.
const MAX_TEXT: usize = 200;

/// Parses `text` into steps of one or more containers. Returns all valid entries and all errors. If `text` can be
/// corrected, returns a single error with the corrected text.
pub fn parse_list(text: &str, grammar: Grammar) -> (Vec<Vec<Item>>, Vec<SyntaxError>) {
    if let Some(message) = find_foreign_syntax(text) {
        let fix = match text.contains("{{") {
            true => Some("render the chart first, and check the output of helm template".to_owned()),
            false => corrected(text, grammar).map(|text| format!("write {text}")),
        };
        return (Vec::new(), vec![SyntaxError { span: 0..text.len(), message, fix }]);
    }
    let (steps, mut errors) = parse_steps(text, grammar);
    if let Some(first) = errors.first_mut()
        && let Some(text) = corrected(text, grammar)
    {
        // Keep only the first error, because the corrected text fixes all errors.
        first.fix = Some(format!("write {text}"));
        errors.truncate(1);
    }
    (steps, errors)
}

/// Returns the list that the user probably meant. Returns `None` if podgate cannot guess a valid list.
fn corrected(text: &str, grammar: Grammar) -> Option<String> {
    if text.len() > MAX_TEXT {
        return None;
    }
    let plain = text.replace(['[', ']', '(', ')', '"', '\''], " ");
    let mut plain = WRONG_SEPARATORS.iter().fold(plain, |text, wrong| text.replace(wrong, ","));
    if !plain.contains([',', '&', '=', ':']) {
        plain = plain.split_whitespace().filter(|word| *word != "-").collect::<Vec<_>>().join(",");
    }
    if !grammar.has_steps {
        plain = plain.replace('&', ",");
    }
    let step = |step: &str| {
        let items = step.split('&').map(str::trim).filter(|item| !item.is_empty());
        items.map(|item| corrected_item(item, grammar)).collect::<Vec<_>>().join(" & ")
    };
    let steps: Vec<String> = plain.split(',').map(step).filter(|step| !step.is_empty()).collect();
    let list = steps.join(", ");
    (!list.is_empty() && parse_steps(&list, grammar).1.is_empty()).then_some(list)
}

fn corrected_item(item: &str, grammar: Grammar) -> String {
    let bare = item.replace('?', " ");
    let (name, state) = bare.split_once(['=', ':']).unwrap_or((&bare, ""));
    let mark = if item.contains('?') && name.trim() != OTHERS { "?" } else { "" };
    let (name, state) = (name.trim().to_lowercase().replace('_', "-") + mark, state.trim());
    match known_state(state) {
        Some(want) if grammar.states.contains(&want) => format!("{name}={}", want.as_str()),
        Some(_) => name,
        None if state.is_empty() => name,
        None => item.to_owned(),
    }
}

/// Returns podgate's state for a misspelled state, or for the name of a state in Kubernetes or Compose.
fn known_state(word: &str) -> Option<WantedState> {
    let foreign = match word.to_lowercase().trim_start_matches("service_") {
        "healthy" | "available" => Some(WantedState::Ready),
        "running" => Some(WantedState::Started),
        "succeeded" | "success" | "done" | "finished" | "completed_successfully" => Some(WantedState::Completed),
        "terminated" | "stopped" | "ended" => Some(WantedState::Exited),
        _ => None,
    };
    let near = nearest(word.trim_start_matches("service_"), WantedState::ALL.map(WantedState::as_str));
    foreign.or_else(|| WantedState::ALL.into_iter().find(|want| Some(want.as_str()) == near))
}
