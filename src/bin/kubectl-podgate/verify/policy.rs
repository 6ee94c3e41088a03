//! Checks that one of podgate's policies is in the cluster, has a binding, and denies requests.

use crate::cluster::{Cluster, ClusterError};
use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::Api;
use podgate::order::finding::{Finding, Level};

/// Policy that denies Pods with unknown containers: the name of the policy and its binding, and the effect without it.
pub(super) const UNKNOWN_CONTAINERS: [&str; 2] =
    ["podgate-unknown-containers", "a Pod whose order names an unknown container starts in no order"];
/// Policy that limits the sidecar's role to the sidecar's own Pod.
pub(super) const OWN_POD: [&str; 2] =
    ["podgate-own-pod", "a sidecar with podgate's role may change every Pod of its namespace"];

/// Returns an error if the policy `name` or its binding is missing or has no effect.
pub(super) async fn check_policy(
    cluster: &Cluster,
    [name, effect]: [&str; 2],
) -> Result<Option<Finding>, ClusterError> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(cluster.client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(cluster.client.clone());
    let both = async { tokio::try_join!(policies.get_opt(name), bindings.get_opt(name)) };
    let (policy, binding) = cluster.wait_for(both).await?;
    let problem = match (&policy, &binding) {
        (None, _) => format!("the cluster does not have the ValidatingAdmissionPolicy {name}"),
        (_, None) => format!("the cluster does not have the ValidatingAdmissionPolicyBinding {name}"),
        (Some(policy), Some(binding)) => match weakness(policy, binding, name) {
            Some(why) => format!("the cluster's policy {name} has no effect, because {why}"),
            None => return Ok(None),
        },
    };
    let fix = "apply the output of kubectl podgate install, or upgrade podgate's Helm chart";
    Ok(Some(super::finding(Level::Error, "missing-policy", format!("{problem}: {effect}"), fix)))
}

/// Returns the reason why a policy may admit requests that it should deny. Does not evaluate the policy's expressions.
fn weakness(
    policy: &ValidatingAdmissionPolicy,
    binding: &ValidatingAdmissionPolicyBinding,
    name: &str,
) -> Option<&'static str> {
    let (policy, binding) = (policy.spec.as_ref(), &binding.spec);
    let validations = policy.and_then(|spec| spec.validations.as_ref()).map_or(0, Vec::len);
    let denies = binding.validation_actions.iter().any(|action| action == "Deny");
    let reasons = [
        (validations == 0, "it has no validations"),
        (policy.is_some_and(|spec| spec.failure_policy.as_deref() == Some("Ignore")), "its failurePolicy is Ignore"),
        (binding.policy_name != name, "its binding names another policy"),
        (!denies, "its binding does not have the action Deny"),
        (policy.and_then(|spec| spec.match_constraints.as_ref()).is_some_and(excludes), "it excludes some objects"),
        (binding.match_resources.as_ref().is_some_and(excludes), "its binding excludes some objects"),
    ];
    reasons.into_iter().find_map(|(holds, why)| holds.then_some(why))
}

/// Returns true if a selector or a rule excludes objects. The API server adds empty selectors, which exclude nothing.
fn excludes(resources: &MatchResources) -> bool {
    let MatchResources { exclude_resource_rules, namespace_selector, object_selector, .. } = resources;
    let selects = |selector: &LabelSelector| selector.match_labels.is_some() || selector.match_expressions.is_some();
    exclude_resource_rules.as_ref().is_some_and(|rules| !rules.is_empty())
        || [namespace_selector, object_selector].into_iter().flatten().any(selects)
}
