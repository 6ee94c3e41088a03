//! Limits on the size of the injected parts of a template. A forged Pod therefore cannot overload the webhook.

use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::parts;
use serde_json::Value;

/// Maximum length of an environment variable's value, in bytes. Linux allows 128 KiB for name and value together.
pub(super) const VARIABLE_MAX: usize = (128 << 10) - 32;
/// Maximum number of podgate's volumes in a Pod, and of podgate's mounts in a container.
const OWN_VOLUMES_MAX: usize = 16;

/// Checks the number of the injected parts of a template. `Record::read` has already checked the size of the template.
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
    for (at, item) in list.items(template).iter().enumerate() {
        if ["volumeMounts", "env"].iter().any(|field| too_many(&Place::root().to(*field), item)) {
            return forged(&list.to(at), "the container has too many podgate volume mounts or variables");
        }
    }
    Ok(())
}
