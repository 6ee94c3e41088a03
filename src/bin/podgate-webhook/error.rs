//! Error of the webhook.

use podgate::core::text::error_chain;
use std::fmt::Display;

/// Reason why the webhook cannot start, or cannot read or renew a file or a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// Another writer has changed the object, so the caller must read it again.
    #[error("too many conflicts: the Secret or the MutatingWebhookConfiguration changes all the time")]
    Conflict,
    #[error("{0}")]
    Failed(String),
    /// The problem, and the instruction that fixes it.
    #[error("{0}; {1}")]
    Fixable(String, String),
}

impl<T: Into<String>> From<T> for Error {
    fn from(what: T) -> Error {
        Error::Failed(what.into())
    }
}

/// Returns a function that puts `what`, such as `cannot read FILE`, before the messages of an error and its sources.
pub(crate) fn failed<E: std::error::Error>(what: impl Display) -> impl FnOnce(E) -> Error {
    move |error| Error::Failed(format!("{what}: {}", error_chain(&error)))
}
