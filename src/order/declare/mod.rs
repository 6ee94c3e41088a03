//! Reads the annotations of a template. Every invalid value becomes a finding.

mod check_list;
mod declaration;
mod flow_cut;
pub mod grammar;
mod key_check;
pub mod keys;
pub mod nearest;
mod reader;
pub mod ready;
pub mod spec;
mod values;

pub use declaration::{Declaration, Edge, Publish, RequestedMode, Setting, SidecarUse, StopOrder};
pub use key_check::check_undeclared;
pub(crate) use key_check::{check_key, concerns_podgate, describes_one_pod, nothing_declared};
pub use keys::{annotation_place, container_annotation_place, is_declared};
pub use reader::read_annotations;
