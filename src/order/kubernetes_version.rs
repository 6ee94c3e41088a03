//! Version of Kubernetes.

use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;

/// Version of Kubernetes without the patch number, such as `1.34`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Major version, so far always 1.
    pub major: u32,
    /// Minor version, such as 34.
    pub minor: u32,
}

impl Version {
    /// First version with hold mode: the kubelet reads environment variables from files
    /// (<https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-via-file/>).
    /// First version with image volumes on by default, too
    /// (<https://kubernetes.io/docs/tasks/configure-pod-container/image-volumes/>).
    pub const FIRST_WITH_HOLD: Version = Version { major: 1, minor: 35 };
}

/// Returns the spec of a Pod with a variable from a file, for a dry run. An API server that cannot hold containers
/// rejects the Pod ([`rejects_env_files`]).
pub fn dry_run_spec_with_env_file() -> Value {
    let from = json!({"fileKeyRef": {"volumeName": "v", "path": "p", "key": "K"}});
    let container = json!({"name": "c", "image": "i", "env": [{"name": "K", "valueFrom": from}]});
    json!({"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]})
}

/// Returns true if `answer` shows that the API server cannot hold containers. Such an API server is older than
/// [`Version::FIRST_WITH_HOLD`], or its feature gate `EnvFiles` is off. The API server drops `fileKeyRef` in both
/// cases, and its answer lists the sources that the API server supports.
pub fn rejects_env_files(answer: &str) -> bool {
    answer.contains(".valueFrom: Invalid value") && !answer.contains("fileKeyRef")
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = String;

    /// Parses `1.34`, `v1.34.2` and the forms of cloud providers: `1.34+`, `v1.34.2-gke.1`.
    ///
    /// # Errors
    /// Returns a message if `text` is not a version, or no test of podgate has run on that version.
    fn from_str(text: &str) -> Result<Version, String> {
        let number = |part: &str| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        let mut parts = text.trim().trim_start_matches('v').split('.');
        match (parts.next().and_then(number), parts.next().and_then(number)) {
            (Some(major), Some(minor)) if (major, minor) < (1, 34) => {
                Err(format!("podgate needs Kubernetes 1.34 or newer, not {major}.{minor}"))
            }
            (Some(major), Some(minor)) => Ok(Version { major, minor }),
            _ => Err("not a version of Kubernetes; write 1.34".to_owned()),
        }
    }
}
