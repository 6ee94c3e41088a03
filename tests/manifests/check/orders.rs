//! Tests of `check --orders`.

use super::{CHAIN, check, file};
use std::fs;

const ORDERS: &str = "\
orders:
- namespaces: [shop-*]
  podLabels: {app: shop}
  annotations: {podgate.io/order: \"db, api & cache, web\"}
- podLabels: {app: other}
  annotations: {podgate.io/order: \"db, api\"}
";

/// Returns the manifest without an order, in this namespace.
fn undeclared(namespace: &str) -> String {
    let manifest = CHAIN.replace("name: shop}", &format!("name: shop{namespace}}}"));
    let order = "      annotations:\n        podgate.io/order: \"db, api & cache, web\"\n";
    assert!(manifest.contains(order));
    manifest.replace(order, "      labels: {app: shop}\n")
}

#[test]
fn template_without_an_order_is_checked_with_that_of_the_file() {
    let (directory, _) = file(&undeclared(", namespace: shop-eu"));
    fs::write(directory.path().join("orders.yaml"), ORDERS).unwrap();
    let (code, out, err) = check(&directory, &["pod.yaml", "--orders", "orders.yaml", "--strict"]);
    assert!(code == 0 && out.contains("in the namespace shop-eu, this Pod gets the order orders[0]"), "{out}");
    assert_eq!(err, "note: orders[1] matches no Pod in these manifests\n");
    let (declared, _) = file(CHAIN);
    let (_, expected, _) = check(&declared, &["pod.yaml"]);
    let forecast = |text: &str| text[text.find("  starts").unwrap()..text.find("1 template").unwrap()].to_owned();
    assert_eq!(forecast(&out), forecast(&expected));
    let (_, out, _) = check(&directory, &["pod.yaml"]);
    assert_eq!(out, "", "without the file, no order is declared");
}

#[test]
fn manifest_without_a_namespace_counts_as_one_of_default() {
    let (directory, _) = file(&undeclared(""));
    let run = |namespaces: &str| {
        fs::write(directory.path().join("orders.yaml"), ORDERS.replace("shop-*", namespaces)).unwrap();
        check(&directory, &["pod.yaml", "--orders", "orders.yaml"]).1
    };
    assert!(run("default").contains("in the namespace default, this Pod gets the order orders[0]"));
    assert_eq!(run("shop-*"), "");
}

#[test]
fn order_that_does_not_fit_is_a_warning_with_its_reason() {
    let (directory, _) = file(&undeclared(", namespace: shop-eu"));
    fs::write(directory.path().join("orders.yaml"), ORDERS.replace("api & cache", "apii")).unwrap();
    let (code, out, _) = check(&directory, &["pod.yaml", "--orders", "orders.yaml"]);
    let what = "warning[order-does-not-fit]: orders[0] does not fit this Pod, so podgate does not change the Pod: \
                there is no container apii; did you mean api?";
    assert!(code == 0 && out.contains(what) && out.contains("0 errors, 1 warning"), "{out}");
    assert_eq!(check(&directory, &["pod.yaml", "--orders", "orders.yaml", "--strict"]).0, 1);
}

#[test]
fn own_order_takes_precedence() {
    let (directory, _) = file(&CHAIN.replace("      annotations:", "      labels: {app: shop}\n      annotations:"));
    fs::write(directory.path().join("orders.yaml"), ORDERS.replace("shop-*", "default")).unwrap();
    let (code, out, err) = check(&directory, &["pod.yaml", "--orders", "orders.yaml"]);
    assert!(code == 0 && !out.contains("orders[0]"), "{out}");
    // The template has what the webhook assigns.
    assert_eq!(err, "note: orders[1] matches no Pod in these manifests\n");
}

#[test]
fn invalid_file_is_an_error_with_its_line() {
    let (directory, _) = file(CHAIN);
    fs::write(directory.path().join("orders.yaml"), ORDERS.replace("podgate.io/order:", "podgate.io/ordr:")).unwrap();
    let (code, out, err) = check(&directory, &["pod.yaml", "--orders", "orders.yaml"]);
    let expected =
        "error: orders.yaml: unknown annotation \"podgate.io/ordr\"; did you mean podgate.io/order? at line 4";
    assert!(code == 1 && out.is_empty() && err.starts_with(expected), "{err}");
}
