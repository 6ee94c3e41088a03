//! Checks a template for likely mistakes and unexpected effects, besides errors in the order itself.

mod document;
mod environment;
pub mod forecast;
mod handwritten;
mod hold;
pub mod native;
mod plain;
mod probes;
pub mod rules;
mod shell;
mod startup;

pub use crate::order::kubernetes_version::Version;
pub use document::check_document;
pub use handwritten::check_handwritten;
pub use hold::check_sidecar_position;
pub use plain::check_plain;
pub use startup::check_reversed;

use crate::order::declare::spec::Spec;
use crate::order::finding::{Finding, Level};
use crate::order::inject::{self, Injected};
use crate::order::plan::Plan;
use forecast::Forecast;
use native::NativeSidecar;
use serde_json::Value;

/// Facts that a check needs but the template does not contain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Target<'a> {
    /// Version of Kubernetes for which the manifest is checked; `None` skips the checks of the version.
    pub kubernetes: Option<Version>,
    /// The `spec` that contains the template, such as that of a Deployment or Job; `None` for a bare Pod.
    pub workload: Option<&'a Value>,
}

/// Result of checking a template.
#[derive(Debug)]
pub struct LintReport {
    /// Problems and notes about the template.
    pub findings: Vec<Finding>,
    /// Start order, stop order and longest wait.
    pub forecast: Forecast,
    /// Native sidecars that could replace podgate.
    pub native_advice: Option<Vec<NativeSidecar>>,
}

/// Returns the errors and warnings of [`check_planned`]. `injected` is the injection into `template`.
pub fn strip_and_check(template: &Value, injected: &Injected, target: Target<'_>) -> Vec<Finding> {
    let (Some(plan), Ok(stripped)) = (&injected.plan, inject::strip(template)) else { return Vec::new() };
    let mut findings = check_planned(stripped.plain(), plan, target).findings;
    findings.retain(|finding| finding.level > Level::Note);
    stripped.relocate(findings)
}

/// Checks a template that has no injected parts; `plan` is the plan of that template.
pub fn check_planned(template: &Value, plan: &Plan, target: Target<'_>) -> LintReport {
    let (mut findings, forecast) = (Vec::new(), Forecast::of(plan));
    if plan.containers.iter().all(|planned| !planned.is_modified() && !planned.is_ended_with_job()) {
        return LintReport { findings, forecast, native_advice: None };
    }
    let spec = Spec::read(template, &mut Vec::new());
    probes::check(&spec, plan, &mut findings);
    probes::check_dapr(template, &spec, plan, &mut findings);
    startup::check(template, &spec, plan, target, &mut findings);
    hold::check(template, &spec, plan, target, &mut findings);
    environment::check(&spec, plan, target, forecast.longest_wait, &mut findings);
    let is_safe = environment::startup_defect(&spec, target).is_none();
    let native = native::replacement_sidecars(&spec, plan).filter(|_| is_safe);
    findings.extend(native.as_deref().map(native::advice));
    LintReport { findings, forecast, native_advice: native }
}
