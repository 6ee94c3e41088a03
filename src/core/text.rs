//! Untrusted text, made safe for one line of a log, a terminal, a shell or a container's status.

use std::error::Error;

/// Replaces each character that could control a terminal, change the text direction or end a line with a space.
pub fn sanitize(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) { ' ' } else { c }).collect()
}

/// Returns `text` as one line of at most `max` bytes, with single spaces.
pub fn one_line(text: &str, max: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || is_unsafe(c)).filter(|word| !word.is_empty());
    let mut line = words.collect::<Vec<_>>().join(" ");
    if line.len() > max {
        line.truncate(line.floor_char_boundary(max.saturating_sub(" …".len())));
        line.push_str(" …");
    }
    line
}

/// Returns a command line for a message that tells somebody to run it. Quotes each word that a shell would change, so
/// that text of another user remains one word.
pub fn command_line(words: &[&str]) -> String {
    let is_plain = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c));
    let quote = |word: &&str| match is_plain(word) && !word.is_empty() {
        true => (*word).to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Returns the messages of `error` and its sources, joined by `: `. Omits repeated messages and the numbers of system
/// errors. Shortens the message for a missing file.
pub fn error_chain(error: &dyn Error) -> String {
    let mut chain = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        let text = text.split(" (os error ").next().unwrap_or_default();
        let text = text.replace("No such file or directory", "no such file");
        if !chain.contains(&text) {
            chain.push_str(if chain.is_empty() { "" } else { ": " });
            chain.push_str(&text);
        }
        next = error.source();
    }
    chain
}

fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
