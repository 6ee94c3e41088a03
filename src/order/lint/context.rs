//! Context of a check: Kubernetes version and workload.

use crate::order::kubernetes_version::Version;
use serde_json::Value;

/// Facts that a check needs but the template does not contain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// Version of Kubernetes for which the manifest is checked; `None` skips the checks of the version.
    pub kubernetes: Option<Version>,
    /// The `spec` that contains the template, such as that of a Deployment or Job; `None` for a bare Pod.
    pub workload: Option<&'a Value>,
}
