//! One Pod, and what is said of it.

mod notes;
mod requirement;
pub(crate) mod shape;
mod since;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod view;

use podgate::core::pod::{PodSpec, PodStatus};

/// The Pod as the API server shows it.
pub(crate) type Pod = kube::core::Object<PodSpec, PodStatus>;
