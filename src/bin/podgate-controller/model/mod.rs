//! Determines each container's state from all evidence. The modules do no I/O, so tests only pass values.
//!
//! | module | content |
//! |---|---|
//! | [`pod`] | the model of the Pod: the track of every container and the published snapshot |
//! | [`track`] | the evidence for one container |
//! | [`hold_gate`] | the gate of a held container, and the requests to the kubelet to create the container |
//! | [`pending_ack`] | the checks before a gate may open |
//! | [`ready_filter`] | a filter for the kubelet's `ready` status |
//! | [`rate_limit`] | limits on what one container can cause |
//! | [`status_trust`] | the decision whether the kubelet's status is current |
//! | [`exit_rule`] | the time of the sidecar's exit |
//! | [`milestones`] | the times at which each container reached each state |

pub(crate) mod exit_rule;
pub(crate) mod hold_gate;
pub(crate) mod milestones;
pub(crate) mod pending_ack;
pub(crate) mod pod;
pub(crate) mod rate_limit;
pub(crate) mod ready_filter;
pub(crate) mod status_trust;
pub(crate) mod track;
