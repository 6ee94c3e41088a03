//! Answers an AdmissionReview (`admission.k8s.io/v1`) for a mutating admission webhook. Does no I/O.
//! <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/>

use crate::core::words::words;
use crate::order::assigned::{AssignedOrder, AssignedOrders};
use crate::order::declare::limits::count_values;
use crate::order::declare::{annotation_place, check_undeclared, keys};
use crate::order::edit::{Edit, JSON_SIZE_MAX, Op, PathSegment, edits_too_large, json_length};
use crate::order::finding::{Finding, Level, has_errors};
use crate::order::inject::{Injected, inject_label, is_injected, wants_injection};
use crate::order::lint::{self, Target};
use crate::order::pod_templates::templates;
use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Deserialize;
use serde_json::{Value, json};

/// Function that injects into a Pod or Pod template of a namespace, or returns the findings that prevent the injection.
pub type Injector<'a> = &'a dyn Fn(&str, &Value) -> Result<Injected, Vec<Finding>>;

/// Maximum number of JSON values in a review. The maximum limits memory use: a value of two bytes in the text needs
/// many times more memory after parsing. The maximum leaves room for the managed fields of an injected Pod.
pub const JSON_VALUES_MAX: usize = 60_000;
/// Maximum length of a request's uid, in bytes.
const UID_MAX: usize = 256;
/// Maximum length of a warning, in bytes. The API server truncates longer warnings.
const WARNING_MAX: usize = 256;
/// Maximum number of warnings in one answer. The API server forwards at most 4 KiB of warnings.
const WARNINGS_MAX: usize = 12;
/// Maximum length of a denial message, in bytes.
const MESSAGE_MAX: usize = 8 * 1024;
/// Maximum length of the message that a policy reads from an annotation, in bytes. The API server ignores longer ones.
const POLICY_MESSAGE_MAX: usize = 4 * 1024;
/// Maximum length of a logged name, in bytes. Kubernetes has the same limit.
const NAME_MAX: usize = 253;

words! {
    /// Outcome of a review.
    Outcome {
        /// The answer contains a patch.
        Injected = "injected",
        /// The Pod was injected before and needs no change.
        Unchanged = "unchanged",
        /// The Pod lacks containers that its order names. The answer adds an annotation with the findings. A policy
        /// denies the Pod, unless a later webhook adds the containers and the API server calls podgate again.
        Deferred = "deferred",
        /// An order of `--orders` does not fit the Pod. The answer allows the Pod unchanged, with a warning.
        Misfit = "misfit",
        /// The request creates or updates a workload. The answer contains only the findings about its Pod template.
        Checked = "checked",
        /// The request is for another kind or operation, or the Pod declares no order or opts out.
        Passed = "passed",
        /// The Pod is denied, because podgate cannot inject the declared order.
        Refused = "refused",
    }
}

/// Answer to an AdmissionReview.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// AdmissionReview to send to the API server.
    pub body: Value,
    /// Outcome of the review.
    pub outcome: Outcome,
    /// Namespace of the Pod or workload, for the log.
    pub namespace: String,
    /// Name of the object, for the log. Its `generateName` if the API server has not yet chosen a name.
    pub name: String,
    /// Reason for a denial or a deferred decision, or the reason why an order does not fit. Otherwise empty.
    pub message: String,
}

/// Error for a request body that is not a valid AdmissionReview.
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
    sub_resource: String,
    operation: String,
    namespace: String,
    name: String,
    object: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersionKind {
    group: String,
    version: String,
    kind: String,
}

/// Parses the AdmissionReview in `body` and returns the answer to the API server. `orders` are those of Pods that declare
/// none. Fails if `body` is not a review, has too many values, or has no valid uid.
pub fn answer(body: &[u8], inject: Injector<'_>, orders: &AssignedOrders) -> Result<Answer, BadReview> {
    if count_values(body) > JSON_VALUES_MAX {
        return Err(BadReview(format!("more than {JSON_VALUES_MAX} values")));
    }
    let review: Review = serde_json::from_slice(body).map_err(|error| {
        let what = if error.is_data() { "a field has the wrong type" } else { "invalid JSON" };
        BadReview(format!("{what} at line {}, column {}", error.line(), error.column()))
    })?;
    if review.kind != "AdmissionReview" || review.api_version != "admission.k8s.io/v1" {
        let what = format!("kind {:?} of {:?}", truncate(&review.kind, 64), truncate(&review.api_version, 64));
        return Err(BadReview(what));
    }
    let request = review.request.ok_or_else(|| BadReview("request is missing".to_owned()))?;
    if request.uid.is_empty() || request.uid.len() > UID_MAX {
        return Err(BadReview(format!("request.uid must have 1 to {UID_MAX} bytes")));
    }
    Ok(request.answer(inject, orders))
}

