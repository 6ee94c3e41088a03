//! Tests of the library, which does no I/O, and of rules for the source that the compiler does not check.

mod annotations;
#[path = "../order/mod.rs"]
mod order;
mod purity;
