//! Reads what a template's annotations declare: every bad value is a finding, with its place and how to mend it.
//!
//! | module | holds |
//! |---|---|
//! | [`keys`] | the annotations' keys |
//! | [`grammar`] | the grammar of an order |
//! | `declared` | what can be declared, as types |
//! | [`spec`] | the containers that the annotations speak of |
//! | [`nearest`] | what a mistyped word may have meant |

mod declared;
pub mod grammar;
pub mod keys;
pub mod nearest;
mod read;
pub mod spec;
#[cfg(test)]
mod tests;

pub use declared::{Declared, Edge, Publish, Sidecar, Stop, TIMEOUT, Wish};
pub use keys::{annotation, annotation_of, is_declared};
pub(crate) use read::both;
pub use read::read;
