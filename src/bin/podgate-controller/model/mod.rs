//! Determines each container's state from all evidence. The modules do no I/O, so tests pass all evidence as values.

pub(crate) mod hold_gate;
pub(crate) mod milestones;
pub(crate) mod pod;
pub(crate) mod ready_filter;
pub(crate) mod status_trust;
pub(crate) mod track;
