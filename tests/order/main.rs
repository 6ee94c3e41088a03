//! Tests of `podgate::order`: reads, plans, checks and migrates declared orders, and answers admission reviews.

mod admission;
mod declare;
mod lint;
mod migrate;
mod misplaced;
mod plan;
