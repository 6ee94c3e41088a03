//! What there is to say about a template beyond whether its order can be kept: what will surprise, and what is likely a mistake.
//!
//! | module | holds |
//! |---|---|
//! | [`rules`] | every rule that a finding may name |
//! | [`forecast`] | in which order a plan starts and stops, and how long it may wait |
//! | [`native`] | whether native sidecars of Kubernetes' own would do |
//! | `probes` | probes that are missing, need somebody later, or kill who waits |
//! | `surroundings` | node, network, versions, time limits of the workload |
//! | `by_hand` | podgate's commands in a manifest that declares nothing |
//! | `document` | annotations at a place where nobody reads them |

mod by_hand;
mod document;
pub mod forecast;
pub mod native;
mod probes;
pub mod rules;
mod surroundings;
#[cfg(test)]
mod tests;

pub use by_hand::by_hand;
pub use document::misplaced;

use crate::order::declare::spec::Spec;
use crate::order::finding::Finding;
use crate::order::plan::Plan;
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// What is known beside the manifest.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The version of Kubernetes that the manifest is for.
    pub kubernetes: Option<Version>,
    /// What holds the template: `spec` of the Deployment, of the Job; `Null` for a bare Pod.
    pub workload: Value,
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

/// All that there is to say about a template (nothing of podgate's in it) whose plan is `plan`.
#[must_use]
pub fn template(template: &Value, plan: &Plan, context: &Context) -> Vec<Finding> {
    let mut findings = Vec::new();
    let spec = Spec::read(template, &mut Vec::new());
    if plan.containers.iter().all(|planned| !planned.is_touched() && planned.stop_after.is_empty()) {
        return findings;
    }
    probes::check(&spec, plan, &mut findings);
    surroundings::check(&spec, plan, context, &mut findings);
    findings.extend(native::advice(&spec, plan).map(|advice| advice.finding()));
    findings
}
