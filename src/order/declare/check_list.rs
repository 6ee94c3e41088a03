//! Parses lists of checks, such as `file:///certs/tls.crt, tcp://db.shop:5432`.

use super::grammar::{SyntaxError, quoted};
use super::limits::CONTAINER_CHECKS_MAX;
use super::nearest::nearest;
use super::spec::{ContainerRef, Spec, items_of};
use crate::core::argv::{Argv, Check};
use crate::core::quit::is_local;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Suffix of a `file://` check that fails if the file is empty.
const CONTENT: &str = "+content";

/// Volume mounts of a container, by path.
pub(super) struct Mounts<'a> {
    by_path: BTreeMap<&'a str, &'a Value>,
    host_path_volumes: &'a BTreeSet<&'a str>,
}

impl<'a> Mounts<'a> {
    pub(super) fn of(container: Option<&ContainerRef<'a>>, host_path_volumes: &'a BTreeSet<&'a str>) -> Mounts<'a> {
        let mounts = container.and_then(|own| own.value.get("volumeMounts")?.as_array()).into_iter().flatten();
        let by_path = |mount: &'a Value| Some((mount["mountPath"].as_str()?.trim_end_matches('/'), mount));
        // If several mounts have the same path, use the first.
        Mounts { by_path: mounts.rev().filter_map(by_path).collect(), host_path_volumes }
    }

    fn has_mount(&self, path: &str) -> bool {
        self.by_path.contains_key(path.trim_end_matches('/'))
    }

    /// Returns true if a whole volume that is no hostPath is mounted at `path`. All other mounts can be files.
    fn has_directory_mount(&self, path: &str) -> bool {
        self.by_path.get(path.trim_end_matches('/')).is_some_and(|mount| {
            let is_whole = mount["subPath"].is_null() && mount["subPathExpr"].is_null();
            is_whole && !mount["name"].as_str().is_some_and(|name| self.host_path_volumes.contains(name))
        })
    }
}

/// Returns the names of the hostPath volumes, which contain files of the node.
pub(super) fn host_path_volumes<'a>(spec: &Spec<'a>) -> BTreeSet<&'a str> {
    let volumes = items_of(spec.value, "volumes");
    volumes.filter(|volume| !volume["hostPath"].is_null()).filter_map(|volume| volume["name"].as_str()).collect()
}

