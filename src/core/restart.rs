//! The kubelet's decision about a container that has exited: `ContainerShouldRestart` in `pkg/api/v1/pod/util.go` of
//! Kubernetes 1.37.

use serde::{Deserialize, Serialize};

/// Rule of `restartPolicyRules`
/// (<https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#individual-container-restarts>).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartRule {
    /// `Restart`, or `RestartAllContainers`, which restarts this container too.
    pub action: String,
    /// Exit codes that the rule applies to. `None` applies to no exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_codes: Option<ExitCodes>,
}

/// Exit codes of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExitCodes {
    /// `In` or `NotIn`.
    pub operator: String,
    /// List that `operator` refers to.
    pub values: Vec<i32>,
}

/// The kubelet's decision about a container that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// The kubelet will not restart the container.
    Final,
    /// The kubelet will restart the container, possibly after a back-off and an image pull.
    Restarts,
    /// The policy is unknown, or the exit code. Without an exit code, the container may not even have ended.
    Unknown,
}

/// Returns the decision after an end with exit code `code`. `policy` is the container's restart policy, or the Pod's if the
/// container has none. `None` means unknown.
pub fn restart_decision(policy: Option<&str>, rules: &[RestartRule], code: Option<i32>) -> RestartDecision {
    let applies = |rule: &&RestartRule| {
        rule.exit_codes.as_ref().zip(code).is_some_and(|(codes, code)| match codes.operator.as_str() {
            "In" => codes.values.contains(&code),
            "NotIn" => !codes.values.contains(&code),
            _ => false,
        })
    };
    // Only the first rule that applies counts, even if the kubelet does not know its action.
    let action = rules.iter().find(applies).map(|rule| rule.action.as_str());
    match (policy, code) {
        _ if matches!(action, Some("Restart" | "RestartAllContainers")) => RestartDecision::Restarts,
        (None, _) | (Some("Never" | "OnFailure"), None) => RestartDecision::Unknown,
        (Some("Never"), _) | (Some("OnFailure"), Some(0)) => RestartDecision::Final,
        _ => RestartDecision::Restarts,
    }
}
