//! Reads, plans, writes and checks orders in manifests. Like [`core`](crate::core), this module does no I/O.
//! `kubectl-podgate` and `podgate-webhook` use this module; the agent and the sidecar do not.

pub mod admission;
pub mod assigned;
pub mod declare;
pub mod dollars;
pub mod edit;
pub mod finding;
pub(crate) mod helpers;
pub mod image_map;
pub mod inject;
pub mod kubernetes_version;
pub mod lint;
pub mod migrate;
pub mod plan;
pub mod pod_templates;
pub mod release;
pub mod resources;
pub mod sidecar_settings;
pub mod suggest;
