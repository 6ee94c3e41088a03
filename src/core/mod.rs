//! The pure part: functions of values, with no clock, no file, no socket and no environment.
//!
//! | module | holds |
//! |---|---|
//! | [`names`] | every name that two parties share: annotation keys, files, limits |
//! | [`state`] | a container's state, the pod's phase |
//! | [`sandbox`] | which pod sandbox an observation belongs to |
//! | [`annotations`] | the downward-API file format, read and written |
//! | [`snapshot`] | what one source says of the pod |
//! | [`sources`] | which source counts |
//! | [`until`] | `CONTAINER[=STATE]`: what a gate waits for |
//! | [`gate`] | a gate's decision, with its reason |
//! | [`pre_stop`] | a preStop hook's decision |
//! | [`report`] | what a container's agent says of its own container |
//! | [`container`] | what is declared of a container: probes, ports, mode |
//! | [`container_list`] | the list of all containers, and whether they can start in their order |
//! | [`probe`] | probe semantics: intervals, thresholds, delays |
//! | [`evidence`] | which evidence decides a container's state |
//! | [`argv`] | commands and check URLs as users write them |
//! | [`command`] | the agent's command line, as it stands in a container's spec |
//! | [`pod`] | the Pod as the API shows it |
//! | [`text`] | lines for people: errors, and text that must not steer a terminal |
//! | [`times`] | when each container came to what, for people |
//! | [`exit`] | the agent's exit codes |
//! | [`words`] | enums that are written as fixed words |

pub mod annotations;
pub mod argv;
pub mod command;
pub mod container;
pub mod container_list;
pub mod evidence;
pub mod exit;
pub mod gate;
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
