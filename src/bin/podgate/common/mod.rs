//! Code that several commands share: the wait and its messages. `podgate::core::gate::decide` makes the decision.

pub(crate) mod hook_command;
pub(crate) mod messenger;
pub(crate) mod report;
pub(crate) mod wait;
