//! Finds the local ports for which a shell script waits.

use crate::order::declare::spec::ContainerRef;
use crate::order::suggest::{LINE_MAX, LOCAL_HOSTS, local_ports};
use std::collections::BTreeSet;

/// Maximum number of words of a loop's condition or body that podgate reads.
const LOOP_WORDS_MAX: usize = 100;
/// Clients with a default port, for a command that names a host without a port.
const DEFAULT_PORTS: [(&str, u16); 4] = [("pg_isready", 5432), ("psql", 5432), ("mysqladmin", 3306), ("mysql", 3306)];
/// Programs that wait until an address answers, then run a command or exit.
const WAITERS: [&str; 5] = ["wait-for-it", "wait-for", "wait4x", "dockerize", "wait-port"];

/// Returns the command line, with the values of the variables that it names.
pub(super) fn script(own: &ContainerRef<'_>) -> String {
    let line = [own.string_list("command"), own.string_list("args")].into_iter().flatten().flatten();
    let mut line = line.collect::<Vec<_>>().join("\n");
    if line.contains('$') && words(&line).into_iter().any(is_loop) {
        for one in own.value["env"].as_array().into_iter().flatten() {
            let (Some(name), Some(value)) = (one["name"].as_str(), one["value"].as_str()) else { continue };
            // Limit the length, because each variable of a hostile manifest could double the text.
            if value.len() < 100 && line.len() < LINE_MAX && !name.is_empty() {
                for spelling in [format!("${{{name}}}"), format!("$({name})"), format!("${name}")] {
                    line = line.replace(&spelling, value);
                }
            }
        }
    }
    line
}

/// Returns the words of a shell script, without quotes, brackets and comments.
pub(super) fn words(script: &str) -> Vec<&str> {
    let is_comment = |line: &&str| line.trim_start().starts_with('#') || line.len() > LINE_MAX;
    let code = script.lines().filter(|line| !is_comment(line));
    let is_between = |c: char| c.is_whitespace() || "\"'`;(){}$".contains(c);
    code.flat_map(|line| line.split(is_between)).filter(|word| !word.is_empty()).collect()
}

/// Returns true if `word` starts a loop.
pub(super) fn is_loop(word: &str) -> bool {
    matches!(word, "until" | "while" | "for")
}

/// Returns true if the script never ends by itself: an endless loop, `sleep infinity` or `tail -f`.
pub(super) fn never_ends(script: &str) -> bool {
    let words = words(script);
    let can_end = ["&", "&&", "break", "exit", "return", "timeout", "trap"].iter().any(|word| words.contains(word));
    let is_endless = |two: &[&str]| match two {
        ["while", "true" | ":" | "1"] | ["sleep", "infinity" | "inf"] => true,
        ["tail", flags] => flags.starts_with(['-']) && flags.contains(['f', 'F']) && !flags.starts_with("--p"),
        _ => false,
    };
    !can_end && words.windows(2).any(is_endless)
}

/// Returns the local ports that must answer before the script continues.
pub(super) fn awaited_ports(script: &str) -> BTreeSet<u16> {
    let (mut words, mut found) = (words(script), BTreeSet::new());
    words.truncate(LINE_MAX);
    for (index, word) in words.iter().enumerate() {
        let rest = &words[index + 1..];
        let name = word.rsplit('/').next().unwrap_or_default();
        if WAITERS.contains(&name.trim_end_matches(".sh")) {
            let own = rest.iter().take(LOOP_WORDS_MAX).position(|word| *word == "--");
            found.extend(named_ports(&rest[..own.unwrap_or(rest.len()).min(LOOP_WORDS_MAX)]));
        }
        let Some((condition, rest)) = split(rest, "do").filter(|_| is_loop(word)) else { continue };
        let is_negated = condition.iter().any(|word| matches!(*word, "!" | "!=" | "-ne"));
        let waits = match *word {
            "until" => condition.first() != Some(&"!"),
            "while" => is_negated,
            _ => false,
        };
        if waits {
            found.extend(named_ports(condition));
        }
        // Another form is `while true; do nc -z localhost 5432 && break; sleep 1; done`.
        let Some((body, _)) = split(rest, "done") else { continue };
        let end = body.iter().position(|word| *word == "break").unwrap_or_default();
        if !body[..end].iter().any(|word| matches!(*word, "!" | "!=" | "-ne" | "||")) {
            found.extend(named_ports(&body[..end]));
        }
    }
    found
}

/// Splits `words` at the first `end`. Returns `None` if it is missing or too far away.
fn split<'a, 'b>(words: &'b [&'a str], end: &str) -> Option<(&'b [&'a str], &'b [&'a str])> {
    let at = words.iter().take(LOOP_WORDS_MAX).position(|word| *word == end)?;
    Some((&words[..at], &words[at + 1..]))
}

/// Returns the local ports in `words`: `localhost:80`, `http://localhost/`, `localhost 80`, `-h localhost -p 80`,
/// `/dev/tcp/localhost/80`, or the default port of a client.
fn named_ports(words: &[&str]) -> Vec<u16> {
    let mut found: Vec<u16> = words.iter().flat_map(|word| local_ports(word)).map(|(_, port)| port).collect();
    for (index, word) in words.iter().enumerate() {
        if let Some((host, port)) = word.rsplit_once("/dev/tcp/").and_then(|(_, address)| address.split_once('/')) {
            found.extend(port.parse::<u16>().ok().filter(|_| is_local(host)));
        }
        let url = word.strip_prefix("http://").map(|rest| rest.split('/').next().unwrap_or_default());
        found.extend(url.filter(|host| is_local(host)).map(|_| 80));
        let host = word.rsplit_once('=').filter(|(flag, _)| flag.starts_with('-')).map_or(*word, |(_, host)| host);
        if is_local(host.trim_start_matches("-h")) {
            let next = words.get(index + 1).and_then(|next| next.parse().ok());
            let client = || DEFAULT_PORTS.iter().find(|(name, _)| words.contains(name)).map(|(_, port)| *port);
            found.extend(next.or_else(|| port_flag(words)).or_else(client));
        }
    }
    found
}

/// Returns the value of a port flag: `-p 80`, `-p80`, `-P 80`, `--port 80` or `--port=80`.
fn port_flag(words: &[&str]) -> Option<u16> {
    words.iter().enumerate().find_map(|(index, word)| {
        let value = ["--port", "-p", "-P"].iter().find_map(|flag| word.strip_prefix(flag))?;
        let next = || words.get(index + 1).copied().unwrap_or_default();
        (if value.is_empty() { next() } else { value.trim_start_matches('=') }).parse().ok()
    })
}

/// Returns true for a host of the Pod itself.
fn is_local(host: &str) -> bool {
    LOCAL_HOSTS.contains(&host) || host == "::1"
}