impl Request {
    fn answer(&self, inject: Injector<'_>, orders: &AssignedOrders) -> Answer {
        let is_whole = self.sub_resource.is_empty() && self.object.is_object();
        let kind = self.kind.as_ref().filter(|kind| is_whole && kind.version == "v1");
        match (kind.map(|kind| (&*kind.group, &*kind.kind)), &*self.operation) {
            (Some(("", "Pod")), "CREATE") => self.answer_pod(&self.object, inject, orders),
            (Some(("apps" | "batch", _)), "CREATE" | "UPDATE") => self.answer_workload(&self.object, inject),
            _ => self.allow(Outcome::Passed, &[], None),
        }
    }

    /// Checks the Pod template of a workload. Always allows the workload unchanged.
    fn answer_workload(&self, workload: &Value, inject: Injector<'_>) -> Answer {
        let found = templates(workload);
        let Some((at, template)) = found.first().and_then(|at| Some((at, at.place.of(workload)?))) else {
            return self.allow(Outcome::Passed, &[], None);
        };
        if inject_label(template) == Some("disabled") {
            return self.allow(Outcome::Passed, &[], None);
        }
        let mut findings = match wants_injection(template).then(|| inject(&self.namespace, template)) {
            None => check_undeclared(template),
            Some(Err(findings)) => findings,
            Some(Ok(mut injected)) => {
                let target = Target { workload: at.workload_spec(workload), ..Target::default() };
                injected.findings.extend(lint::strip_and_check(template, &injected, target));
                injected.findings
            }
        };
        findings.iter_mut().for_each(|finding| finding.at = at.place.join(&finding.at));
        self.allow(Outcome::Checked, &findings, None)
    }

    fn answer_pod(&self, pod: &Value, inject: Injector<'_>, orders: &AssignedOrders) -> Answer {
        // Do not change a mirror Pod, which must equal the static Pod that the kubelet read from a file.
        let is_mirror = pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some();
        if inject_label(pod) == Some("disabled") || is_mirror {
            return self.allow(Outcome::Passed, &[], None);
        }
        if let Some(order) = orders.order_to_assign(&self.namespace, pod) {
            return match order.inject(pod, |pod| inject(&self.namespace, pod)) {
                Ok(injected) => self.allow_injected(injected, |findings| self.allow_misfit(order, findings)),
                Err(findings) => self.allow_misfit(order, &findings),
            };
        }
        if !wants_injection(pod) {
            let findings = check_undeclared(pod);
            return if has_errors(&findings) {
                self.refuse(&findings)
            } else {
                self.allow(Outcome::Passed, &findings, None)
            };
        }
        match inject(&self.namespace, pod) {
            // Another webhook has changed the Pod since podgate's first call.
            Err(findings) => match orders.find_assigned(&self.namespace, pod).filter(|_| is_injected(pod)) {
                Some(order) => self.allow_misfit(order, &findings),
                None => self.refuse_or_defer(pod, &findings),
            },
            Ok(mut injected) => {
                // The API server shows all findings as warnings. Even errors are only warnings here, because later
                // webhooks can still change the Pod.
                injected.findings.extend(lint::strip_and_check(pod, &injected, Target::default()));
                self.allow_injected(injected, |findings| self.refuse(findings))
            }
        }
    }

    /// Allows the Pod with the edits of `injected`, or calls `reject` if the patch is too large.
    fn allow_injected(&self, injected: Injected, reject: impl FnOnce(&[Finding]) -> Answer) -> Answer {
        let Injected { edits, findings, .. } = injected;
        if edits.is_empty() {
            return self.allow(Outcome::Unchanged, &findings, None);
        }
        let patch = json_patch(edits);
        if json_length(&patch) > JSON_SIZE_MAX {
            return reject(&[edits_too_large()]);
        }
        self.allow(Outcome::Injected, &findings, Some(&patch))
    }

