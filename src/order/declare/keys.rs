//! Keys of the annotations that declare an order.

use crate::order::edit::Place;
use serde_json::Value;

/// The whole order: `migrate=Completed, db & cache, api`.
pub const ORDER: &str = "podgate.io/order";
/// Mode of all containers: `auto`, `post-start`, `entrypoint`.
pub const MODE: &str = "podgate.io/mode";
/// Time limit for each wait.
pub const TIMEOUT: &str = "podgate.io/timeout";
/// Action after the time limit: `fail`, `continue`.
pub const ON_TIMEOUT: &str = "podgate.io/on-timeout";
/// Give up as soon as a required container exits for good, is in back-off or cannot pull its image: `true`, `false`.
pub const FAIL_FAST: &str = "podgate.io/fail-fast";
/// Stop order: `reverse`, `none`, or a list in the grammar of [`ORDER`].
pub const STOP_ORDER: &str = "podgate.io/stop-order";
/// Containers of a Job that podgate stops when all others have exited.
pub const SIDECARS: &str = "podgate.io/sidecars";
/// Position of podgate's sidecar: `native`, `first`.
pub const SIDECAR: &str = "podgate.io/sidecar";
/// Target for published states: `api`, `board`.
pub const PUBLISH: &str = "podgate.io/publish";
/// Record written by `inject`.
pub const INJECTED: &str = "podgate.io/injected";
/// Label by which the webhook selects Pods.
pub const INJECT: &str = "podgate.io/inject";

/// Containers that one container waits for: `after.podgate.io/api: db`.
pub const AFTER_PREFIX: &str = "after.podgate.io/";
/// [`MODE`] of one container.
pub const MODE_PREFIX: &str = "mode.podgate.io/";
/// [`TIMEOUT`] of one container.
pub const TIMEOUT_PREFIX: &str = "timeout.podgate.io/";
/// Command of one container, if the manifest has none: `["/usr/bin/api"]`.
pub const COMMAND_PREFIX: &str = "command.podgate.io/";

/// Keys that apply to the whole Pod.
pub const POD_KEYS: [&str; 10] =
    [ORDER, MODE, TIMEOUT, ON_TIMEOUT, FAIL_FAST, STOP_ORDER, SIDECARS, SIDECAR, PUBLISH, INJECTED];
/// Prefixes that are followed by a container name.
pub const CONTAINER_PREFIXES: [&str; 4] = [AFTER_PREFIX, MODE_PREFIX, TIMEOUT_PREFIX, COMMAND_PREFIX];
/// Keys that declare an order on their own.
pub(crate) const DECLARING_KEYS: [&str; 3] = [ORDER, STOP_ORDER, SIDECARS];

/// Domain of all keys.
pub(crate) const DOMAIN: &str = "podgate.io";

/// Returns the place of a template's annotation.
#[must_use]
pub fn annotation_place(key: &str) -> Place {
    Place::root().to("metadata").to("annotations").to(key)
}

/// Returns the place of an annotation for one container.
#[must_use]
pub fn container_annotation_place(prefix: &str, container: &str) -> Place {
    annotation_place(&format!("{prefix}{container}"))
}

/// Returns true if a template declares an order, a stop order or the sidecars of a Job, even with invalid values.
#[must_use]
pub fn is_declared(template: &Value) -> bool {
    let annotations = template.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let Some(annotations) = annotations.and_then(Value::as_object) else { return false };
    annotations.keys().any(|key| DECLARING_KEYS.contains(&key.as_str()) || key.starts_with(AFTER_PREFIX))
}
