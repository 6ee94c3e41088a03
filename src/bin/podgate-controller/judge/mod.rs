//! The sidecar's judgment: what each container has come to, by all evidence. No I/O; tested as values.
//!
//! | module | holds |
//! |---|---|
//! | [`world`] | the Pod: every container's track, and the snapshot that is published |
//! | [`track`] | one container's evidence |
//! | [`vet`] | when the kubelet's `ready` can be trusted |
//! | [`staying`] | how long the sidecar outlives SIGTERM |
//! | [`timekeeper`] | when each container reached which state |

pub(crate) mod staying;
pub(crate) mod timekeeper;
pub(crate) mod track;
pub(crate) mod vet;
pub(crate) mod world;
