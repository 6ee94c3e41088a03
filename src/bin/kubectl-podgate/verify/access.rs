//! Checks that one of podgate's policies is in the cluster, has a binding, and denies requests; and that a Pod's
//! service account has the permissions that podgate's sidecar needs, and no more. Explains why the API server rejects
//! the Pod of the dry run.

use crate::cluster::Cluster;
use crate::error::CommandResult;
use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::Api;
use podgate::core::text::one_line;
use podgate::order::finding::{Finding, Level};
use podgate::order::plan::bind_role_command;
use serde_json::json;
use std::collections::BTreeSet;

/// Policy that denies Pods with unknown containers: the name of the policy and its binding, and the effect without it.
pub(super) const UNKNOWN_CONTAINERS_POLICY: [&str; 2] =
    ["podgate-unknown-containers", "a Pod whose order names an unknown container starts in no order"];
/// Policy that limits the sidecar's role to the sidecar's own Pod.
pub(super) const OWN_POD_POLICY: [&str; 2] =
    ["podgate-own-pod", "a sidecar with podgate's role may change every Pod of its namespace"];
/// Verbs that the sidecar uses on its own Pod.
const VERBS: [&str; 2] = ["watch", "patch"];

/// Returns an error if the policy `name` or its binding is missing or has no effect.
pub(super) async fn check_policy(cluster: &Cluster, [name, effect]: [&str; 2]) -> CommandResult<Option<Finding>> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(cluster.client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(cluster.client.clone());
    let both = async { tokio::try_join!(policies.get_opt(name), bindings.get_opt(name)) };
    let (policy, binding) = cluster.await_response(both).await?;
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

/// Returns those of [`VERBS`] that the service account has no permission to use on Pods.
pub(super) async fn missing_verbs(
    cluster: &Cluster,
    namespace: &str,
    account: &str,
) -> CommandResult<Vec<&'static str>> {
    let path = format!("/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews");
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let groups = ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
    let mut missing = Vec::new();
    for verb in VERBS {
        let attributes = json!({"namespace": namespace, "verb": verb, "resource": "pods", "version": "v1"});
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": namespace},
            "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
        });
        if cluster.create(&path, false, &review).await?["status"]["allowed"] != true {
            missing.push(verb);
        }
    }
    Ok(missing)
}

/// Returns a finding if the service account lacks RBAC verbs that the sidecar needs (`missing`). The finding is an
/// error if the sidecar then cannot see the conditions `unprovable_conditions` of a plan.
pub(super) fn missing_verbs_finding(
    namespace: &str,
    account: &str,
    missing: &[&str],
    unprovable_conditions: &BTreeSet<String>,
) -> Option<Finding> {
    let lacks =
        format!("the service account {account} in {namespace} lacks permissions for Pods ({})", missing.join(", "));
    let more = if account == "default" { " (add the other namespaces of your installation)" } else { "" };
    let command = bind_role_command(&json!({"serviceAccountName": account})).replace("NAMESPACE", namespace);
    let bind = format!("bind podgate's role to the account: {command}{more}");
    if missing.contains(&"watch") && !unprovable_conditions.is_empty() {
        let unseen = Vec::from_iter(unprovable_conditions.iter().cloned()).join(", ");
        let what = format!("{lacks}, so podgate never sees {unseen}");
        return Some(super::finding(Level::Error, "missing-rbac", what, bind));
    }
    let what = format!("{lacks}: held containers start up to 90 s late, and states are not published");
    let fix = format!("{bind}; or set podgate.io/publish: none");
    (!missing.is_empty()).then(|| super::finding(Level::Warning, "missing-rbac", what, fix))
}

/// Returns the finding for a Pod that the API server has rejected with this status code and message. If the message
/// does not name podgate, the finding is only a warning, because other Pods may be accepted.
pub(super) fn explain_pod_rejection(code: u16, message: &str) -> Finding {
    let text = one_line(message, 1000);
    let has = |part: &str| message.contains(part);
    if matches!(code, 404 | 409 | 429)
        || code >= 500 && !has("webhook")
        || has("cannot create resource")
        || has("does not support dry run")
        || has("error looking up service account")
    {
        let what = format!("cannot create a Pod in a dry run, so the injection was not checked: {text}");
        return super::finding(Level::Note, "dry-run-skipped", what, "");
    }
    let fix = if has("violates PodSecurity") {
        "the Pod of the dry run and podgate's parts meet the level restricted; find the webhook that changes them"
    } else if has("quota") || has(" per Container") || has(" per Pod") {
        "pass another namespace with -n; podgate.io/sidecar-resources sets the resources of podgate's sidecar"
    } else if has("failed calling webhook") {
        "check why that webhook does not answer; until it answers, the API server rejects such Pods"
    } else {
        "find the rule that the message names; let it accept podgate's sidecar, volumes and commands"
    };
    let level = if has("podgate.io") { Level::Error } else { Level::Warning };
    super::finding(level, "pod-rejected", format!("the API server rejects the Pod of the dry run: {text}"), fix)
}
