//! Tests of the file of `--orders`.

use podgate::order::assigned::AssignedOrders;
use podgate::order::finding::Finding;
use podgate::order::inject::{Options, inject};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

const FILE: &str = "\
orders:
- namespaces: [shop-*, bank]
  podLabels: {app: keycloak}
  annotations: {podgate.io/order: \"db, api\"}
- podLabels: {app: keycloak, tier: web}
  annotations:
    after.podgate.io/api: db
    podgate.io/timeout: 1m
- namespaces: [\"*-db\"]
  podLabels: {app: other}
  annotations: {podgate.io/order: \"api, db\"}
";

fn parse(text: &str) -> Result<AssignedOrders, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

fn pod(labels: &Value) -> Value {
    let container = |name: &str| json!({"name": name, "command": [name], "readinessProbe": {"tcpSocket": {"port": 1}}});
    json!({"metadata": {"labels": labels}, "spec": {"containers": [container("db"), container("api")]}})
}

#[test]
fn first_order_with_the_namespace_and_all_labels_applies() {
    let orders = parse(FILE).unwrap();
    let (keycloak, web) = (json!({"app": "keycloak", "x": "y"}), json!({"app": "keycloak", "tier": "web"}));
    for (namespace, labels, expected) in [
        ("shop-eu", &keycloak, Some("orders[0]")),
        ("shop-", &keycloak, Some("orders[0]")),
        ("bank", &web, Some("orders[0]")),
        ("shop", &keycloak, None),
        ("bank-2", &keycloak, None),
        ("dev", &web, Some("orders[1]")),
        ("dev", &json!({"tier": "web"}), None),
        ("my-db", &json!({"app": "other"}), Some("orders[2]")),
        ("my-db-2", &json!({"app": "other"}), None),
        ("my-db", &json!({"app": 1}), None),
        ("my-db", &json!(null), None),
    ] {
        let found = orders.order_to_assign(namespace, &pod(labels)).map(|order| &*order.name);
        assert_eq!(found, expected, "{namespace} {labels}");
    }
}

/// In a pattern, the texts before and after `*` do not overlap.
#[test]
fn star_matches_only_the_text_between() {
    let orders = parse(&FILE.replace("shop-*", "x*x")).unwrap();
    let find = |namespace: &str| orders.order_to_assign(namespace, &pod(&json!({"app": "keycloak"}))).is_some();
    assert_eq!(["x", "xx", "xyx"].map(find), [false, true, true]);
}

#[test]
fn pod_with_any_key_of_podgate_gets_no_order() {
    let orders = parse(FILE).unwrap();
    for (field, key) in [
        ("annotations", "podgate.io/order"),
        ("annotations", "podgate.io/timeout"),
        ("annotations", "podgate.io/ordr"),
        ("annotations", "status.podgate.io/db"),
        ("labels", "podgate.io/inject"),
    ] {
        let mut own = pod(&json!({"app": "keycloak"}));
        own["metadata"][field][key] = "disabled".into();
        assert!(orders.order_to_assign("bank", &own).is_none(), "{key}");
    }
}

#[test]
fn order_is_assigned_and_injected() {
    let orders = parse(FILE).unwrap();
    let pod = pod(&json!({"app": "keycloak"}));
    let order = orders.order_to_assign("bank", &pod).unwrap();
    let inject = |pod: &Value| inject(pod, &Options::new("podgate"), &KnownFacts::default());
    let injected = order.inject(&pod, inject).unwrap();
    let mut declared = pod.clone();
    declared["metadata"]["annotations"] = json!({"podgate.io/order": "db, api"});
    assert_eq!(injected.value, inject(&declared).unwrap().value, "as if the Pod had declared the order");
    let mut edited = pod.clone();
    injected.edits.iter().for_each(|edit| podgate::order::edit::apply(&mut edited, edit).unwrap());
    assert_eq!(edited, injected.value);
    assert_eq!(orders.find_assigned("bank", &edited).map(|order| &*order.name), Some("orders[0]"));
    assert!(orders.find_assigned("dev", &edited).is_none() && orders.find_assigned("bank", &pod).is_none());
}

/// The next call in the same request must find the same order again.
#[test]
fn order_without_effect_leaves_the_pod_unchanged() {
    let orders = parse(&FILE.replace("db, api\"", "proxy?, api\"")).unwrap();
    let pod = pod(&json!({"app": "keycloak"}));
    let inject = |pod: &Value| inject(pod, &Options::new("podgate"), &KnownFacts::default());
    assert_eq!(orders.order_to_assign("bank", &pod).unwrap().inject(&pod, inject).unwrap().edits, []);
}

#[test]
fn order_that_cannot_work_does_not_fit() {
    let orders = parse(FILE).unwrap();
    let (mut missing, mut unready) = (pod(&json!({"app": "keycloak"})), pod(&json!({"app": "keycloak"})));
    missing["spec"]["containers"][1]["name"] = "apii".into();
    unready["spec"]["containers"][0]["readinessProbe"]["tcpSocket"]["port"] = "pg".into();
    for (pod, why) in [(missing, "there is no container api; did you mean apii?"), (unready, "db has no port named pg")]
    {
        let order = orders.order_to_assign("bank", &pod).unwrap();
        let inject = |pod: &Value| inject(pod, &Options::new("podgate"), &KnownFacts::default());
        let warning = order.misfit(&order.inject(&pod, inject).unwrap_err());
        assert!(warning.message.contains(why), "{warning}");
        let start = "metadata.annotations: orders[0] does not fit this Pod, so podgate does not change the Pod: ";
        assert!(warning.to_string().starts_with(start), "{warning}");
        assert_eq!(Finding::warning("order-does-not-fit", warning.at.clone(), warning.message.clone()), warning);
    }
}

#[test]
fn mistakes_in_the_file_are_errors_with_a_place() {
    let many = |count: usize, item: &str| item.repeat(count);
    let order = |change: (&str, &str)| FILE.replacen(change.0, change.1, 1);
    for (text, what) in [
        (String::new(), "at line 1, column 1"),
        ("orders: []\nmore: 1\n".to_owned(), "unknown field `more`"),
        ("- podLabels: {}\n".to_owned(), "expected mapping start at line 1, column 1"),
        (
            order(("podLabels", "labels")),
            "unknown field `labels`, expected one of namespaces, podLabels, annotations at line 3",
        ),
        (order(("  podLabels: {app: keycloak}\n", "")), "missing field `podLabels`"),
        (order(("{app: keycloak}", "{}")), "orders[0]: podLabels has no label"),
        (order(("{app: keycloak}", "[app]")), "expected mapping start at line 3, column 14"),
        (order(("app: keycloak", "app: keycloak, app: x")), "duplicate mapping key: app"),
        (order(("bank", "Bank")), "orders[0]: the namespace \"Bank\" is not a name"),
        (order(("shop-*", "'*-*'")), "orders[0]: the namespace \"*-*\" is not a name"),
        (order(("bank", "\"\"")), "orders[0]: the namespace \"\" is not a name"),
        (order(("podgate.io/timeout", "podgate.io/tmeout")), "did you mean podgate.io/timeout? at line 8, column 5"),
        (order(("podgate.io/timeout", "podgate.io/injected")), "cannot set the annotation \"podgate.io/injected\""),
        (order(("podgate.io/timeout", "podgate.io/unknown-containers")), "describes a running Pod"),
        (order(("podgate.io/timeout", "example.com/a")), "cannot set the annotation \"example.com/a\""),
        (order(("after.podgate.io/api", "mode.podgate.io/api")), "orders[1]: annotations declares no order"),
        (
            format!("orders:{}", many(101, "\n- {podLabels: {a: b}, annotations: {podgate.io/order: a}}")),
            "more than 100",
        ),
        (order(("bank", &many(64, "a, "))), "orders[0]: more than 64"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(what) && !error.contains('\n'), "{what}: {error}");
    }
    assert!(parse("orders: []").unwrap().iter().next().is_none());
}
