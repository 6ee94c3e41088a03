//! Explains why the API server rejects the Pod of the dry run.

use podgate::core::text::one_line;
use podgate::order::finding::{Finding, Level};

/// Returns the finding for a Pod that the API server has rejected with this status code and message. If the message does
/// not name podgate, the finding is only a warning, because other Pods may be accepted.
pub(super) fn check_refusal(code: u16, message: &str) -> Finding {
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
    super::finding(level, "pod-rejected", format!("the API server refuses this Pod: {text}"), fix)
}
