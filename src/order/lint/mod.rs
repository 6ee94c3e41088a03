//! What there is to say about a template beyond whether its order can be kept: what will surprise, and what is likely a mistake.
//!
//! | module | holds |
//! |---|---|
//! | `context` | what is known beside the manifest |
//! | [`rules`] | every rule that a finding may name |
//! | [`forecast`] | in which order a plan starts and stops, and how long it may wait |
//! | [`native`] | whether native sidecars of Kubernetes' own would do |
//! | `probes` | probes that are missing, need somebody later, or kill who waits |
//! | `environment` | node, network, versions, time limits of the workload |
//! | `handwritten` | podgate's commands in a manifest that declares nothing |
//! | `document` | annotations at a place where nobody reads them |

mod context;
mod document;
mod environment;
pub mod forecast;
mod handwritten;
pub mod native;
mod probes;
pub mod rules;
#[cfg(test)]
mod tests;

pub use context::{Context, Version};
pub use document::misplaced_keys;
pub use handwritten::check_handwritten;

use crate::order::declare::spec::Spec;
use crate::order::finding::Finding;
use crate::order::plan::Plan;
use forecast::Forecast;
use native::NativeAdvice;
use serde_json::Value;

/// What comes of a template.
#[derive(Debug)]
pub struct LintReport {
    /// All that there is to say about it.
    pub findings: Vec<Finding>,
    /// In which order it starts and stops.
    pub forecast: Forecast,
    /// The native sidecars that would do as well.
    pub native_advice: Option<NativeAdvice>,
}

/// What comes of a template (nothing of podgate's in it) whose plan is `plan`.
#[must_use]
pub fn check_template(template: &Value, plan: &Plan, context: Context<'_>) -> LintReport {
    let (mut findings, forecast) = (Vec::new(), Forecast::of(plan));
    if plan.containers.iter().all(|planned| !planned.is_modified() && planned.stop_after.is_empty()) {
        return LintReport { findings, forecast, native_advice: None };
    }
    let spec = Spec::read(template, &mut Vec::new());
    probes::check(&spec, plan, &mut findings);
    environment::check(&spec, plan, context, forecast.longest_wait, &mut findings);
    let native = native::native_advice(&spec, plan);
    findings.extend(native.as_ref().map(NativeAdvice::to_finding));
    LintReport { findings, forecast, native_advice: native }
}
