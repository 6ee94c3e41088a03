//! Lists of checks, such as `file:///certs/tls.crt, tcp://db.shop:5432`.

use super::grammar::{SyntaxError, quoted};
use super::nearest::nearest;
use crate::core::argv::{Argv, Check};
use std::ops::Range;

/// Parses a list of one or more checks. A comma separates checks, except inside the JSON list of an `exec:` check.
pub(super) fn parse(text: &str) -> Result<Vec<Check>, SyntaxError> {
    let (mut checks, mut at) = (Vec::new(), 0);
    loop {
        let start = at + text[at..].len() - text[at..].trim_start().len();
        let end = start + item_length(&text[start..]);
        let span = start..start + text[start..end].trim_end().len();
        checks.push(parse_item(text, span)?);
        if end == text.len() {
            return Ok(checks);
        }
        at = end + 1;
    }
}

/// Returns the length of the first item of `text`, up to a comma or the end of `text`.
fn item_length(text: &str) -> usize {
    let comma = |from: usize| text[from..].find(',').map_or(text.len(), |at| from + at);
    let Some(list) = text.strip_prefix("exec:").filter(|list| list.starts_with('[')) else { return comma(0) };
    let mut values = serde_json::Deserializer::from_str(list).into_iter::<Vec<String>>();
    match values.next() {
        Some(Ok(_)) => comma("exec:".len() + values.byte_offset()),
        _ => text.len(),
    }
}

fn parse_item(text: &str, span: Range<usize>) -> Result<Check, SyntaxError> {
    let item = &text[span.clone()];
    let message = match item.parse::<Check>() {
        _ if text.trim().is_empty() => "the list is empty".to_owned(),
        _ if item.is_empty() => "a check is missing between two commas or at the end".to_owned(),
        Ok(check) if check.path().is_some_and(|path| path.split('/').any(|part| part == "..")) => {
            format!("the path of {} contains ..", quoted(item))
        }
        Ok(check) => return Ok(check),
        Err(error) => format!("{}: {error}", quoted(item)),
    };
    let fix = match corrected(item) {
        Some(check) => format!("write {check}"),
        None => "write a list such as file:///certs/tls.crt, tcp://db.shop:5432".to_owned(),
    };
    Err(SyntaxError { span, message, fix: Some(fix) })
}

/// Returns the check that the user probably meant.
fn corrected(item: &str) -> Option<Check> {
    if let Some(command) = item.strip_prefix("exec:") {
        // Podgate does not guess the words of a shell command.
        let is_plain = !command.contains(['"', '\'', '[', '$', '|', '&', ';', '<', '>', '\\']);
        let words = command.split_whitespace().map(str::to_owned).collect();
        return Argv::new(words).ok().filter(|_| is_plain).map(Check::Exec);
    }
    let (scheme, rest) = item.split_once(':').unwrap_or(("", item));
    let known = ["file", "unix", "mount", "http", "tcp"];
    let text = match nearest(scheme, known).filter(|_| rest.starts_with('/') && scheme != "https") {
        Some(near @ ("file" | "unix" | "mount")) => format!("{near}:///{}", resolve_dots(rest)),
        Some(near) => format!("{near}://{}", rest.trim_start_matches('/')),
        None if item.starts_with('/') => format!("file://{item}"),
        None => format!("tcp://{item}"),
    };
    text.parse().ok()
}

/// Returns `path` without empty parts, `.` and `..`, and without a leading slash.
fn resolve_dots(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comma_separates_checks_but_not_the_words_of_a_command() {
        let texts = |text| parse(text).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        for (text, checks) in [
            (" unix:///run/docker.sock ", &["unix:///run/docker.sock"][..]),
            ("file:///certs/tls.crt,\n tcp://db.shop:5432", &["file:///certs/tls.crt", "tcp://db.shop:5432"]),
            (
                r#"exec:[ "sh", "-c", "a, \"b]" ] , mount:///data/x, exec:["true"]"#,
                &[r#"exec:["sh","-c","a, \"b]"]"#, "mount:///data/x", r#"exec:["true"]"#],
            ),
        ] {
            assert_eq!(texts(text).unwrap(), checks, "{text}");
        }
    }

    #[test]
    fn errors_have_a_place_and_the_corrected_text() {
        let example = "a list such as file:///certs/tls.crt, tcp://db.shop:5432";
        for (text, span, what, fix) in [
            ("", 0..0, "the list is empty", example),
            ("tcp://db:1,", 11..11, "a check is missing", example),
            ("tcp://db:1, ,file:///x", 12..12, "a check is missing", example),
            ("tcp://db:1, db.shop:5432", 12..24, "\"db.shop:5432\": not a check", "tcp://db.shop:5432"),
            ("tcp://db", 0..8, "has no port", example),
            ("tpc://db:1", 0..10, "not a check", "tcp://db:1"),
            ("ftp://db:1", 0..10, "not a check", example),
            ("https://db/", 0..11, "the agent has no TLS", example),
            ("/certs/tls.crt", 0..14, "not a check", "file:///certs/tls.crt"),
            ("file://certs/tls.crt", 0..20, "absolute path", "file:///certs/tls.crt"),
            ("unix:/run/x.sock", 0..16, "not a check", "unix:///run/x.sock"),
            ("file:///a/../b+content", 0..22, "contains ..", "file:///b+content"),
            ("mount:///data/..", 0..16, "contains ..", "mount:///"),
            ("exec:pg_isready -q", 0..18, "not a JSON list", r#"exec:["pg_isready","-q"]"#),
            ("exec:test -e \"$X\"", 0..17, "not a JSON list", example),
            (r#"exec:["a", b], tcp://db:1"#, 0..25, "not a JSON list", example),
            (r#"exec:["a"] x, tcp://db:1"#, 0..12, "not a JSON list", example),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.span, span, "{text}: {error:?}");
            assert!(error.message.contains(what), "{text}: {error:?}");
            assert_eq!(error.fix.as_deref(), Some(format!("write {fix}").as_str()), "{text}: {error:?}");
        }
    }
}
