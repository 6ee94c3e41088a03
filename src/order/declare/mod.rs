//! Reads the annotations of a template. Every invalid value becomes a finding.
//!
//! | module | holds |
//! |---|---|
//! | [`keys`] | keys of the annotations |
//! | `key_check` | findings for unknown keys and for keys without effect |
//! | `flow_cut` | detection of lists that YAML cut at a comma |
//! | [`grammar`] | grammar of an order |
//! | `check_list` | lists of checks |
//! | `correct` | lists, with a correction of lists in another syntax |
//! | `declaration` | types for all settings that annotations can declare |
//! | `values` | values of the annotations |
//! | `undeclared` | findings for a template that declares no order |
//! | `reader` | conversion of annotations to a declaration |
//! | [`spec`] | containers in the `spec` of a template |
//! | [`nearest`] | suggestions for mistyped words |

mod check_list;
mod correct;
mod declaration;
mod flow_cut;
pub mod grammar;
mod key_check;
pub mod keys;
pub mod nearest;
mod reader;
pub mod spec;
mod undeclared;
mod values;

pub use correct::parse_list;
pub use declaration::{Declaration, Edge, Publish, RequestedMode, SidecarPlacement, StopOrder};
pub(crate) use key_check::{check_key, concerns_podgate};
pub use keys::{annotation_place, container_annotation_place, is_declared, is_recorded_image};
pub use reader::read_annotations;
pub use undeclared::check_undeclared;
pub(crate) use undeclared::nothing_declared;
