//! A mutating admission webhook as a function of values: an AdmissionReview (`admission.k8s.io/v1`) in, one out.
//! <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/>

pub mod patch;

use crate::order::finding::{Finding, Level};
use crate::order::inject::{Injected, is_requested};
use base64::prelude::{BASE64_STANDARD, Engine};
use patch::Operation;
use serde::Deserialize;
use serde_json::{Value, json};

/// What is injected into a Pod, or why nothing can be.
pub type Injector<'a> = &'a dyn Fn(&Value) -> Result<Injected, Vec<Finding>>;

/// Most values (objects, lists and what is in them) that a review may hold: a real Pod has a few thousand. In memory each takes
/// many times the two bytes that it may take in the text.
pub const VALUES_MAX: usize = 250_000;
/// Longest uid that is echoed, in bytes.
const UID_MAX: usize = 256;
/// Longest warning that the API server passes on whole, in bytes.
const WARNING_MAX: usize = 256;
/// Most warnings in one answer: the API server passes on 4 KiB of them.
const WARNINGS_MAX: usize = 12;
/// Longest refusal, in bytes.
const MESSAGE_MAX: usize = 8 * 1024;
/// Longest name that is logged, in bytes: Kubernetes' own limit.
const NAME_MAX: usize = 253;

/// What came of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A patch is in the answer.
    Injected,
    /// It has been injected before, and is as it should be.
    Unchanged,
    /// None of podgate's business: another kind, another operation, no order declared.
    Passed,
    /// An order that can't be kept.
    Refused,
}

impl Outcome {
    /// As it is logged and counted.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Injected => "injected",
            Outcome::Unchanged => "unchanged",
            Outcome::Passed => "passed",
            Outcome::Refused => "refused",
        }
    }
}

/// The answer to a review.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// An AdmissionReview.
    pub body: Value,
    /// What came of it.
    pub outcome: Outcome,
    /// Of the Pod, for the log.
    pub namespace: String,
    /// Of the Pod, for the log; what its name will begin with where the API server is yet to choose the rest.
    pub name: String,
    /// Why it was refused; else empty.
    pub message: String,
}

