//! The pure part of podgate. Its functions use no clock, file, socket or environment variable.

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
pub mod proof;
pub mod quit;
pub mod report;
pub mod restart;
pub mod sandbox;
pub mod snapshot;
pub mod sources;
pub mod state;
pub mod text;
pub mod times;
pub mod until;
pub mod words;
