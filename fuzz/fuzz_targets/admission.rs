//! Fuzzes the admission webhook with arbitrary bodies, and with reviews of arbitrary objects. The webhook must not
//! panic, and must give a reason for each denial. Injecting an injected Pod must change nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podgate::order::admission::{Outcome, answer};
use podgate::order::edit::apply;
use podgate::order::inject::{self, Options};
use podgate::order::plan::KnownImages;
use serde_json::{Value, json};

fn options() -> Options {
    let mut options = Options::new("podgate:dev");
    options.is_from_api = true;
    options
}

fn ask(body: &[u8]) {
    let options = options();
    let inject = |pod: &Value| inject::inject(pod, &options, &KnownImages::default());
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
    if let Ok(once) = inject::inject(&object, &options(), &KnownImages::default()) {
        let mut value = object;
        for edit in &once.edits {
            apply(&mut value, edit).expect("valid edit");
        }
        assert_eq!(value, once.value);
        let twice = inject::inject(&value, &options(), &KnownImages::default()).expect("injectable again");
        assert_eq!(twice.edits, []);
    }
});
