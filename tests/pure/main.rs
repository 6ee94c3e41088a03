//! Tests of the library, which does no I/O, and of rules for the source that the compiler does not check.

mod annotations;
mod called;
#[path = "../common/needs.rs"]
mod needs;
mod order;
mod purity;
