//! The sidecar's error: a line that says what failed and how to fix it.

use podgate::core::text::error_chain;

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) enum Failure {
    /// The API server has denied the request (403), so only a new permission helps.
    Forbidden(String),
    Other(String),
}

impl<T: Into<String>> From<T> for Failure {
    fn from(text: T) -> Failure {
        Failure::Other(text.into())
    }
}

impl Failure {
    pub(crate) fn of_api(error: kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) if status.code == 403 => Failure::Forbidden(format!("403 {}", status.message)),
            kube::Error::Api(status) => Failure::Other(format!("{} {}", status.code, status.message)),
            other => Failure::Other(error_chain(&other)),
        }
    }
}
