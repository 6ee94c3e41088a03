//! Determines each container's state from all evidence. No I/O, so tests only pass values.
//!
//! | module | holds |
//! |---|---|
//! | [`pod`] | the Pod: every container's track, and the snapshot that is published |
//! | [`track`] | the evidence for one container |
//! | [`ready_filter`] | filters the kubelet's `ready` status |
//! | [`shutdown`] | how long the sidecar keeps running after SIGTERM |
//! | [`milestones`] | when each container reached which state |

pub(crate) mod milestones;
pub(crate) mod pod;
pub(crate) mod ready_filter;
pub(crate) mod shutdown;
pub(crate) mod track;
