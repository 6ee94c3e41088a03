//! Keys of the annotations that declare an order.

use crate::order::edit::Place;
use serde_json::Value;

/// Declares keys, and a list of all of them.
macro_rules! keys {
    ($(#[$about:meta])* $list:ident: $($(#[$doc:meta])* pub const $name:ident: &str = $key:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $key;)*
        $(#[$about])* pub const $list: [&str; [$($key),*].len()] = [$($key),*];
    };
}

keys! {
    /// Keys that apply to the whole Pod.
    POD_KEYS:
    /// Start order of the Pod, such as `migrate=Completed, db & cache, api`.
    pub const ORDER: &str = "podgate.io/order";
    /// Mode of all containers: `auto`, `entrypoint`, `hold` or `post-start`.
    pub const MODE: &str = "podgate.io/mode";
    /// Time limit for each wait, such as `5m`.
    pub const TIMEOUT: &str = "podgate.io/timeout";
    /// Action when a wait times out: `fail` or `continue`.
    pub const ON_TIMEOUT: &str = "podgate.io/on-timeout";
    /// With `true`, a wait fails once a required container exits for good, is in back-off or cannot pull its image.
    pub const FAIL_FAST: &str = "podgate.io/fail-fast";
    /// Action on a container when one of its dependencies restarts: `restart` or `ignore`.
    pub const ON_DEPENDENCY_RESTART: &str = "podgate.io/on-dependency-restart";
    /// Stop order: `reverse`, `none`, or a list in the grammar of the annotation [`ORDER`].
    pub const STOP_ORDER: &str = "podgate.io/stop-order";
    /// Containers of a Job that podgate stops when all other containers have exited.
    pub const JOB_SIDECARS: &str = "podgate.io/job-sidecars";
    /// Requests and limits of podgate's sidecar, such as `requests.cpu=10m, limits.memory=32Mi`.
    pub const SIDECAR_RESOURCES: &str = "podgate.io/sidecar-resources";
    /// Log, metrics and probes of podgate's sidecar, such as `log=debug, metrics=9090`.
    pub const SIDECAR_SETTINGS: &str = "podgate.io/sidecar-settings";
    /// Use of podgate's sidecar: `always`, `auto` or `none`.
    pub const SIDECAR: &str = "podgate.io/sidecar";
    /// Target for published states: `api` or `none`.
    pub const PUBLISH_TARGET: &str = "podgate.io/publish";
    /// Record that `inject` writes and `uninject` reads.
    pub const INJECTION_RECORD: &str = "podgate.io/injected";
}
keys! {
    /// Prefixes of keys that apply to one container. The container's name follows the prefix.
    CONTAINER_PREFIXES:
    /// Containers that one container waits for: `after.podgate.io/api: db`.
    pub const AFTER_PREFIX: &str = "after.podgate.io/";
    /// Mode of one container, with the values of the annotation [`MODE`].
    pub const MODE_PREFIX: &str = "mode.podgate.io/";
    /// Time limit for the wait of one container, with the values of the annotation [`TIMEOUT`].
    pub const TIMEOUT_PREFIX: &str = "timeout.podgate.io/";
    /// Command of one container, if the container's spec has no command: `["/usr/bin/api"]`.
    pub const COMMAND_PREFIX: &str = "command.podgate.io/";
    /// Checks that one container waits for, besides other containers: `check.podgate.io/api: tcp://db.shop:5432`.
    pub const CHECK_PREFIX: &str = "check.podgate.io/";
    /// Check that replaces the probes of one container as podgate's evidence that the container is Ready.
    pub const READY_PREFIX: &str = "ready.podgate.io/";
    /// Request by which the sidecar makes one container of a Job exit: `POST http://127.0.0.1:15020/quitquitquit`.
    pub const QUIT_PREFIX: &str = "quit.podgate.io/";
    /// Action when the wait of one container times out, with the values of the annotation [`ON_TIMEOUT`].
    pub const ON_TIMEOUT_PREFIX: &str = "on-timeout.podgate.io/";
    /// Fail-fast for the wait of one container, with the values of the annotation [`FAIL_FAST`].
    pub const FAIL_FAST_PREFIX: &str = "fail-fast.podgate.io/";
    /// Action on one container when a dependency restarts, with the values of the annotation [`ON_DEPENDENCY_RESTART`].
    pub const ON_DEPENDENCY_RESTART_PREFIX: &str = "on-dependency-restart.podgate.io/";
}

/// Findings that the webhook writes on a Pod with unknown containers. A policy denies such a Pod. If a later webhook
/// adds the containers, the next call of podgate's webhook removes the annotation.
pub const UNKNOWN_CONTAINER_FINDINGS: &str = "podgate.io/unknown-containers";
/// Label of a Pod. The value `disabled` excludes the Pod from injection. The value `enabled` declares no order.
pub const INJECT_LABEL: &str = "podgate.io/inject";

/// Domain of the keys for the whole Pod. Keys for one container use subdomains.
pub(crate) const DOMAIN: &str = "podgate.io";

/// Returns the place of the annotation `key` in a template.
pub fn annotation_place(key: &str) -> Place {
    Place::metadata("annotations").to(key)
}

/// Returns the place of the annotation for one container, with the key prefix `prefix`.
pub fn container_annotation_place(prefix: &str, container: &str) -> Place {
    annotation_place(&format!("{prefix}{container}"))
}

/// Returns true if podgate reads the annotation `key` in a manifest.
pub fn is_manifest_annotation(key: &str) -> bool {
    POD_KEYS.contains(&key) || CONTAINER_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Returns true if the annotation `key` declares an order. The other keys only adjust a declared order.
pub fn declares_order(key: &str) -> bool {
    matches!(key, ORDER | STOP_ORDER | JOB_SIDECARS)
        || [AFTER_PREFIX, CHECK_PREFIX, QUIT_PREFIX].iter().any(|prefix| key.starts_with(prefix))
}

/// Returns true if a template has an annotation that declares an order, even with an invalid value.
pub fn is_declared(template: &Value) -> bool {
    let annotations = template["metadata"]["annotations"].as_object();
    annotations.is_some_and(|annotations| annotations.keys().any(|key| declares_order(key)))
}
