//! Finds injected parts that no longer match the manifest.

use crate::core::container::Container;
use crate::order::declare::keys;
use crate::order::finding::Finding;
use crate::order::inject::by_hand::{agent_flags, changed_lines, is_added_by_hand, is_changed};
use crate::order::inject::container_list::{difference, from_sidecar, start_relevant_fields};
use crate::order::inject::existing::ExistingInjection;
use crate::order::inject::merge::covers;
use crate::order::inject::parts;
use crate::order::inject::record::THIS_VERSION;
use crate::order::inject::{REWRITTEN_PATH_PREFIX, is_injected};
use serde_json::Value;

const FIX: &str = "run inject on the manifest again";

/// Compares the injected parts of `template` with those of `new`, the template that `inject` writes now. Returns an
/// error if the user's own parts have changed since the injection. Returns a note if only podgate's version or settings
/// have changed.
///
/// Other webhooks change a Pod in the cluster, and other versions of podgate write other parts. In both cases, only
/// conditions and probes are compared, and not in Pods whose probes Istio has rewritten.
pub fn outdated(template: &Value, new: &Value) -> Option<Finding> {
    let existing = ExistingInjection::read(template).ok()??;
    let is_live = template["metadata"]["uid"].is_string();
    let is_exact = !is_live && existing.record.version == THIS_VERSION;
    if !is_exact && template["spec"].to_string().contains(REWRITTEN_PATH_PREFIX) {
        return None;
    }
    let is_by_hand = is_changed(template, &existing.record.digest);
    // The settings of the webhook and of earlier calls of `inject` are unknown.
    let counts = |short: &str, flag: &str| match is_exact {
        true => !is_by_hand && !is_added_by_hand(short, flag) && !flag.starts_with("--log-level "),
        false => flag.starts_with("--ask "),
    };
    let (sidecar, wanted) = (existing.sidecar.as_ref(), parts::find_sidecar(new));
    let at = sidecar.map_or_else(|| parts::annotation_place(keys::INJECTION_RECORD), |(at, _)| at.to("env"));
    let sidecars = sidecar.map(|(_, own)| *own).zip(wanted.map(|(_, own)| own));
    let lists = sidecars.and_then(|(own, wanted)| Some((from_sidecar(own)?, from_sidecar(wanted)?)));
    let in_list = lists.and_then(|(old, new)| changed_list(&old, &new, is_exact)).map(|what| (at.clone(), what));
    let in_line = || changed_lines(template, new, counts).into_iter().next();
    let without_line = || {
        let (found, mut wanted) = (agent_flags(template), agent_flags(new).into_keys());
        let (name, _) = wanted.find(|key| is_exact && !found.contains_key(key))?;
        Some((at.clone(), format!("{name} lacks a command of podgate that the manifest now needs")))
    };
    let error = |at, what: String| Finding::error("injection-outdated", at, what);
    let finding = if !is_injected(new) {
        error(at, "the manifest has parts of podgate, but declares no order that needs them".to_owned())
    } else if let Some((at, what)) = in_list.or_else(in_line).or_else(without_line) {
        error(at, what)
    } else {
        let is_same = match sidecars {
            Some((own, wanted)) => covers(own, wanted),
            None => parts::find_image(template) == parts::find_image(new),
        };
        let what = format!(
            "inject of podgate {THIS_VERSION} with default settings now writes other parts than podgate {} has written",
            existing.record.version
        );
        return (!is_live && !is_by_hand && !is_same).then(|| Finding::note("injection-outdated", at, what).fix(FIX));
    };
    Some(finding.fix(FIX))
}

/// Describes the first difference between two lists of the sidecar.
fn changed_list(old: &[Container], new: &[Container], is_exact: bool) -> Option<String> {
    if is_exact {
        return difference(old, new);
    }
    let pairs = old.iter().filter_map(|listed| {
        let is_same = |wanted: &&Container| (&wanted.name, wanted.mode) == (&listed.name, listed.mode);
        let mut wanted = start_relevant_fields(new.iter().find(is_same)?);
        wanted.until.retain(|until| old.iter().any(|known| known.name == until.container));
        Some((start_relevant_fields(listed), wanted))
    });
    let (old, new): (Vec<_>, Vec<_>) = pairs.unzip();
    difference(&old, &new)
}
