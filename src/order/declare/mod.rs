//! Reads the annotations of a template. Every invalid value becomes a finding.
//!
//! | module | holds |
//! |---|---|
//! | [`keys`] | keys of the annotations |
//! | [`grammar`] | grammar of an order |
//! | `declaration` | types for all settings that annotations can declare |
//! | `reader` | conversion of annotations to a declaration |
//! | [`spec`] | containers in the `spec` of a template |
//! | [`nearest`] | suggestions for mistyped words |

mod declaration;
pub mod grammar;
pub mod keys;
pub mod nearest;
mod reader;
pub mod spec;
#[cfg(test)]
mod tests;

pub use declaration::{DEFAULT_TIMEOUT, Declaration, Edge, Publish, RequestedMode, SidecarPlacement, StopOrder};
pub use keys::{annotation_place, container_annotation_place, is_declared};
pub(crate) use reader::combine_states;
pub use reader::read_annotations;
