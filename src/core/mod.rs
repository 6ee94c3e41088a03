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
//! | [`stop`] | a preStop hook's decision |
//! | [`order`] | whether the declared order can be kept at all |
//! | [`report`] | what a container's agent says of its own container |
//! | [`container`] | what is declared of a container: probes, ports, mode |
//! | [`probe`] | probe semantics: intervals, thresholds, delays |
//! | [`authority`] | which evidence decides a container's state |
//! | [`argv`] | commands and check URLs as users write them |
//! | [`agent_line`] | the agent's command line, as it stands in a container's spec |
//! | [`edit`] | changes to a manifest, as values |
//! | [`finding`] | what there is to say about a manifest |
//! | [`declare`] | what a template's annotations declare |
//! | [`kinds`] | where a manifest holds pods |
//! | [`plan`] | what a Pod's annotations ask for, worked out |
//! | [`inject`](mod@inject) | a plan written into a manifest, and taken out again |
//! | [`admission`] | an admission webhook's answer |
//! | [`times`] | when each container came to what, for people |
//! | [`checks`] | what will surprise, and what is likely a mistake |
//! | [`migrate`](mod@migrate) | orders written for something else, as podgate's annotations |
//! | [`exit`] | the agent's exit codes |

pub mod admission;
pub mod agent_line;
pub mod annotations;
pub mod argv;
pub mod authority;
pub mod checks;
pub mod container;
pub mod declare;
pub mod edit;
pub mod exit;
pub mod finding;
pub mod gate;
pub mod inject;
pub mod kinds;
pub mod migrate;
pub mod names;
pub mod order;
pub mod plan;
pub mod probe;
pub mod report;
pub mod sandbox;
pub mod snapshot;
pub mod sources;
pub mod state;
pub mod stop;
pub mod times;
pub mod until;
