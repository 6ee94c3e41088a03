//! The error type of podgate's commands and of their steps.

use podgate::core::exit::Exit;
use std::fmt::Display;

/// Failure of a command or of one of its steps: exit code and message.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) u8, pub(crate) String);

impl Failure {
    pub(crate) fn new(exit: Exit, why: impl Into<String>) -> Failure {
        Failure(exit.code(), why.into())
    }

    /// Returns a function that converts an error to a failure of the setup, for `map_err`.
    pub(crate) fn setup_error<E: Display>(problem: &str) -> impl FnOnce(E) -> Failure {
        move |error| Failure::new(Exit::BadSetup, format!("{problem}: {error}"))
    }

    /// Creates the failure for a stop signal that arrived before the command ran.
    pub(crate) fn by_signal(number: i32, received: &str) -> Failure {
        Failure(u8::try_from(128 + number).unwrap_or(Exit::Terminated.code()), format!("received {received}"))
    }
}
