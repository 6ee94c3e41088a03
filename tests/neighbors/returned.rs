//! Tests the comparison of `check --server` with the Pods of `pods/`, in the form that the API server returns.

use super::sequence::product_changes;
use super::{CASES, Case, NAMED, container, lines, ordered, pod, webhook};
use podgate::order::finding::Finding;
use podgate::order::inject::inject_again;
use podgate::order::lint::check_returned;
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

const OPTIONAL: &[Case] = &[
    Case { before: "istio.before", after: "istio-default.after", order: "istio-proxy?, db, api", rules: &[] },
    Case { before: "istio.before", after: "istio-hold.after", order: "istio-proxy?, db, api", rules: &[] },
    Case { before: "istio.before", after: "istio-native.after", order: "istio-proxy?, db, api", rules: &[] },
];

fn template(case: &Case, mode: &str) -> Value {
    pod(case.before, &[("podgate.io/order", case.order), ("podgate.io/mode", mode)])
}

fn check(template: &Value, returned: &Value) -> Vec<Finding> {
    let known = KnownFacts::default();
    check_returned(template, template, returned, &inject_again(returned, &known), &known)
}

#[test]
fn pods_of_all_products_have_no_findings() {
    for mode in ["auto", "post-start"] {
        for case in CASES.iter().chain(OPTIONAL.iter().filter(|_| mode == "auto")) {
            let template = template(case, mode);
            let after = pod(case.after, &[("podgate.io/order", case.order), ("podgate.io/mode", mode)]);
            // Podgate's webhook runs only after the product's webhook, or both before and after it.
            for returned in [webhook(&after).value, webhook(&product_changes(case, mode)).value] {
                assert_eq!(check(&template, &returned), [], "{} in mode {mode}", case.after);
            }
        }
    }
    // The manifests lack the containers that these orders name.
    for case in NAMED {
        let product = case.after.split(['-', '.']).next().expect("a name");
        let before = CASES.iter().find(|other| other.after.starts_with(product)).expect("a case").before;
        let returned = webhook(&ordered(case.after, case.order)).value;
        assert_eq!(check(&ordered(before, case.order), &returned), [], "{}", case.after);
    }
}

#[test]
fn lost_parts_are_found_beside_istio() {
    let findings = |case: &Case, change: fn(&mut Value)| {
        let mut returned = webhook(&product_changes(case, "auto")).value;
        change(&mut returned);
        let found = check(&template(case, "auto"), &returned);
        found.iter().map(|one| format!("{}: {}", one.rule, one.message)).collect::<Vec<_>>()
    };
    for case in OPTIONAL {
        // Podgate's webhook has not run after Istio's, so `db` does not wait for the proxy.
        let found = check(&template(case, "auto"), &product_changes(case, "auto"));
        assert!(found.iter().all(|one| matches!(one.rule, "part-lost" | "sidecar-not-first")), "{}", lines(&found));
        let lost = "parts of podgate in db are missing or different, so the order is not kept: ";
        assert!(found.iter().any(|one| one.message.contains(lost)), "{}", lines(&found));
        let [found] = &findings(case, |pod| {
            let at = pod["spec"]["containers"].as_array().expect("a list").iter().position(|one| one["name"] == "api");
            pod["spec"]["containers"][at.expect("api")]["command"] = json!(["/api"]);
        })[..] else {
            panic!("{}", case.after)
        };
        assert!(
            found.starts_with("part-lost: ") && found.contains("podgate in api") && found.ends_with(": gate"),
            "{found}"
        );
        let [found] = &findings(case, |pod| {
            let sidecar = &mut pod["spec"]["initContainers"].as_array_mut().expect("a list").iter_mut();
            let sidecar = sidecar.find(|one| one["name"] == "podgate").expect("the sidecar");
            sidecar.as_object_mut().expect("fields").remove("restartPolicy");
        })[..] else {
            panic!("{}", case.after)
        };
        assert!(found.starts_with("native-lost: "), "{found}");
        let proxy_knows_nothing = |pod: &mut Value| {
            let text = pod.to_string().replace("ISTIO_KUBE_APP_PROBERS", "OTHER");
            *pod = serde_json::from_str(&text).expect("a Pod");
        };
        let found = findings(case, proxy_knows_nothing);
        assert!(!found.is_empty() && found.iter().all(|one| one.starts_with("probe-changed: ")), "{found:#?}");
        assert!(container(&product_changes(case, "auto"), "db")["readinessProbe"]["httpGet"].is_object());
    }
}
