//! The sidecar's inputs: the containers' folders, and the Pod from the API.

pub(crate) mod folders;
pub(crate) mod pod_facts;
mod report_file;
