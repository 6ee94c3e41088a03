//! Tests of `podgate::core`, the protocol and decisions that agent and sidecar share.

mod annotations;
mod argv;
mod ask;
mod command;
mod container_list;
mod evidence;
mod gate;
mod names;
mod pod;
mod pre_stop;
mod probe;
mod report;
mod restart;
mod sandbox;
mod snapshot;
mod sources;
mod text;
mod times;
mod until;
