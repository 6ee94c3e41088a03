//! Pods that are to complete.

use crate::clock::eventually;
use crate::cluster::kubectl;
use crate::pod::{Pod, Sidecar, server};
use crate::scene::Scene;
use serde_json::json;

/// A sidecar that is a regular container ends when all others have, with 0, so that the pod completes; a native sidecar is
/// ended by the kubelet.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn a_pod_that_completes() {
    let scene = Scene::shared("completes");
    scene.grant();
    for (name, sidecar) in [("first", Sidecar::FirstContainer), ("native", Sidecar::Native)] {
        let db = server("db").http(8001).hook(&[]).args(&["--exit-after", "6s"]);
        let app = server("app").args(&["--exit-after", "2s"]);
        let pod = Pod::new(name, [db, app]).sidecar(sidecar).with(json!({"spec": {"restartPolicy": "Never"}}));
        let run = scene.create(&pod);
        let phase = eventually("the pod has come to its end", 60, || {
            let phase = kubectl(&["-n", &scene.namespace, "get", "pod", name, "-o", "jsonpath={.status.phase}"]);
            ["Succeeded", "Failed"].contains(&phase.as_str()).then_some(phase)
        });
        assert_eq!(phase, "Succeeded", "{name}");
        run.in_order(&["db", "app"]);
    }
}
