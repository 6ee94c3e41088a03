//! Reads, plans, writes and checks orders in manifests. Like [`core`](crate::core), this module does no I/O.
//! `kubectl-podgate` and `podgate-webhook` use this module; the agent and the sidecar do not.
//!
//! | module | purpose |
//! |---|---|
//! | [`pod_templates`] | finds the Pod templates in a document of any kind |
//! | [`edit`] | types for changes to a manifest |
//! | [`finding`] | problems and notes about a manifest, each with a place and a fix |
//! | [`declare`] | reads the annotations of a template |
//! | [`dollars`] | escapes and expands text for fields in which Kubernetes expands variables |
//! | [`plan`](mod@plan) | works out modes, gates and stop order from the annotations |
//! | [`inject`](mod@inject) | turns the plan into edits of the template; removes injected parts |
//! | [`lint`] | finds likely mistakes and surprises |
//! | [`limits`] | limits on the size of a template |
//! | [`migrate`](mod@migrate) | converts orders of other tools to podgate's annotations |
//! | [`resources`] | requests and limits of the sidecar |
//! | [`kubernetes_version`] | version of Kubernetes |
//! | [`release`] | image registry and source repository of podgate's releases |
//! | [`admission`] | answers an admission review |

pub mod admission;
pub mod declare;
pub mod dollars;
pub mod edit;
pub mod finding;
pub mod inject;
pub mod kubernetes_version;
pub mod limits;
pub mod lint;
pub mod migrate;
pub mod plan;
pub mod pod_templates;
pub mod release;
pub mod resources;
