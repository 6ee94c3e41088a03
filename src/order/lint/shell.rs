//! Recognizes shell scripts that wait for a port, or that never end.

use crate::order::declare::spec::ContainerRef;
use crate::order::suggest::{LINE_MAX, LOCAL_URL_HOSTS, scheme_ports};
use std::collections::BTreeSet;

const CONDITION_WORDS_MAX: usize = 100;
/// Programs that wait until an address answers.
const WAITERS: [&str; 4] = ["dockerize", "wait-for", "wait-for-it", "wait4x"];
/// Clients with a default port, for a command that names a host without a port.
const DEFAULT_PORTS: [(&str, u16); 4] = [("mysql", 3306), ("mysqladmin", 3306), ("pg_isready", 5432), ("psql", 5432)];

/// Returns all words of `command` and `args`, one per line.
pub(super) fn command_text(own: &ContainerRef<'_>) -> String {
    let line = [own.string_list("command"), own.string_list("args")].into_iter().flatten().flatten();
    line.collect::<Vec<_>>().join("\n")
}

/// Returns the words of a shell script, without quotes, brackets and comments.
pub(super) fn words(text: &str) -> Vec<&str> {
    let is_comment = |line: &&str| line.trim_start().starts_with('#') || line.len() > LINE_MAX;
    let code = text.lines().filter(|line| !is_comment(line));
    let is_between = |c: char| c.is_whitespace() || "\"'`;(){}$".contains(c);
    code.flat_map(|line| line.split(is_between)).filter(|word| !word.is_empty()).collect()
}

/// Returns true if the container probably waits in a loop until another container of the Pod answers.
pub(super) fn waits_for_local_port(own: &ContainerRef<'_>) -> bool {
    let text = command_text(own);
    let is_loop = |word: &str| matches!(word, "until" | "while" | "for") || word.contains("wait");
    LOCAL_URL_HOSTS.iter().any(|host| text.contains(host)) && words(&text).into_iter().any(is_loop)
}

/// Returns the local ports that must answer before the container's script continues.
pub(super) fn awaited_ports(own: &ContainerRef<'_>) -> BTreeSet<u16> {
    let text = command_text(own);
    let words = words(&text);
    let port = |index: usize| {
        let name = words[index].rsplit('/').next()?.trim_end_matches(".sh");
        let rest = &words[index + 1..words.len().min(index + CONDITION_WORDS_MAX)];
        let is_waiter = WAITERS.contains(&name);
        let end = rest.iter().position(|word| *word == if is_waiter { "--" } else { "do" });
        let condition = &rest[..end.or(is_waiter.then_some(rest.len()))?];
        // `while nc localhost 80` waits until the other container stops.
        let is_negated = condition.iter().any(|word| matches!(*word, "!" | "!=" | "-ne"));
        let waits = is_waiter || matches!((name, is_negated), ("until", false) | ("while", true));
        local_port(condition).filter(|_| waits && !condition.iter().any(|word| word.contains("quit")))
    };
    (0..words.len()).filter_map(port).collect()
}

/// Returns the first local port in `words`: `localhost:80`, `http://localhost/`, `localhost 80`, `-h localhost -p 80`,
/// `/dev/tcp/localhost/80`, or the default port of a client.
fn local_port(words: &[&str]) -> Option<u16> {
    let line = words.join(" ").replace('=', " ");
    let after = LOCAL_URL_HOSTS.into_iter().find_map(|host| Some(line.split_once(host)?.1))?;
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let flag = || [" -p ", " -P ", " --port "].iter().find_map(|flag| number(line.split_once(*flag)?.1));
    let client = || DEFAULT_PORTS.iter().find(|(name, _)| words.contains(name)).map(|(_, port)| *port);
    let url = || scheme_ports(&line).map(|(_, port)| port).next();
    after.get(1..).and_then(number).or_else(url).or_else(flag).or_else(client)
}

/// Returns true if the command never ends by itself: an endless loop, `sleep infinity` or `tail -f`.
pub(super) fn never_ends(own: &ContainerRef<'_>) -> bool {
    let text = command_text(own);
    let words = words(&text);
    let can_end = ["&", "&&", "break", "exit", "return", "timeout", "trap"].iter().any(|word| words.contains(word));
    let is_endless = |two: &[&str]| match two {
        ["while", "true" | ":" | "1"] | ["sleep", "infinity" | "inf"] => true,
        ["tail", flags] => flags.starts_with(['-']) && flags.contains(['f', 'F']) && !flags.starts_with("--p"),
        _ => false,
    };
    !can_end && words.windows(2).any(is_endless)
}
