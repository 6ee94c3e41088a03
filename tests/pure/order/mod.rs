//! Tests of `podgate::core` and `podgate::order`. `podgate::order` reads, plans, checks and migrates declared orders,
//! and answers admission reviews.

mod admission;
mod assigned;
mod core;
mod deadlocks;
mod declare;
mod dollars;
mod edit;
mod grammar;
mod handwritten;
mod image_map;
mod limits;
mod lint;
mod migrate;
mod misplaced;
mod near_keys;
mod patch;
mod plain;
mod plan;
mod pod_templates;
mod startup;
mod suggest;
mod words;
