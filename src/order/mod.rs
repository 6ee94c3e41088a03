//! Reads, plans, writes and checks orders in manifests. Does no I/O, like [`core`](crate::core). `kubectl-podgate` and
//! `podgate-webhook` use it; the agent and the sidecar do not.
//!
//! | module | holds |
//! |---|---|
//! | [`pod_templates`] | finds the Pod templates in a document of any kind |
//! | [`edit`] | changes to a manifest, as values |
//! | [`finding`] | a problem or note about a manifest, with its place and fix |
//! | [`declare`] | reads the annotations of a template |
//! | [`plan`](mod@plan) | works out modes, gates and stop order from them |
//! | [`inject`](mod@inject) | turns the plan into edits of the template, and undoes them |
//! | [`lint`] | finds likely mistakes and surprises |
//! | [`migrate`](mod@migrate) | converts orders of other tools to podgate's annotations |
//! | [`release`] | registry of the images, URL of the sources |
//! | [`admission`] | answers an admission review |

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
