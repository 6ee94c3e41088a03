//! Recognizes shell scripts that wait for a port, or that never end.

use crate::order::declare::spec::ContainerRef;
use crate::order::suggest::{LINE_MAX, LOCAL_HOSTS};

fn script(own: &ContainerRef<'_>) -> String {
    let line = [own.string_list("command"), own.string_list("args")].into_iter().flatten().flatten();
    line.collect::<Vec<_>>().join("\n")
}

/// Returns the words of a shell script, without quotes, brackets and comments.
fn words(script: &str) -> Vec<&str> {
    let is_comment = |line: &&str| line.trim_start().starts_with('#') || line.len() > LINE_MAX;
    let code = script.lines().filter(|line| !is_comment(line));
    let is_between = |c: char| c.is_whitespace() || "\"'`;(){}$".contains(c);
    code.flat_map(|line| line.split(is_between)).filter(|word| !word.is_empty()).collect()
}

/// Returns true if the container probably waits in a loop until another container of the Pod answers.
pub(super) fn waits_for_local_port(own: &ContainerRef<'_>) -> bool {
    let script = script(own);
    let is_loop = |word: &str| matches!(word, "until" | "while" | "for") || word.contains("wait");
    LOCAL_HOSTS.iter().any(|host| script.contains(host)) && words(&script).into_iter().any(is_loop)
}

/// Returns true if the command never ends by itself: an endless loop, `sleep infinity` or `tail -f`.
pub(super) fn never_ends(own: &ContainerRef<'_>) -> bool {
    let script = script(own);
    let words = words(&script);
    let can_end = ["&", "&&", "break", "exit", "return", "timeout", "trap"].iter().any(|word| words.contains(word));
    let is_endless = |two: &[&str]| match two {
        ["while", "true" | ":" | "1"] | ["sleep", "infinity" | "inf"] => true,
        ["tail", flags] => flags.starts_with(['-']) && flags.contains(['f', 'F']) && !flags.starts_with("--p"),
        _ => false,
    };
    !can_end && words.windows(2).any(is_endless)
}