/// A body that is no review.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an AdmissionReview of admission.k8s.io/v1: {0}")]
pub struct BadReview(pub String);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Review {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Request {
    uid: String,
    kind: Option<GroupVersionKind>,
    sub_resource: Option<String>,
    operation: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    object: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersionKind {
    group: String,
    version: String,
    kind: String,
}

/// Answers the review in `body`.
///
/// # Errors
/// [`BadReview`]: there is no uid that could be answered to.
pub fn answer(body: &[u8], inject: Injector<'_>) -> Result<Answer, BadReview> {
    if count_values(body) > VALUES_MAX {
        return Err(BadReview(format!("more than {VALUES_MAX} values in it")));
    }
    let review: Review = serde_json::from_slice(body).map_err(|error| BadReview(error.to_string()))?;
    if review.kind != "AdmissionReview" || review.api_version != "admission.k8s.io/v1" {
        let what = format!("kind {:?} of {:?}", truncate(&review.kind, 64), truncate(&review.api_version, 64));
        return Err(BadReview(what));
    }
    let request = review.request.ok_or_else(|| BadReview("no request in it".to_owned()))?;
    if request.uid.is_empty() || request.uid.len() > UID_MAX {
        return Err(BadReview(format!("its request.uid must have 1 to {UID_MAX} bytes")));
    }
    Ok(PodRequest::from_request(request).answer(inject))
}

/// How many values the JSON text `body` holds at most: strings are stepped over, nothing is built.
fn count_values(body: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// A request, as far as it is looked at.
struct PodRequest {
    uid: String,
    namespace: String,
    name: String,
    /// The Pod, if it is one that is being made.
    pod: Option<Value>,
}

impl PodRequest {
    fn from_request(request: Request) -> PodRequest {
        let is_pod = request.kind.is_some_and(|k| k.group.is_empty() && k.version == "v1" && k.kind == "Pod")
            && request.sub_resource.unwrap_or_default().is_empty()
            && request.operation.as_deref() == Some("CREATE");
        let object = request.object.unwrap_or_default();
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let namespace = given(request.namespace).unwrap_or_else(|| text("namespace"));
        let name = given(request.name).or(given(Some(text("name")))).unwrap_or_else(|| text("generateName"));
        PodRequest {
            uid: request.uid,
            namespace: truncate(&namespace, NAME_MAX).to_owned(),
            name: truncate(&name, NAME_MAX).to_owned(),
            pod: (is_pod && object.is_object()).then_some(object),
        }
    }

    fn answer(self, inject: Injector<'_>) -> Answer {
        let Some(pod) = &self.pod else { return self.allow(Outcome::Passed, &[], None) };
        let metadata = &pod["metadata"];
        let label = metadata["labels"]["podgate.io/inject"].as_str();
        // The API's image of a Pod that the kubelet has from a file: it can't be another one than that.
        let is_mirror = metadata["annotations"].get("kubernetes.io/config.mirror").is_some();
        if label == Some("disabled") || is_mirror {
            return self.allow(Outcome::Passed, &[], None);
        }
        if !is_requested(pod) {
            return self.allow(Outcome::Passed, &[], None);
        }
        match inject(pod) {
            Err(findings) => self.refuse(&findings),
            Ok(injected) => {
                let told = injected.findings.iter().filter(|finding| finding.level >= Level::Warning);
                let warnings: Vec<String> = told.map(Finding::to_string).collect();
                if injected.edits.is_empty() {
                    return self.allow(Outcome::Unchanged, &warnings, None);
                }
                let patch = patch::json_patch(pod, &injected.edits);
                self.allow(Outcome::Injected, &warnings, Some(&patch))
            }
        }
    }

    fn allow(&self, outcome: Outcome, warnings: &[String], patch: Option<&[Operation<'_>]>) -> Answer {
        let mut response = json!({"uid": self.uid, "allowed": true});
        if let Some(patch) = patch {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = BASE64_STANDARD.encode(serde_json::to_vec(patch).unwrap_or_default()).into();
        }
        if outcome != Outcome::Passed {
            response["auditAnnotations"] = json!({"outcome": outcome.as_str()});
        }
        if !warnings.is_empty() {
            response["warnings"] = warning_lines(warnings).into();
        }
        self.build_answer(response, outcome, String::new())
    }

    fn refuse(&self, findings: &[Finding]) -> Answer {
        let is_error = |finding: &&Finding| finding.level == Level::Error;
        let mut errors: Vec<String> = findings.iter().filter(is_error).map(Finding::to_string).collect();
        if errors.is_empty() {
            errors.push("podgate can't inject, and does not say why: this is a fault of podgate".to_owned());
        }
        let message = truncate(&errors.join("\n"), MESSAGE_MAX).to_owned();
        let response = json!({
            "uid": self.uid,
            "allowed": false,
            "status": {"status": "Failure", "code": 422, "reason": "Invalid", "message": message},
            "auditAnnotations": {"outcome": Outcome::Refused.as_str()},
        });
        self.build_answer(response, Outcome::Refused, message)
    }

    fn build_answer(&self, response: Value, outcome: Outcome, message: String) -> Answer {
        Answer {
            body: json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
            outcome,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            message,
        }
    }
}

/// The warnings as lines of kubectl's, which prints `Warning: ` and then each.
fn warning_lines(warnings: &[String]) -> Vec<String> {
    let line = |text: &String| {
        let line = format!("podgate: {}", text.replace(char::is_control, " "));
        if line.len() > WARNING_MAX { format!("{}…", truncate(&line, WARNING_MAX - "…".len())) } else { line }
    };
    let mut lines: Vec<String> = warnings.iter().take(WARNINGS_MAX).map(line).collect();
    if warnings.len() > WARNINGS_MAX {
        let more = warnings.len() - WARNINGS_MAX;
        lines.push(format!("podgate: and {more} more; `kubectl podgate check` shows them"));
    }
    lines
}

/// At most `max` bytes of `text`.
fn truncate(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests;
