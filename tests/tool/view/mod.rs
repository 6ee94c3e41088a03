//! Tests of `kubectl podgate status`, `override` and `timeline` against a fake API server.
#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

mod charts;
mod held;
mod krew;
mod overriding;
mod pods;
mod status;
mod timing;
mod watching;

use serde_json::{Value, json};

const SANDBOX: &str = "3f2a9c1e-4097-1a0c5f3b";

/// Returns a Pod in which the hook of `db` holds back `api`. `version` is the Pod's resource version.
fn pod(version: u32, stage: &str, db: &str, api: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "ordered", "namespace": "shop", "uid": "u1", "resourceVersion": version.to_string(), "annotations": {
            "sandbox.podgate.io/id": SANDBOX, "sandbox.podgate.io/epoch": "e1",
            "sandbox.podgate.io/revision": version.to_string(), "sandbox.podgate.io/stage": stage,
            "sandbox.podgate.io/order": "db,api", "status.podgate.io/db": db, "status.podgate.io/api": api}},
        "spec": {"nodeName": "n", "containers": [
            {"name": "db", "lifecycle": {"postStart": {"exec": {"command": ["/podgate/bin/podgate", "post-start", "--container", "db"]}}}},
            {"name": "api"}]},
        "status": {"phase": "Pending", "containerStatuses": [
            {"name": "db", "state": {"waiting": {"reason": "ContainerCreating"}}},
            {"name": "api", "state": {"waiting": {"reason": "ContainerCreating"}}}]}
    })
}