/// Parses a list of one or more checks. A comma separates checks, except inside the JSON list of an `exec:` check.
pub(super) fn parse(text: &str, mounts: &Mounts<'_>) -> Result<Vec<Check>, SyntaxError> {
    let (mut checks, mut at) = (Vec::new(), 0);
    loop {
        if checks.len() == CONTAINER_CHECKS_MAX {
            let message = format!("more than {CONTAINER_CHECKS_MAX} checks");
            let fix = Some("combine checks in one exec: command".to_owned());
            return Err(SyntaxError { span: 0..text.len(), message, fix });
        }
        let start = at + text[at..].len() - text[at..].trim_start().len();
        let end = start + item_length(&text[start..]);
        let span = start..start + text[start..end].trim_end().len();
        checks.push(parse_item(text, span, mounts)?);
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

fn parse_item(text: &str, span: Range<usize>, mounts: &Mounts<'_>) -> Result<Check, SyntaxError> {
    let item = &text[span.clone()];
    let has_suffix = |path: &str| path.to_ascii_lowercase().ends_with(CONTENT);
    let has_dots = |path: &str| path.split('/').any(|part| part == "..");
    let (message, fix) = match item.parse() {
        _ if text.trim().is_empty() => ("the list is empty".to_owned(), None),
        _ if item.is_empty() => ("a check is missing between two commas or at the end".to_owned(), None),
        Ok(Check::File { path, .. } | Check::Unix(path) | Check::Mount(path)) if has_dots(&path) => {
            (format!("the path of {} contains ..", quoted(item)), None)
        }
        Ok(Check::File { path, .. } | Check::Unix(path) | Check::Mount(path)) if has_suffix(&path) => {
            let what = format!("{}: +content must be in lowercase, and works only with file://", quoted(item));
            let (bare, end) = (&path[..path.len() - CONTENT.len()], item.len() - CONTENT.len());
            let is_file = item.starts_with("file:");
            let right = if is_file { format!("file://{bare}{CONTENT}") } else { item[..end].to_owned() };
            (what, Some(format!("write {right}")))
        }
        Ok(Check::Mount(path)) if mounts.has_mount(&path) => {
            let what = format!("{} always passes, because {path} is the directory of a volume", quoted(item));
            (what, Some(format!("write {}/mnt", item.trim_end_matches('/'))))
        }
        Ok(Check::Mount(path)) if matches!(path.trim_end_matches('/'), "" | "/dev" | "/proc" | "/sys") => {
            (format!("{} always passes, because {path} is a mount point in every container", quoted(item)), None)
        }
        Ok(Check::File { path, needs_content: true }) if path.ends_with('/') || mounts.has_directory_mount(&path) => {
            let what = format!("{} never passes, because {path} is a directory", quoted(item));
            (what, Some(format!("write file://{}/ready{CONTENT}", path.trim_end_matches('/'))))
        }
        Ok(Check::File { path, needs_content: false }) if mounts.has_mount(&path) => {
            let what = format!("{} always passes, because a volume is mounted at {path}", quoted(item));
            (what, Some(format!("write file://{}/ready", path.trim_end_matches('/'))))
        }
        Ok(check) => return Ok(check),
        Err(error) => {
            let mut error = error.to_string();
            if item.strip_prefix("exec:").is_some_and(|command| !command.starts_with('[')) {
                error = r#"the command must be a JSON list; write exec:["command","argument"]"#.to_owned();
            }
            // Some errors end with an instruction. Use it as the fix if podgate cannot guess the intended check.
            let end = ["; write ", "; use "].iter().find_map(|mark| error.find(mark)).unwrap_or(error.len());
            let advice = error.get(end + 2..).map(str::to_owned);
            let fix = corrected(item).map(|check| format!("write {check}")).or(advice);
            (format!("{}: {}", quoted(item), &error[..end]), fix)
        }
    };
    Err(SyntaxError { span, message, fix })
}

/// Returns the check that the user probably meant; `None` if podgate cannot guess it.
fn corrected(item: &str) -> Option<Check> {
    if let Some(command) = item.strip_prefix("exec:") {
        // Podgate does not guess the words of a shell command.
        let is_plain = !command.contains(['"', '\'', '[', '$', '|', '&', ';', '<', '>', '\\']);
        let words = command.split_whitespace().map(str::to_owned).collect();
        return Argv::new(words).ok().filter(|_| is_plain).map(Check::Exec);
    }
    let (scheme, rest) = item.split_once(':').unwrap_or(("file", item));
    let known = ["file", "unix", "mount", "http", "tcp"];
    let text = match nearest(scheme, known).filter(|_| rest.starts_with('/') && scheme != "https") {
        Some(near @ ("file" | "unix" | "mount")) => format!("{near}:///{}", rest.trim_start_matches('/')),
        Some(near) => format!("{near}://{}", rest.trim_start_matches('/')),
        None => format!("tcp://{item}"),
    };
    text.parse().ok()
}

/// Advice for an invalid value of `ready.podgate.io/CONTAINER`.
const READY_ADVICE: &str = "write one check, such as unix:///run/app.sock or tcp://127.0.0.1:5432";

/// Returns the reason why `checks` cannot replace a container's probes.
pub(super) fn ready_problem(checks: &[Check], at: &Place) -> Option<Finding> {
    let what = match checks {
        [Check::Tcp { host, .. } | Check::Http { host, .. }] if !is_local(Some(host)) => {
            format!("{} does not check this container, because {host} is another host", checks[0])
        }
        [_, _, ..] => "only one check can replace the probes of a container".to_owned(),
        _ => return None,
    };
    Some(Finding::error("bad-value", at.clone(), what).fix(READY_ADVICE))
}

/// Returns a fix for an error without its own fix: an instruction with an example of a check or of a list of checks.
pub(super) fn general_fix(is_ready: bool) -> &'static str {
    if is_ready { READY_ADVICE } else { "write a list such as file:///certs/tls.crt, tcp://db.shop:5432" }
}
