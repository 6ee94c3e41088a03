//! Orders in manifests: read, planned, written, checked. Pure, as [`core`](crate::core) is; `kubectl-podgate` and
//! `podgate-webhook` use it, the agent and the sidecar never name it.
//!
//! | module | holds |
//! |---|---|
//! | [`pod_templates`] | the places of Pod templates in a document of any kind |
//! | [`edit`] | changes to a manifest, as values |
//! | [`finding`] | one problem or note about a manifest, with its place and its fix |
//! | [`declare`] | the annotations of a template, read |
//! | [`plan`](mod@plan) | the plan that follows from them: modes, gates, stop order |
//! | [`inject`](mod@inject) | the plan as edits of the template, and the way back |
//! | [`lint`] | likely mistakes and surprises |
//! | [`migrate`](mod@migrate) | orders of other tools, as podgate's annotations |
//! | [`release`] | where images and sources are published |
//! | [`admission`] | the answer of an admission webhook |

pub mod admission;
pub mod declare;
pub mod edit;
pub mod finding;
pub mod inject;
pub mod lint;
pub mod migrate;
pub mod plan;
pub mod pod_templates;
pub mod release;
