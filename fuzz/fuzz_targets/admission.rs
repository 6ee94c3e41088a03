//! Fuzzes the admission webhook with arbitrary bodies, reviews of arbitrary objects, Pods with large forged parts, and
//! variants of the most expensive Pods.
//! The webhook must not panic, and must give a reason for each denial. Injecting an injected Pod must change nothing.
//! `make fuzz` limits time and memory.
#![no_main]

#[allow(dead_code, reason = "shared with the benchmark")]
#[path = "../../tests/common/costly_pods.rs"]
mod costly_pods;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use podgate::order::admission::{Outcome, answer};
use podgate::order::assigned::AssignedOrders;
use podgate::order::edit::apply;
use podgate::order::inject::{self, Options};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

fn options() -> Options {
    let mut options = Options::new("podgate:dev");
    options.is_from_api = true;
    options
}

fn ask(body: &[u8]) {
    let options = options();
    let inject = |_: &str, pod: &Value| inject::inject(pod, &options, &KnownFacts::default());
    match answer(body, &inject, &AssignedOrders::default()) {
        Err(bad) => assert!(!bad.to_string().is_empty()),
        Ok(answer) => {
            let response = &answer.body["response"];
            assert_eq!(response["allowed"], answer.outcome != Outcome::Refused);
            assert_eq!(response.get("patch").is_some(), answer.outcome == Outcome::Injected);
            assert_eq!(answer.message.is_empty(), answer.outcome != Outcome::Refused);
        }
    }
}

fn ask_about(object: &Value) {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE", "object": object},
    });
    ask(review.to_string().as_bytes());
}

/// Returns a number of items. The number is often small, and sometimes above every limit of the webhook.
fn count(from: &mut Unstructured) -> Result<usize> {
    let bits = from.int_in_range(0..=17)?;
    from.int_in_range(0..=1 << bits)
}

/// Returns container names: numbered, all equal, or those of the real containers.
fn names(from: &mut Unstructured) -> Result<Vec<String>> {
    let (count, kind) = (count(from)?, from.int_in_range(0..=2)?);
    let name = |n: usize| match kind {
        0 => format!("c{n}"),
        1 => "c".to_owned(),
        _ => ["db", "api", "podgate"][n % 3].to_owned(),
    };
    Ok((0..count).map(name).collect())
}

/// Returns a list of equal items, which can need much memory.
fn value(from: &mut Unstructured) -> Result<Value> {
    let item = [
        json!(0),
        json!("x"),
        json!({"name": "podgate"}),
        json!({"name": "podgate-board"}),
        json!([]),
        json!({"a": null}),
    ];
    Ok(vec![from.choose(&item)?.clone(); count(from)?].into())
}

/// Returns a forged record of an injection.
fn record(from: &mut Unstructured) -> Result<Value> {
    let mut record = json!({"version": env!("CARGO_PKG_VERSION"), "order": names(from)?, "was": {}, "containers": {}});
    let fields = ["volumes", "initContainers", "annotations", "metadata", "command", "args", "lifecycle", "x"];
    for _ in 0..from.int_in_range(0..=2)? {
        record["was"][*from.choose(&fields)?] = value(from)?;
    }
    for name in names(from)? {
        record["containers"][name] = json!({"no": ["args"]});
    }
    if from.arbitrary()? {
        let was = json!({*from.choose(&fields)?: value(from)?});
        record["containers"]["api"] = json!({"was": was, "no": [*from.choose(&fields)?]});
    }
    Ok(record)
}

/// Returns a forged list of containers for the sidecar. Each container waits for the previous one, for all previous
/// ones, or for none.
fn list(from: &mut Unstructured) -> Result<Value> {
    let (names, kind) = (names(from)?, from.int_in_range(0..=3)?);
    let before = |n: usize| match kind {
        0 => &names[n.saturating_sub(1)..n],
        1 => &names[(n + 1) % names.len()..][..1],
        2 => &names[n.saturating_sub(200)..n],
        _ => &[],
    };
    let entry = |n| json!({"name": names[n], "mode": "entrypoint", "until": before(n)});
    Ok((0..names.len()).map(entry).collect())
}

/// Returns an injected Pod in which forged parts replace some of podgate's parts.
fn forged(from: &mut Unstructured) -> Result<Value> {
    let plain = json!({
        "metadata": {"annotations": {"podgate.io/order": "db, api"}},
        "spec": {"containers": [
            {"name": "db", "image": "x", "command": ["db"], "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "x"]}}}},
            {"name": "api", "image": "x", "command": ["api"]},
        ]},
    });
    let mut pod = inject::inject(&plain, &options(), &KnownFacts::default()).expect("injectable").value;
    if from.arbitrary()? {
        pod["metadata"]["annotations"]["podgate.io/injected"] = record(from)?.to_string().into();
    }
    if from.arbitrary()? {
        pod["spec"]["initContainers"][0]["env"][0]["value"] = list(from)?.to_string().into();
    }
    let words = |from: &mut Unstructured| Ok(vec![json!("x"); count(from)?]);
    if from.arbitrary()? {
        let command = pod["spec"]["containers"][1]["command"].as_array_mut().expect("a gate");
        command.splice(2..2, words(from)?);
        command.extend(words(from)?);
    }
    if from.arbitrary()? {
        let then = [json!("--then"), json!(words(from)?).to_string().into()];
        let hook = &mut pod["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"];
        hook.as_array_mut().expect("a hook").extend(then);
    }
    for field in ["containers", "initContainers", "volumes"] {
        if from.arbitrary()? {
            let named = names(from)?.into_iter().map(|name| json!({"name": name}));
            pod["spec"][field].as_array_mut().expect("a list").extend(named);
        }
    }
    if from.arbitrary()? {
        let by = *from.choose(&[", ", " & "])?;
        pod["metadata"]["annotations"]["podgate.io/order"] = names(from)?.join(by).into();
    }
    Ok(pod)
}

/// Returns a variant of one of the most expensive Pods; `None` if it is too large.
fn costly(from: &mut Unstructured) -> Result<Option<Value>> {
    let mut numbers = costly_pods::parse(from.choose(costly_pods::COSTLY)?);
    for _ in 0..from.int_in_range(0..=3)? {
        let mut random = |below: usize| from.int_in_range(0..=below.max(1) - 1).unwrap_or_default();
        costly_pods::mutate(&mut numbers, &mut random);
    }
    Ok((!costly_pods::is_too_large(&numbers)).then(|| costly_pods::pod(&numbers)))
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(pod)) = costly(&mut Unstructured::new(bytes)) {
        ask_about(&pod);
    }
    if let Ok(pod) = forged(&mut Unstructured::new(bytes)) {
        ask_about(&pod);
    }
    ask(bytes);
    let Ok(object) = serde_json::from_slice::<Value>(bytes) else { return };
    ask_about(&object);
    if let Ok(once) = inject::inject(&object, &options(), &KnownFacts::default()) {
        let mut value = object;
        for edit in &once.edits {
            apply(&mut value, edit).expect("valid edit");
        }
        assert_eq!(value, once.value);
        let twice = inject::inject(&value, &options(), &KnownFacts::default()).expect("injectable again");
        assert_eq!(twice.edits, []);
    }
});
