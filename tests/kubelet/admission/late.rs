//! Tests of a container that another product adds only after podgate's webhook has seen the Pod.

use super::workloads::ordered_pod;
use crate::clock::eventually;
use crate::cluster::{self, TESTSERVER_IMAGE, kubectl, minor_version, try_script};
use crate::scene::Scene;
use podgate::order::declare::keys;
use serde_json::json;

/// Creates Pods whose order contains a container that a MutatingAdmissionPolicy adds. The order names the container, or
/// includes it in `*`. The policy waits for the annotation of podgate's first call, so it adds the container between
/// the first and the second call. A webhook whose name sorts after podgate's would do the same.
pub(super) fn assert_late_container_is_ordered(scene: &Scene) {
    if minor_version() < 36 {
        return scene.report("MutatingAdmissionPolicy is not stable before Kubernetes 1.36");
    }
    let (name, namespace) = (format!("late-{}", scene.namespace), scene.namespace.as_str());
    let late = format!(
        "Object.spec.containers{{name: 'late', image: '{TESTSERVER_IMAGE}', command: ['/testserver'], \
         args: ['--http', '8010', '--ready-after', '2s'], readinessProbe: \
         Object.spec.containers.readinessProbe{{periodSeconds: 1, httpGet: \
         Object.spec.containers.readinessProbe.httpGet{{path: '/', port: 8010}}}}}}"
    );
    let expression = format!(
        "object.metadata.?annotations.orValue({{}}).exists(key, key in ['{}', '{}']) && \
         !object.spec.containers.exists(own, own.name == 'late') \
         ? [JSONPatch{{op: 'add', path: '/spec/containers/-', value: {late}}}] : []",
        keys::UNKNOWN_CONTAINER_FINDINGS,
        keys::INJECTION_RECORD
    );
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": [rule]}, "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]}});
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "matchResources": {"namespaceSelector": selector}}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]});
    cluster::create(namespace, &list.to_string());

    let mut pod = ordered_pod("late");
    pod["metadata"]["annotations"]["podgate.io/order"] = "late, db, api, web".into();
    let dry_run = ["kubectl", "-n", namespace, "create", "--dry-run=server", "-f", "-"];
    eventually("the policy acts", 30, || try_script(&dry_run, &pod.to_string()).ok());
    for (name, order, starts) in [
        ("late", "late, db, api, web", &["late", "db", "api", "web"][..]),
        ("late-star", "db, *, web", &["db", "late", "web"]),
    ] {
        (pod["metadata"]["name"], pod["metadata"]["annotations"][keys::ORDER]) = (name.into(), order.into());
        let run = scene.follow(name);
        cluster::create(namespace, &pod.to_string());
        let up = run.wait_until_up();
        assert_eq!(up.annotation(keys::UNKNOWN_CONTAINER_FINDINGS), None);
        run.assert_order(starts);
    }
    kubectl(&["delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", &name]);
}
