//! Tests of `podgate::core::restart`.

use podgate::core::restart::{RestartDecision, RestartRule, restart_decision};
use serde_json::json;

/// Each row has the container's policy (or the Pod's), the rules, and the ends by exit code.
#[test]
fn end_is_final_if_the_kubelet_does_not_restart_the_container() {
    use RestartDecision::{Final, Restarts, Unknown};
    let rule = |action: &str, operator: &str, values: &[i32]| {
        let codes = json!({"operator": operator, "values": values});
        json!({"action": action, "exitCodes": codes})
    };
    let (restart, all, other) = ("Restart", "RestartAllContainers", "Terminate");
    let codes = [Some(0), Some(1), Some(42), Some(137), None];
    #[rustfmt::skip]
    let table = [
        (Some("Always"), json!([]), [Restarts; 5]),
        (Some("OnFailure"), json!([]), [Final, Restarts, Restarts, Restarts, Unknown]),
        (Some("Never"), json!([]), [Final, Final, Final, Final, Unknown]),
        (None, json!([]), [Unknown; 5]),
        (Some("Always"), json!([rule(restart, "In", &[42])]), [Restarts; 5]),
        (Some("OnFailure"), json!([rule(restart, "In", &[0])]), [Restarts, Restarts, Restarts, Restarts, Unknown]),
        (Some("Never"), json!([rule(restart, "In", &[42, 137])]), [Final, Final, Restarts, Restarts, Unknown]),
        (Some("Never"), json!([rule(restart, "NotIn", &[0, 42])]), [Final, Restarts, Final, Restarts, Unknown]),
        (Some("Never"), json!([rule(restart, "NotIn", &[])]), [Restarts, Restarts, Restarts, Restarts, Unknown]),
        (Some("Never"), json!([rule(all, "In", &[42])]), [Final, Final, Restarts, Final, Unknown]),
        (None, json!([rule(restart, "In", &[42])]), [Unknown, Unknown, Restarts, Unknown, Unknown]),
        // The kubelet applies the policy if the first rule that applies has another action.
        (Some("Never"), json!([rule(other, "In", &[42]), rule(restart, "NotIn", &[0])]), [Final, Restarts, Final, Restarts, Unknown]),
        (Some("Never"), json!([rule(restart, "In", &[1]), rule(restart, "In", &[42])]), [Final, Restarts, Restarts, Final, Unknown]),
        // A rule without exit codes, or with another operator, applies to nothing.
        (Some("Never"), json!([{"action": restart}, rule(restart, "Exists", &[1])]), [Final, Final, Final, Final, Unknown]),
    ];
    for (policy, rules, ends) in table {
        let list: Vec<RestartRule> = serde_json::from_value(rules.clone()).unwrap();
        assert_eq!(codes.map(|code| restart_decision(policy, &list, code)), ends, "{policy:?} {rules}");
    }
}
