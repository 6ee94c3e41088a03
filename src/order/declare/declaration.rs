//! Types for all settings that the annotations of a template can declare.

use super::grammar::ContainerItem;
use super::ready::ReadyCheck;
use crate::core::argv::Check;
use crate::core::until::WaitCondition;
use crate::core::words::words;
use crate::order::edit::Place;
use crate::order::sidecar_settings::SidecarSettings;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

words! {
    /// Mode that an annotation requests.
    #[derive(Default)]
    RequestedMode {
        /// A gate in front of the command if the command is known, otherwise a gate at the kubelet.
        #[default]
        Auto = "auto",
        /// A gate in front of the container's command.
        Entrypoint = "entrypoint",
        /// A gate at the kubelet, which does not create the container until the gate opens.
        Hold = "hold",
        /// Hooks in the containers before this one.
        PostStart = "post-start",
    }
}

/// Declared wait of one container for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Container that waits.
    pub waiter: String,
    /// Container and state that the waiter waits for.
    pub until: WaitCondition,
    /// Place of the annotation that declares the wait.
    pub at: Place,
    /// Byte range of the condition in the annotation's text.
    pub span: Range<usize>,
    /// True unless the order has another step between the two containers.
    pub is_direct: bool,
}

/// Order in which containers stop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StopOrder {
    /// All containers stop at once.
    #[default]
    None,
    /// The reverse of the start order.
    Reverse,
    /// Step by step: the containers of a step stop when all containers of the previous step have exited.
    Steps(Vec<Vec<ContainerItem>>),
}

words! {
    /// Target to which the sidecar publishes states.
    #[derive(Default)]
    Publish {
        /// The board, then the Pod's annotations through the API server.
        #[default]
        Api = "api",
        /// The board alone. The sidecar then has no token and makes no API requests.
        None = "none",
    }
}

words! {
    /// Use of podgate's sidecar.
    #[derive(Default)]
    SidecarUse {
        /// The Pod has a sidecar.
        #[default]
        Always = "always",
        /// The Pod has a sidecar only if its order needs one.
        Auto = "auto",
        /// The Pod has no sidecar. An order that needs one is an error.
        None = "none",
    }
}

/// A setting with a value for the whole Pod, and values for single containers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerContainerSetting<T> {
    /// Value for the whole Pod, such as the value of `podgate.io/timeout`.
    pub pod: T,
    /// Values for single containers, such as the value of `timeout.podgate.io/api`, by container.
    pub own: BTreeMap<String, T>,
}

impl<T: Copy> PerContainerSetting<T> {
    /// Returns the value for the container `name`. The container's own value overrides the Pod's value.
    pub fn of(&self, name: &str) -> T {
        *self.own.get(name).unwrap_or(&self.pod)
    }

    /// Returns the key of the annotation that sets the value for `name`; `key` is the key for the whole Pod.
    pub(crate) fn key(&self, key: &str, name: &str) -> String {
        match key.split_once('/') {
            Some((domain, word)) if self.own.contains_key(name) => format!("{word}.{domain}/{name}"),
            _ => key.to_owned(),
        }
    }
}

/// All settings that a template's annotations declare.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Declaration {
    /// Waits declared by `podgate.io/order` and all `after.podgate.io/…`.
    pub edges: Vec<Edge>,
    /// Values of `podgate.io/mode` and `mode.podgate.io/…`.
    pub mode: PerContainerSetting<RequestedMode>,
    /// Values of `podgate.io/timeout` and `timeout.podgate.io/…`.
    pub timeout: PerContainerSetting<Duration>,
    /// Values of `podgate.io/on-timeout` and `on-timeout.podgate.io/…`: true for `continue`.
    pub continue_on_timeout: PerContainerSetting<bool>,
    /// Values of `podgate.io/fail-fast` and `fail-fast.podgate.io/…`.
    pub fail_fast: PerContainerSetting<bool>,
    /// Values of `podgate.io/on-dependency-restart` and `on-dependency-restart.podgate.io/…`: true for `restart`.
    pub restart_with_dependency: PerContainerSetting<bool>,
    /// Values of `check.podgate.io/…`, by container.
    pub checks: BTreeMap<String, Vec<Check>>,
    /// Values of `ready.podgate.io/…`, by container.
    pub ready: BTreeMap<String, ReadyCheck>,
    /// Values of `quit.podgate.io/…`, by container.
    pub quits: BTreeMap<String, String>,
    /// Values of `command.podgate.io/…`, by container.
    pub commands: BTreeMap<String, Vec<String>>,
    /// Keys of the annotations for single containers, except `after`, `check` and `quit` annotations.
    pub settings: Vec<String>,
    /// Value of `podgate.io/stop-order`.
    pub stop_order: StopOrder,
    /// Containers in `podgate.io/job-sidecars`.
    pub job_sidecars: Vec<ContainerItem>,
    /// Value of `podgate.io/sidecar-resources`, as the container field `resources`.
    pub sidecar_resources: Option<Value>,
    /// Value of `podgate.io/sidecar-settings`.
    pub sidecar_settings: SidecarSettings,
    /// Value of `podgate.io/sidecar`.
    pub sidecar: Option<SidecarUse>,
    /// Value of `podgate.io/publish`.
    pub publish: Option<Publish>,
}
