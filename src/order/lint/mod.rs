//! What there is to say about a template beyond whether its order can be kept: what will surprise, and what is likely a mistake.
//!
//! | module | holds |
//! |---|---|
//! | `context` | what is known beside the manifest |
//! | [`rules`] | every rule that a finding may name |
//! | [`forecast`] | in which order a plan starts and stops, and how long it may wait |
//! | [`native`] | whether native sidecars of Kubernetes' own would do |
//! | `probes` | probes that are missing, need somebody later, or kill who waits |
//! | `surroundings` | node, network, versions, time limits of the workload |
//! | `by_hand` | podgate's commands in a manifest that declares nothing |
//! | `document` | annotations at a place where nobody reads them |

mod by_hand;
mod context;
mod document;
pub mod forecast;
pub mod native;
mod probes;
pub mod rules;
mod surroundings;
#[cfg(test)]
mod tests;

pub use by_hand::by_hand;
pub use context::{Context, Version};
pub use document::misplaced;

use crate::order::declare::spec::Spec;
use crate::order::finding::Finding;
use crate::order::plan::Plan;
use forecast::Forecast;
use native::Advice;
use serde_json::Value;

/// What comes of a template.
#[derive(Debug)]
pub struct Outlook {
    /// All that there is to say about it.
    pub findings: Vec<Finding>,
    /// In which order it starts and stops.
    pub forecast: Forecast,
    /// The native sidecars that would do as well.
    pub native: Option<Advice>,
}

/// What comes of a template (nothing of podgate's in it) whose plan is `plan`.
#[must_use]
pub fn template(template: &Value, plan: &Plan, context: Context<'_>) -> Outlook {
    let (mut findings, forecast) = (Vec::new(), Forecast::of(plan));
    if plan.containers.iter().all(|planned| !planned.is_touched() && planned.stop_after.is_empty()) {
        return Outlook { findings, forecast, native: None };
    }
    let spec = Spec::read(template, &mut Vec::new());
    probes::check(&spec, plan, &mut findings);
    surroundings::check(&spec, plan, context, forecast.longest, &mut findings);
    let native = native::advice(&spec, plan);
    findings.extend(native.as_ref().map(Advice::finding));
    Outlook { findings, forecast, native }
}
