//! The keys of the annotations by which an order is declared.

use crate::order::edit::Place;
use serde_json::Value;

/// The whole order: `migrate=Completed, db & cache, api`.
pub const ORDER: &str = "podgate.io/order";
/// How all containers wait: `auto`, `post-start`, `entrypoint`.
pub const MODE: &str = "podgate.io/mode";
/// How long each may wait.
pub const TIMEOUT: &str = "podgate.io/timeout";
/// What a wait does that takes longer: `fail`, `continue`.
pub const ON_TIMEOUT: &str = "podgate.io/on-timeout";
/// Whether a wait that is in vain is given up at once: `true`, `false`.
pub const FAIL_FAST: &str = "podgate.io/fail-fast";
/// The order in which they stop: `reverse`, `none`, or the grammar of [`ORDER`].
pub const STOP_ORDER: &str = "podgate.io/stop-order";
/// In a Job: containers that are ended when all others have.
pub const SIDECARS: &str = "podgate.io/sidecars";
/// Where podgate's own sidecar stands: `native`, `first`.
pub const SIDECAR: &str = "podgate.io/sidecar";
/// Where states are published: `api`, `board`.
pub const PUBLISH: &str = "podgate.io/publish";
/// Written by `inject`.
pub const INJECTED: &str = "podgate.io/injected";
/// A label, by which the webhook selects.
pub const INJECT: &str = "podgate.io/inject";

/// What a container waits for: `after.podgate.io/api: db`.
pub const AFTER_PREFIX: &str = "after.podgate.io/";
/// [`MODE`] of one container.
pub const MODE_PREFIX: &str = "mode.podgate.io/";
/// [`TIMEOUT`] of one container.
pub const TIMEOUT_PREFIX: &str = "timeout.podgate.io/";
/// The command of one container, where the manifest has none: `["/usr/bin/api"]`.
pub const COMMAND_PREFIX: &str = "command.podgate.io/";

/// Every key that speaks of the whole Pod.
pub const POD_KEYS: [&str; 10] =
    [ORDER, MODE, TIMEOUT, ON_TIMEOUT, FAIL_FAST, STOP_ORDER, SIDECARS, SIDECAR, PUBLISH, INJECTED];
/// Every prefix whose rest is a container's name.
pub const CONTAINER_PREFIXES: [&str; 4] = [AFTER_PREFIX, MODE_PREFIX, TIMEOUT_PREFIX, COMMAND_PREFIX];
/// The keys of which one is enough to declare something.
pub(crate) const DECLARING_KEYS: [&str; 3] = [ORDER, STOP_ORDER, SIDECARS];

/// The domain of all of them.
pub(crate) const DOMAIN: &str = "podgate.io";

/// The place of a template's annotation.
#[must_use]
pub fn annotation_place(key: &str) -> Place {
    Place::root().to("metadata").to("annotations").to(key)
}

/// The place of a template's annotation that speaks of one container.
#[must_use]
pub fn container_annotation_place(prefix: &str, container: &str) -> Place {
    annotation_place(&format!("{prefix}{container}"))
}

/// Whether a template declares an order, a stop order or the sidecars of a Job, rightly or wrongly.
#[must_use]
pub fn is_declared(template: &Value) -> bool {
    let annotations = template.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let Some(annotations) = annotations.and_then(Value::as_object) else { return false };
    annotations.keys().any(|key| DECLARING_KEYS.contains(&key.as_str()) || key.starts_with(AFTER_PREFIX))
}
