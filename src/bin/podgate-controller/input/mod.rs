//! What the sidecar reads: the containers' folders, and the Pod as the API shows it.

pub(crate) mod folders;
pub(crate) mod pod_facts;
