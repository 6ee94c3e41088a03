//! Finds changes that a person made to injected parts. The next injection keeps added flags and overwrites the rest.

use crate::core::command::AgentCommand;
use crate::core::sandbox::fnv1a;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::merge::covers;
use crate::order::inject::parts::{self, FIELD_SUBCOMMANDS, field_place};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Flags that `inject` writes. A flag with a field's name in front, such as `preStop--grace`, belongs only to that
/// field. A person has added all other flags in a command line.
const WRITTEN: &str = "--container --ask --until --check --check-timeout --wait --timeout --on-timeout --fail-fast \
    --tether --ready-check --fallback-check --restart-with --stop-after --stop-signal --log-level --termination-log --then \
    --then-timeout --initial-delay --passing-for readinessProbe--limit startupProbe--or-waiting startupProbe--sidecar-check \
    startupProbe--check-delay startupProbe--check-period startupProbe--failure-threshold preStop--grace preStop--log-to";

/// Returns true if `inject` never writes `flag` into the field `short`. `flag` may include a value.
pub(super) fn is_added_by_hand(short: &str, flag: &str) -> bool {
    let flag = flag.split(' ').next();
    WRITTEN.split(' ').all(|own| Some(own) != flag && own.strip_prefix(short) != flag)
}

/// Returns the words of the agent's command line in the field `short`, from the agent's path to the `--`.
fn agent_words(container: &Value, short: &str) -> Option<Vec<String>> {
    if short == "command" {
        let (field, end) = parts::find_gate_separator(container)?;
        return Some(parts::string_list(container.get(field))?.drain(..end).collect());
    }
    let own = parts::agent_line(container, short)?;
    let mut words = parts::exec_words(field_place(&Place::root(), short).of(container))?;
    words.truncate(own.end.unwrap_or(words.len()));
    Some(words.split_off(own.prefix))
}

/// Maps each container and field with a command line of the agent to the field's place and the flags, with values.
pub(super) fn agent_flags(template: &Value) -> BTreeMap<(&str, &'static str), (Place, Vec<String>)> {
    let list = Place::spec("containers");
    let mut found = BTreeMap::new();
    for (at, item) in list.items(template).iter().enumerate() {
        for (short, _) in FIELD_SUBCOMMANDS {
            let line = agent_words(item, short).and_then(|words| AgentCommand::parse(&words));
            let (Some(name), Some(line)) = (parts::item_name(item), line) else { continue };
            let with_value = |(flag, value): (String, Option<String>)| {
                flag + &value.map(|value| format!(" {value}")).unwrap_or_default()
            };
            let flags = line.flags.into_iter().map(with_value).collect();
            found.insert((name, short), (field_place(&list.to(at), short), flags));
        }
    }
    found
}

/// Returns the words of the command line `new` for the field `short`. Keeps the flags that a person has added to this
/// field of `found`, the container before this injection. If nothing else has changed, returns the words of `found`.
pub(super) fn with_added_flags(mut new: AgentCommand, found: Option<&Value>, short: &str) -> Vec<String> {
    let Some(words) = found.and_then(|container| agent_words(container, short)) else { return new.to_argv() };
    let line = AgentCommand::parse(&words).filter(|line| line.subcommand == new.subcommand);
    let flags = line.into_iter().flat_map(|line| line.flags);
    let (added, written): (Vec<_>, Vec<_>) = flags.partition(|(flag, _)| is_added_by_hand(short, flag));
    if !added.is_empty() && written == new.flags {
        return words;
    }
    new.flags.extend(added);
    new.to_argv()
}

/// Returns a digest of the injected parts, without flags that a person has added.
pub(super) fn injected_parts_digest(template: &Value) -> String {
    let mut lines = agent_flags(template);
    lines.iter_mut().for_each(|((_, short), (_, flags))| flags.retain(|flag| !is_added_by_hand(short, flag)));
    let lines: Vec<_> = lines.iter().map(|(key, (_, flags))| (key, flags)).collect();
    let sidecar = parts::find_sidecar(template)
        .map(|(_, own)| [&own["resources"], &own["securityContext"], &own["env"][0]["value"]]);
    let mut parts = json!([lines, sidecar]);
    parts.sort_all_objects(); // as the API server returns them
    // FNV-1a, so that all versions compute the same digest.
    format!("{:08x}", fnv1a(parts.to_string().as_bytes()))
}

/// Describes each command line of the agent in which `found` and `new`, the next injection, differ by flags for which
/// `counts` returns true. `counts` takes the field and the flag.
pub(super) fn changed_lines(found: &Value, new: &Value, counts: impl Fn(&str, &str) -> bool) -> Vec<(Place, String)> {
    let (mut changed, mut new_lines) = (Vec::new(), agent_flags(new));
    for ((name, short), (at, before)) in agent_flags(found) {
        let (_, after) = new_lines.remove(&(name, short)).unwrap_or_default();
        let missing = |from: &[String], other: &[String]| {
            let missing = from.iter().filter(|flag| !other.contains(flag) && counts(short, flag));
            let text = missing.map(String::as_str).collect::<Vec<_>>().join(" ");
            if text.is_empty() { "nothing".to_owned() } else { text }
        };
        let (lost, written) = (missing(&before, &after), missing(&after, &before));
        if lost != written {
            let part = if short == "command" { "gate" } else { short };
            changed.push((at, format!("inject writes {written} in place of {lost} in podgate's {part} of {name}")));
        }
    }
    changed
}

/// Returns true if a person has changed the injected parts of `template` since the injection with this digest.
pub(super) fn is_changed(template: &Value, recorded: &str) -> bool {
    !recorded.is_empty() && recorded != injected_parts_digest(template)
}

/// Returns warnings about parts of the injected template `found` that a person has changed. Omits changes that `new`,
/// the next injection, keeps. `recorded` is the digest of the previous injection.
pub(super) fn undone_changes(found: &Value, new: &Value, recorded: &str) -> Vec<Finding> {
    // The API server, webhooks and the settings of the chart change a live Pod.
    let is_changed = found["metadata"]["uid"].is_null() && is_changed(found, recorded);
    let warning = |at: Place, what: String| {
        Finding::warning("injected-changed", at, what).fix("declare the change in podgate's annotations")
    };
    let changed = changed_lines(found, new, |short, flag| is_changed || is_added_by_hand(short, flag));
    let changed = changed.into_iter().map(|(at, what)| warning(at, what + "; the template was changed by hand"));
    let mut findings: Vec<Finding> = changed.collect();
    let (before, after) = (parts::find_sidecar(found), parts::find_sidecar(new));
    let (Some((at, before)), Some((_, after))) = (before, after) else { return findings };
    // The digest does not include the restartPolicy, which a webhook with an old client library drops.
    let fields =
        if is_changed { &["restartPolicy", "resources", "securityContext", "env"][..] } else { &["restartPolicy"] };
    for field in fields.iter().filter(|field| !covers(&before[**field], &after[**field])) {
        let what = format!("inject writes the {field} of podgate's sidecar again; the template was changed by hand");
        findings.push(warning(at.to(*field), what));
    }
    findings
}
