//! The sidecar's inputs: the containers' directories, and the Pod from the API.

pub(crate) mod directories;
pub(crate) mod pod_facts;
pub(crate) mod report_file;
