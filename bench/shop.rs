//! The Pod of the admission benchmarks.

use serde_json::{Value, json};

/// Returns a Pod with five containers, environment variables and a token volume. The Pod has the fields that a
/// ReplicaSet and the API server set.
pub(crate) fn pod() -> Value {
    let mount = json!({"name": "kube-api-access-x7k2p", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
    let container = |(n, name): (usize, &&str)| {
        let env: Vec<Value> =
            (0..12).map(|n| json!({"name": format!("SETTING_{n}"), "value": "a value of some length"})).collect();
        json!({
            "name": name, "image": format!("registry.example/shop/{name}:1.2.3"), "command": ["/bin/server"], "args": ["--listen", ":8080"],
            "ports": [{"name": "http", "containerPort": 8080 + n, "protocol": "TCP"}], "env": env,
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080 + n, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
            "livenessProbe": {"httpGet": {"path": "/live", "port": 8080 + n, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
            "resources": {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "volumeMounts": [mount], "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
        })
    };
    let names = ["db", "cache", "api", "web", "proxy"];
    let containers: Vec<Value> = names.iter().enumerate().map(container).collect();
    let token = json!({"name": "kube-api-access-x7k2p", "projected": {"sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ], "defaultMode": 420}});
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "generateName": "shop-6d4cf56db6-", "namespace": "shop", "creationTimestamp": null,
            "labels": {"app": "shop", "pod-template-hash": "6d4cf56db6", "podgate.io/inject": "enabled"},
            "annotations": {"podgate.io/order": "db & cache, api, web, proxy"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-6d4cf56db6", "uid": "9d1e7c9e-98ef-4f0d-93b6-4e3c6a1a4d0a", "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "volumes": [token], "containers": containers, "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst", "serviceAccountName": "default", "serviceAccount": "default", "securityContext": {},
            "schedulerName": "default-scheduler", "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
        },
        "status": {},
    })
}
