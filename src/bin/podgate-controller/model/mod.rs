//! The sidecar's judgment: what each container has come to, by all evidence. No I/O; tested as values.
//!
//! | module | holds |
//! |---|---|
//! | [`pod`] | the Pod: every container's track, and the snapshot that is published |
//! | [`track`] | one container's evidence |
//! | [`ready_filter`] | when the kubelet's `ready` can be trusted |
//! | [`shutdown`] | how long the sidecar outlives SIGTERM |
//! | [`milestones`] | when each container reached which state |

pub(crate) mod milestones;
pub(crate) mod pod;
pub(crate) mod ready_filter;
pub(crate) mod shutdown;
pub(crate) mod track;
