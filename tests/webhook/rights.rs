//! Tests of the permissions in `manifests/injector`: roles, policies, the network policy, and the selection of Pods.

use crate::install::{default, documents, injector, kustomization, object, read, run};
use podgate::order::declare::keys;
use serde_json::{Value, json};

#[test]
fn webhook_has_minimal_permissions() {
    let objects = injector();
    assert_eq!(
        object(&objects, "Role")["rules"],
        json!([
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [default("secret")], "verbs": ["get", "update"]},
        ])
    );
    assert_eq!(
        object(&objects, "ClusterRole")["rules"],
        json!([{
            "apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": [default("configuration")], "verbs": ["get", "patch"],
        }])
    );
    for (kind, role) in [("RoleBinding", "Role"), ("ClusterRoleBinding", "ClusterRole")] {
        let binding = object(&objects, kind);
        assert_eq!(binding["roleRef"]["name"], object(&objects, role)["metadata"]["name"]);
        let account = object(&objects, "ServiceAccount");
        let expected = json!([{"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": "podgate"}]);
        assert_eq!(binding["subjects"], expected);
    }
}

#[test]
fn outage_affects_only_pods_with_podgates_keys() {
    let objects = injector();
    let [webhook, workloads, orders] =
        &object(&objects, "MutatingWebhookConfiguration")["webhooks"].as_array().unwrap()[..]
    else {
        panic!("other webhooks")
    };
    assert_eq!((&webhook["failurePolicy"], &workloads["failurePolicy"]), (&json!("Fail"), &json!("Ignore")));
    let opt_out = json!({"key": keys::INJECT_LABEL, "operator": "NotIn", "values": ["disabled"]});
    assert_eq!(webhook["objectSelector"], json!({"matchExpressions": [opt_out]}));
    let excluded = &webhook["namespaceSelector"]["matchExpressions"];
    let system =
        json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "podgate"]});
    assert_eq!(excluded, &json!([system, opt_out]));
    let condition = |name: &str| {
        let conditions = webhook["matchConditions"].as_array().unwrap();
        conditions.iter().find(|one| one["name"] == name).unwrap()["expression"].as_str().unwrap()
    };
    assert!(condition("not-a-mirror").contains("kubernetes.io/config.mirror"));
    let keys_of = |field: &str| {
        format!(
            "object.metadata.?{field}.orValue({{}}).exists(k, k.startsWith('podgate.io/') || k.contains('.podgate.io/'))"
        )
    };
    assert_eq!(condition("has-podgate-key"), format!("{} || {}", keys_of("annotations"), keys_of("labels")));
    for prefix in keys::CONTAINER_PREFIXES {
        assert!(prefix.ends_with(".podgate.io/"), "the condition does not match {prefix}");
    }
    assert!(keys::POD_KEYS.iter().chain([&keys::INJECT_LABEL]).all(|key| key.starts_with("podgate.io/")));
    let rule = |operation: &str, resource: &str| {
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource],
            "scope": "Namespaced"})
    };
    assert_eq!(webhook["rules"], json!([rule("CREATE", "pods"), rule("UPDATE", "pods/dynamic")]));
    assert_eq!(condition("creation"), "request.operation == 'CREATE'");
    assert_eq!((&webhook["reinvocationPolicy"], &webhook["sideEffects"]), (&json!("IfNeeded"), &json!("None")));
    assert!(webhook["timeoutSeconds"].as_u64().unwrap() <= 5);
    let service = &webhook["clientConfig"]["service"];
    assert_eq!(service, &json!({"name": default("service"), "namespace": "podgate", "path": "/inject", "port": 443}));

    assert_eq!(workloads["namespaceSelector"], webhook["namespaceSelector"]);
    assert_eq!(workloads["clientConfig"], webhook["clientConfig"]);
    let rule = |group: &str, resources: &[&str]| {
        json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
            "resources": resources, "scope": "Namespaced"})
    };
    let apps = rule("apps", &["deployments", "statefulsets", "daemonsets", "replicasets"]);
    assert_eq!(workloads["rules"], json!([apps, rule("batch", &["jobs", "cronjobs"])]), "no status and no scale");
    assert_eq!((&workloads["sideEffects"], &workloads["timeoutSeconds"]), (&json!("None"), &json!(2)));
    let conditions = workloads["matchConditions"].as_array().unwrap();
    let names: Vec<_> = conditions.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["no-owner", "has-podgate-key", "new-template"]);

    assert_eq!((&orders["name"], &orders["failurePolicy"]), (&json!("orders.podgate.io"), &json!("Ignore")));
    for field in ["rules", "clientConfig", "objectSelector", "reinvocationPolicy", "sideEffects", "timeoutSeconds"] {
        assert_eq!(orders[field], webhook[field], "{field}");
    }
    let opt_in = json!({"key": keys::INJECT_LABEL, "operator": "In", "values": ["enabled"]});
    assert_eq!(orders["namespaceSelector"]["matchExpressions"], json!([system, opt_in]));
    let conditions = |own: &Value| Vec::from_iter(own["matchConditions"].as_array().unwrap().clone());
    let mut expected = conditions(webhook);
    expected.retain(|one| one["name"] != "has-podgate-key");
    assert_eq!(conditions(orders), expected, "a Pod that has got its order must be sent again");
}

