//! Limits on the size of the injected parts of a template. A forged Pod therefore cannot overload the webhook.

use crate::core::container_list::CONTAINERS_MAX;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::parts::{self, AGENT_FIELDS};
use serde_json::Value;

/// Maximum length of an environment variable's value, in bytes. Linux allows 128 KiB for name and value together.
pub(super) const VARIABLE_MAX: usize = (128 << 10) - 32;
/// Maximum number of words that podgate puts before a container's command. A gate needs two words for each `--until`,
/// two for each `--stop-after`, and some for other flags.
const GATE_WORDS_MAX: usize = 5 * CONTAINERS_MAX;
/// Maximum total length of the user's hooks that podgate's hooks contain, in bytes.
const HOOKS_MAX: usize = 256 << 10;
/// Maximum number of podgate's volumes in a Pod, and of podgate's mounts in a container.
const OWN_VOLUMES_MAX: usize = 16;

/// Checks the size of the injected parts of a template. `Record::read` has already checked the size of the template.
pub(super) fn check_parts(template: &Value) -> Result<(), Finding> {
    let forged = |at: &Place, what: &str| {
        let what = format!("the injection cannot be undone: {what}");
        Err(Finding::error("injected-changed", at.clone(), what).fix("use the manifest from before the injection"))
    };
    let too_many = |list: &Place, item: &Value| {
        let own = list.items(item).iter().filter(|item| parts::is_own_item(item));
        own.take(OWN_VOLUMES_MAX + 1).count() > OWN_VOLUMES_MAX
    };
    let volumes = Place::spec("volumes");
    if too_many(&volumes, template) {
        return forged(&volumes, "the Pod has too many podgate volumes");
    }
    let list = Place::spec("containers");
    let mut hooks = 0;
    for (at, item) in list.items(template).iter().enumerate() {
        for (short, _) in AGENT_FIELDS {
            let Some(own) = parts::agent_line(item, short) else { continue };
            hooks += own.line.values("--then").concat().len();
            if own.end.is_some_and(|end| end > GATE_WORDS_MAX) {
                return forged(&parts::field_place(&list.to(at), short), "podgate's command line has too many words");
            }
        }
        if hooks > HOOKS_MAX {
            return forged(&list.to(at), "podgate's hooks are too long");
        }
        if ["volumeMounts", "env"].iter().any(|field| too_many(&Place::root().to(*field), item)) {
            return forged(&list.to(at), "the container has too many podgate volume mounts or variables");
        }
    }
    Ok(())
}
