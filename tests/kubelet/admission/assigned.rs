//! Tests of the file of orders: Pods that declare no order get one from the webhook.

use super::install::NAMESPACE;
use super::workloads::{deployment_without_order, plain_pod};
use super::{is_injected, verify_output};
use crate::clock::eventually;
use crate::cluster::{self, kubectl};
use crate::scene::Scene;
use podgate::order::declare::keys;
use serde_json::{Value, json};

/// Starts a Deployment without any key of podgate in the order of the file. A Pod that the order does not fit starts
/// unchanged, also while no replica answers.
pub(super) fn assert_undeclared_pods_are_ordered(scene: &Scene) {
    let namespace = scene.namespace.as_str();
    let order = |app: &str, order: &str| json!({"namespaces": [namespace], "podLabels": {"app": app}, "annotations": {keys::ORDER: order}});
    let orders = [order("undeclared", "db, api, web"), order("misfit", "db, nosuch"), order("unused", "a, b")];
    let file = json!({"orders": orders}).to_string();
    let metadata = json!({"name": "podgate-orders", "namespace": NAMESPACE});
    let config_map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"orders.yaml": file}});
    cluster::create(NAMESPACE, &config_map.to_string());
    let with_label = |name: &str, app: &str| {
        let mut pod = plain_pod(name);
        pod["metadata"]["labels"] = json!({"app": app});
        pod
    };
    let undeclared = with_label("undeclared-dry", "undeclared");
    assert!(!is_injected(namespace, &undeclared).unwrap(), "the namespace lacks the label");
    kubectl(&["label", "namespace", namespace, "podgate.io/inject=enabled"]);
    // The kubelet updates the volume of the ConfigMap within two minutes.
    eventually("both replicas have read the file", 180, || {
        (0..8).all(|_| is_injected(namespace, &undeclared).unwrap()).then_some(())
    });
    deployment_without_order("undeclared").assert_starts_in_order(scene);

    let misfit = with_label("misfit", "misfit");
    let created = cluster::try_script(&["kubectl", "-n", namespace, "create", "-f", "-"], &misfit.to_string()).unwrap();
    scene.report(&created);
    let pod: Value = cluster::kubectl_json(&["-n", namespace, "get", "pod", "misfit"]);
    assert!(pod["spec"].get("initContainers").is_none() && pod["metadata"].get("annotations").is_none(), "{pod}");
    let output = verify_output(namespace);
    for rule in ["order-does-not-fit", "order-unused"] {
        assert!(output.contains(&format!("[{rule}]")), "{output}");
    }
    assert!(!output.contains("[order-not-assigned]"), "{output}");
    kubectl(&["-n", namespace, "delete", "pod", "misfit", "--wait", "--grace-period=1"]);
}

/// Asserts that the outage of the webhook does not affect Pods that get their order from the file.
pub(super) fn assert_outage_admits_undeclared_pods(scene: &Scene) {
    let mut pod = plain_pod("outage");
    pod["metadata"]["labels"] = json!({"app": "undeclared"});
    assert!(!is_injected(&scene.namespace, &pod).unwrap(), "failurePolicy Ignore");
}