#[test]
fn policy_denies_pods_with_unknown_containers() {
    let objects = injector();
    let name = "/podgate-unknown-containers".to_owned();
    let policy = &objects[&("ValidatingAdmissionPolicy".to_owned(), name.clone())]["spec"];
    assert_eq!(policy["failurePolicy"], "Fail");
    assert_eq!(
        policy["matchConstraints"]["resourceRules"],
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
               {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/dynamic"]}])
    );
    let creation = json!([{"name": "creation", "expression": "request.operation == 'CREATE'"}]);
    assert_eq!(policy["matchConditions"], creation, "no new Pod is excluded");
    let (key, validation) = (keys::UNKNOWN_CONTAINER_FINDINGS, &policy["validations"][0]);
    assert_eq!(validation["expression"], format!("!('{key}' in object.metadata.?annotations.orValue({{}}))"));
    assert_eq!(validation["messageExpression"], format!("'podgate - ' + object.metadata.annotations['{key}']"));
    let binding = &objects[&("ValidatingAdmissionPolicyBinding".to_owned(), name)]["spec"];
    assert_eq!(binding, &json!({"policyName": "podgate-unknown-containers", "validationActions": ["Deny", "Audit"]}));
    let configuration = &object(&objects, "MutatingWebhookConfiguration")["metadata"]["name"];
    for other in ["istio-sidecar-injector", "linkerd-proxy-injector-webhook-config", "vault-secrets-webhook"] {
        assert!(configuration.as_str().unwrap() > other, "podgate's webhook must come after {other}");
    }
}

/// kubectl creates objects in the order of the output. By default, Kustomize would put policies after roles.
#[test]
fn policies_come_before_the_rights_that_they_limit() {
    for (directory, right) in [("manifests", "ClusterRole"), ("manifests/injector", "ClusterRoleBinding")] {
        let kustomization_file = documents(&read(&format!("{directory}/kustomization.yaml"))).remove(0);
        assert_eq!(kustomization_file["sortOptions"], json!({"order": "fifo"}), "{directory}");
        let is_in_order = |objects: &[Value]| {
            let last_policy = objects.iter().rposition(|object| object["kind"] == "ValidatingAdmissionPolicyBinding");
            last_policy.unwrap() < objects.iter().position(|object| object["kind"] == right).unwrap()
        };
        assert!(is_in_order(&kustomization(directory)), "{directory}");
        let Some(output) = run("kubectl", &["kustomize", directory]) else { continue };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(is_in_order(&documents(&String::from_utf8(output.stdout).unwrap())), "{directory}");
    }
}

/// An attacker with the webhook's token must not be able to change any other field of the webhook's configuration.
#[test]
fn policy_limits_the_webhook_to_its_ca_bundle() {
    let objects = injector();
    let named = |kind: &str| &objects[&(kind.to_owned(), "/podgate-webhook".to_owned())];
    let (policy, binding) = (named("ValidatingAdmissionPolicy"), named("ValidatingAdmissionPolicyBinding"));
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    assert_eq!(binding["spec"]["validationActions"], json!(["Deny", "Audit"]));
    let spec = &policy["spec"];
    assert_eq!(spec["failurePolicy"], "Fail");
    assert_eq!(
        spec["matchConstraints"]["resourceRules"],
        json!([{"apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["v1"], "operations": ["UPDATE"],
                "resources": ["mutatingwebhookconfigurations"]}])
    );
    let account = object(&objects, "ServiceAccount")["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        spec["matchConditions"][0]["expression"],
        format!("request.userInfo.username == 'system:serviceaccount:podgate:{account}'")
    );
    let text = spec["validations"].to_string();
    assert_eq!(text.matches("'caBundle'").count(), 2, "only this field may differ: {text}");
}

#[test]
fn network_policy_opens_the_webhooks_ports() {
    let objects = injector();
    let spec = &object(&objects, "NetworkPolicy")["spec"];
    assert_eq!(spec["podSelector"], object(&objects, "Deployment")["spec"]["selector"]);
    let port = |flag: &str| default(flag).trim_start_matches(':').parse::<u16>().unwrap();
    let monitoring = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}});
    assert_eq!(
        spec["ingress"],
        json!([
            {"ports": [{"protocol": "TCP", "port": port("listen")}]},
            {"from": [monitoring], "ports": [{"protocol": "TCP", "port": port("status-listen")}]},
        ])
    );
}
