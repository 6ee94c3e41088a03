//! Finds injected parts that no longer match the manifest.

use crate::core::container::Container;
use crate::order::declare::keys;
use crate::order::finding::{Finding, Level};
use crate::order::inject::by_hand::{changed_lines, is_added, is_changed};
use crate::order::inject::container_list::{difference, from_sidecar, proofs};
use crate::order::inject::existing::Existing;
use crate::order::inject::merge::covers;
use crate::order::inject::parts;
use crate::order::inject::record::VERSION;
use crate::order::inject::{REWRITTEN_PATH, is_injected};
use serde_json::Value;

/// Compares the injected parts of `template` with those of `new`, the template that `inject` writes now. Returns an
/// error if the user's own parts have changed since the injection. Returns a note if only podgate's version or settings
/// have changed.
///
/// Other webhooks change a Pod in the cluster, and other versions of podgate write other parts. In both cases, only
/// conditions and probes are compared, and not in Pods whose probes Istio has rewritten.
pub fn outdated(template: &Value, new: &Value) -> Option<Finding> {
    let existing = Existing::read(template).ok()??;
    let is_live = template["metadata"]["uid"].is_string();
    let is_exact = !is_live && existing.record.version == VERSION;
    if !is_exact && template["spec"].to_string().contains(REWRITTEN_PATH) {
        return None;
    }
    let is_by_hand = is_changed(template, &existing.record.digest);
    // The settings of the webhook and of earlier calls of `inject` are unknown.
    let counts = |short: &str, flag: &str| match is_exact {
        true => !is_by_hand && !is_added(short, flag) && !flag.starts_with("--log-level "),
        false => flag.starts_with("--ask "),
    };
    let sidecar = existing.sidecar.as_ref();
    let at = sidecar.map_or_else(|| parts::annotation_place(keys::INJECTED), |(at, _)| at.to("env"));
    let lists = sidecar.and_then(|(_, own)| Some((from_sidecar(own)?, from_sidecar(parts::find_sidecar(new)?.1)?)));
    let in_list = lists.and_then(|(old, new)| changed_list(&old, &new, is_exact));
    let changed = in_list.map(|what| (at.clone(), what));
    let changed = changed.or_else(|| changed_lines(template, new, counts).into_iter().next());
    let finding = if !is_injected(new) {
        let what = "the manifest has parts of podgate, but declares no order that needs them";
        Finding::error("injection-outdated", at, what)
    } else if let Some((at, what)) = changed {
        Finding::error("injection-outdated", at, what)
    } else if is_live || is_by_hand || covers(template, new) {
        return None;
    } else {
        let version = &existing.record.version;
        let what = format!(
            "inject of podgate {VERSION} with default settings now writes other parts than podgate {version} has written"
        );
        // Without a sidecar, no setting changes what inject writes.
        let level = if is_exact && sidecar.is_none() { Level::Error } else { Level::Note };
        Finding { level, ..Finding::note("injection-outdated", at, what) }
    };
    Some(finding.fix("run inject on the manifest again"))
}

/// Describes the first difference between two lists of the sidecar.
fn changed_list(old: &[Container], new: &[Container], is_exact: bool) -> Option<String> {
    if is_exact {
        return difference(old, new);
    }
    let pairs = old.iter().filter_map(|listed| {
        let is_same = |wanted: &&Container| (&wanted.name, wanted.mode) == (&listed.name, listed.mode);
        let mut wanted = proofs(new.iter().find(is_same)?);
        wanted.until.retain(|until| old.iter().any(|known| known.name == until.container));
        Some((proofs(listed), wanted))
    });
    let (old, new): (Vec<_>, Vec<_>) = pairs.unzip();
    difference(&old, &new)
}
