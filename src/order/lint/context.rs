//! What is known beside the manifest.

use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// What is known beside the manifest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// The version of Kubernetes that the manifest is for.
    pub kubernetes: Option<Version>,
    /// What holds the template: `spec` of the Deployment, of the Job; `None` for a bare Pod.
    pub workload: Option<&'a Value>,
}

/// A version of Kubernetes, as far as it matters: `1.34`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Always 1, so far.
    pub major: u32,
    /// Minor.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = String;

    /// Takes `1.34`, `v1.34.2`, and what providers make of it: `1.34+`, `v1.34.2-gke.1`.
    ///
    /// # Errors
    /// No version, or one that podgate does not support: ValidatingAdmissionPolicy v1, which limits what the sidecar may
    /// write, exists from 1.30.
    fn from_str(text: &str) -> Result<Version, String> {
        let number = |part: &str| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        let mut parts = text.trim().trim_start_matches('v').split('.');
        match (parts.next().and_then(number), parts.next().and_then(number)) {
            (Some(major), Some(minor)) if (major, minor) < (1, 30) => {
                Err(format!("podgate needs Kubernetes 1.30 or newer, not {major}.{minor}"))
            }
            (Some(major), Some(minor)) => Ok(Version { major, minor }),
            _ => Err("no version of Kubernetes; write 1.34".to_owned()),
        }
    }
}
