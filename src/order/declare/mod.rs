//! Reads the annotations of a template. Every invalid value becomes a finding.

mod check_list;
mod declaration;
mod flow_cut;
pub mod grammar;
mod key_check;
pub mod keys;
pub mod limits;
pub mod nearest;
mod reader;
pub mod ready;
pub mod spec;
mod values;

pub use declaration::{Declaration, Edge, PerContainerSetting, Publish, RequestedMode, SidecarUse, StopOrder};
pub(crate) use key_check::{check_key, describes_one_pod, is_or_resembles_podgate_key};
pub use keys::{annotation_place, container_annotation_place, is_declared};
pub(crate) use reader::settings_without_order;
pub use reader::{check_undeclared, read_annotations};
