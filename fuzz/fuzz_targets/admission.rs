//! What arrives at the admission webhook: a body of any kind, or a review of any object. Never a panic; a refusal has its reason; what is
//! injected is whole, and is left alone when it comes again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podgate::order::admission::{Outcome, answer};
use podgate::order::edit::apply;
use podgate::order::inject::{self, Options};
use podgate::order::plan::Known;
use serde_json::{Value, json};

fn options() -> Options {
    let mut options = Options::new("podgate:dev");
    options.from_api = true;
    options
}

fn ask(body: &[u8]) {
    let options = options();
    let inject = |pod: &Value| inject::inject(pod, &options, &Known::default());
    match answer(body, &inject) {
        Err(bad) => assert!(!bad.to_string().is_empty()),
        Ok(answer) => {
            let response = &answer.body["response"];
            assert_eq!(response["allowed"], answer.outcome != Outcome::Refused);
            assert_eq!(response.get("patch").is_some(), answer.outcome == Outcome::Injected);
            assert_eq!(answer.message.is_empty(), answer.outcome != Outcome::Refused);
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    ask(bytes);
    let Ok(object) = serde_json::from_slice::<Value>(bytes) else { return };
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE", "object": object},
    });
    ask(review.to_string().as_bytes());
    if let Ok(once) = inject::inject(&object, &options(), &Known::default()) {
        let mut value = object;
        for edit in &once.edits {
            apply(&mut value, edit).expect("an edit fits");
        }
        assert_eq!(value, once.value);
        let twice = inject::inject(&value, &options(), &Known::default()).expect("what was injected can be");
        assert_eq!(twice.edits, []);
    }
});