    /// Allows the Pod unchanged: an order that its author did not write must not keep it from starting.
    fn allow_misfit(&self, order: &AssignedOrder, findings: &[Finding]) -> Answer {
        let warning = order.misfit(findings);
        Answer { message: warning.message.clone(), ..self.allow(Outcome::Misfit, &[warning], None) }
    }

    fn allow(&self, outcome: Outcome, findings: &[Finding], patch: Option<&Value>) -> Answer {
        let mut response = json!({"uid": self.uid, "allowed": true});
        if let Some(patch) = patch {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = BASE64_STANDARD.encode(patch.to_string()).into();
        }
        if outcome != Outcome::Passed {
            response["auditAnnotations"] = json!({"outcome": outcome.as_str()});
        }
        let warnings = warning_lines(findings);
        if !warnings.is_empty() {
            response["warnings"] = warnings.into();
        }
        self.build_answer(response, outcome, String::new())
    }

    /// Denies the Pod, or defers the decision if all errors are about containers that a later webhook may add.
    fn refuse_or_defer(&self, pod: &Value, findings: &[Finding]) -> Answer {
        let mut errors = findings.iter().filter(|finding| finding.level == Level::Error);
        if !errors.clone().all(|finding| finding.rule == "unknown-container") || errors.next().is_none() {
            return self.refuse(findings);
        }
        let message = self.refuse(findings).message.replace(char::is_control, "; ");
        let message = truncate(&message, POLICY_MESSAGE_MAX).to_owned();
        let at = annotation_place(keys::UNKNOWN_CONTAINER_FINDINGS);
        let has_changed = at.of(pod).and_then(Value::as_str) != Some(&message);
        let patch = has_changed.then(|| json_patch(vec![Edit { at, op: Op::Set(message.clone().into()) }]));
        Answer { message, ..self.allow(Outcome::Deferred, &[], patch.as_ref()) }
    }

    fn refuse(&self, findings: &[Finding]) -> Answer {
        let is_error = |finding: &&Finding| finding.level == Level::Error;
        let errors: Vec<String> = findings.iter().filter(is_error).map(Finding::to_string).collect();
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
        let given = |key: &str| self.object["metadata"][key].as_str().unwrap_or_default();
        let first = |texts: [&str; 3]| {
            truncate(texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default(), NAME_MAX).to_owned()
        };
        Answer {
            body: json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
            outcome,
            namespace: first([&self.namespace, given("namespace"), ""]),
            name: first([&self.name, given("name"), given("generateName")]),
            message,
        }
    }
}

/// Converts edits to a JSON Patch (RFC 6902), the only patch type that an admission webhook can return. The patch has
/// one operation per edit.
pub fn json_patch(edits: Vec<Edit>) -> Value {
    let operation = |Edit { mut at, op }: Edit| {
        let (path, last) = (at.pointer(), at.0.pop());
        // Move the value, because `json!` would copy it.
        let with_value = |op: &str, value| {
            let mut operation = json!({"op": op, "path": path});
            operation["value"] = value;
            operation
        };
        match op {
            // In an object, `add` replaces a field. In a list, `add` inserts an item, so an item needs `replace`.
            Op::Set(value) if !matches!(last, Some(PathSegment::Key(_))) => with_value("replace", value),
            Op::Set(value) | Op::Insert(value) => with_value("add", value),
            Op::Remove => json!({"op": "remove", "path": path}),
            Op::Move(index) => json!({"op": "move", "from": path, "path": at.to(index).pointer()}),
        }
    };
    edits.into_iter().map(operation).collect()
}

/// Formats each warning and error as a single line. kubectl prints `Warning: ` before each line.
fn warning_lines(findings: &[Finding]) -> Vec<String> {
    let line = |finding: &Finding| {
        let line = format!("podgate: {}", finding.to_string().replace(char::is_control, " "));
        if line.len() > WARNING_MAX { format!("{}…", truncate(&line, WARNING_MAX - "…".len())) } else { line }
    };
    let mut lines: Vec<String> = findings.iter().filter(|finding| finding.level >= Level::Warning).map(line).collect();
    let more = lines.len().saturating_sub(WARNINGS_MAX);
    lines.truncate(WARNINGS_MAX);
    if more > 0 {
        lines.push(format!("podgate: findings not shown: {more}; run `kubectl podgate check` to see them"));
    }
    lines
}

fn truncate(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
