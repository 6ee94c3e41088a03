//! View of one Pod: the states of the containers and the conditions that they wait for.

mod notes;
pub(crate) mod shape;
pub(crate) mod view;

use podgate::core::pod::{PodSpec, PodStatus};

/// A Pod as the API server returns it.
pub(crate) type Pod = kube::core::Object<PodSpec, PodStatus>;
