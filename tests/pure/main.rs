//! Tests of the decisions that the programs share.

mod pre_stop;
