//! Reads what a template's annotations declare: every bad value is a finding, with its place and how to fix it.
//!
//! | module | holds |
//! |---|---|
//! | [`keys`] | the annotations' keys |
//! | [`grammar`] | the grammar of an order |
//! | `declaration` | what can be declared, as types |
//! | [`spec`] | the containers that the annotations speak of |
//! | [`nearest`] | what a mistyped word may have meant |

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
