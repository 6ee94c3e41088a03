//! A failure of one of podgate's commands.

use podgate::core::exit::Exit;
use std::fmt::Display;

/// Why a command of podgate's fails: its exit code, and what to say.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) u8, pub(crate) String);

impl Failure {
    pub(crate) fn new(exit: Exit, why: impl Into<String>) -> Failure {
        Failure(exit.code(), why.into())
    }

    /// For `map_err`: `what` can't be done, and the set-up is the reason.
    pub(crate) fn setup_error<E: Display>(what: &str) -> impl FnOnce(E) -> Failure {
        move |error| Failure::new(Exit::BadSetup, format!("{what}: {error}"))
    }

    /// A signal has ended the container before its command ran.
    pub(crate) fn by_signal(number: i32, when: &str) -> Failure {
        Failure(u8::try_from(128 + number).unwrap_or(Exit::Terminated.code()), format!("ended by {when}"))
    }
}
