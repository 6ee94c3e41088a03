//! The pure part of podgate. Its functions use no clock, file, socket or environment variable.
//!
//! | module | holds |
//! |---|---|
//! | [`names`] | names shared between programs: annotation keys, files, limits |
//! | [`state`] | a container's state and the pod's phase |
//! | [`sandbox`] | identity of the pod sandbox |
//! | [`annotations`] | reader and writer of the downward-API file format |
//! | [`snapshot`] | the pod's state as published by the sidecar |
//! | [`sources`] | choice between the board and the downward-API volume |
//! | [`until`] | `CONTAINER[=STATE]`: a condition of a gate |
//! | [`graph`] | cycles and levels of a graph |
//! | [`gate`] | a gate's decision and its reason |
//! | [`pre_stop`] | a preStop hook's decision |
//! | [`report`] | the agent's report on its own container |
//! | [`container`] | a container's declaration: probes, ports, mode |
//! | [`container_list`] | the list of all containers, and a check of their order |
//! | [`probe`] | probe semantics: intervals, thresholds, delays |
//! | [`evidence`] | precedence of the evidence for a container's state |
//! | [`argv`] | commands and check URLs as users write them |
//! | [`command`] | the agent's command line in a container's spec |
//! | [`pod`] | the Pod as returned by the API |
//! | [`text`] | error chains, and text made safe for a terminal |
//! | [`times`] | timestamps of each container's milestones |
//! | [`defaults`] | default time limits of the agent's flags |
//! | [`exit`] | the agent's exit codes |
//! | [`words`] | enums with a fixed spelling |

pub mod annotations;
pub mod argv;
pub mod command;
pub mod container;
pub mod container_list;
pub mod defaults;
pub mod evidence;
pub mod exit;
pub mod gate;
pub mod graph;
pub mod names;
pub mod pod;
pub mod pre_stop;
pub mod probe;
pub mod report;
pub mod sandbox;
pub mod snapshot;
pub mod sources;
pub mod state;
pub mod text;
pub mod times;
pub mod until;
pub mod words;
