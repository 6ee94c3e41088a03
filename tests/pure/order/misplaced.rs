use podgate::order::lint::check_document;
use podgate::order::pod_templates;
use serde_json::{Value, json};

/// Returns each finding for `document` as `LEVEL RULE PLACE: FIX`.
fn misplaced(document: &Value) -> Vec<String> {
    let found = check_document(document, &pod_templates::templates(document));
    found.iter().map(|found| format!("{} {} {}: {}", found.level.as_str(), found.rule, found.at, found.fix)).collect()
}

#[test]
fn keys_outside_of_templates_are_reported_with_the_right_place() {
    let spec = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let pod = json!({"metadata": {}, "spec": spec});
    let order = json!({"annotations": {"podgate.io/order": "a, b", "example.com/x": "y"}});
    let deployment = |own: Value, template: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": own,
            "spec": {"template": {"metadata": template, "spec": spec}}})
    };
    let at = r#"annotations["podgate.io/order"]"#;
    let to_template = "move it to spec.template.metadata.annotations";
    let to_pod = "move it to the Pod, or to the Pod template of a workload";
    let render = "render the manifest first, for example with kubectl kustomize or helm template";
    let object = |version: &str, kind: &str, metadata: Value, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
    let elastic = |labels: Value| {
        let metadata = json!({"annotations": {"podgate.io/order": "a, b"}, "labels": labels});
        object(
            "elasticsearch.k8s.elastic.co/v1",
            "Elasticsearch",
            json!({}),
            json!({"nodeSets": [
            {"podTemplate": {"metadata": metadata, "spec": spec}}]}),
        )
    };
    let label = |key: &str| json!({"labels": {key: "enabled"}});
    let annotation = |key: &str| json!({"annotations": {key: "x"}});
    for (document, expected) in [
        (deployment(order.clone(), json!({})), vec![format!("error misplaced metadata.{at}: {to_template}")]),
        (deployment(order.clone(), order.clone()), vec![]),
        (deployment(label("podgate.io/inject"), json!({})), vec![
            r#"error misplaced metadata.labels["podgate.io/inject"]: move it to spec.template.metadata.labels"#.to_owned()]),
        (deployment(label("podgate.io/order"), json!({})), vec![
            format!(r#"error misplaced metadata.labels["podgate.io/order"]: {to_template}"#)]),
        (deployment(annotation("podgate.io/ordr"), json!({})), vec![
            r#"error unknown-key metadata.annotations["podgate.io/ordr"]: did you mean podgate.io/order?"#.to_owned()]),
        (deployment(label("podgate.io/injct"), json!({})), vec![
            r#"error unknown-key metadata.labels["podgate.io/injct"]: did you mean podgate.io/inject?"#.to_owned()]),
        (deployment(annotation("status.podgate.io/a"), json!({})), vec![
            r#"warning copied-state metadata.annotations["status.podgate.io/a"]: remove this annotation"#.to_owned()]),
        (deployment(label("app.kubernetes.io/name"), json!({})), vec![]),
        (json!({"apiVersion": "v1", "kind": "List", "items": [
            object("v1", "Pod", order.clone(), spec.clone()), deployment(order.clone(), json!({}))]}),
         vec![format!("error misplaced items[1].metadata.{at}: move it to items[1].spec.template.metadata.annotations")]),
        (object("batch/v1", "CronJob", json!({}), json!({"jobTemplate": {"metadata": order, "spec": {"template": pod}}})), vec![
            format!("error misplaced spec.jobTemplate.metadata.{at}: move it to spec.jobTemplate.spec.template.metadata.annotations")]),
        (object("v1", "Service", order.clone(), json!({})), vec![format!("error misplaced metadata.{at}: {to_pod}")]),
        (object("v1", "Namespace", label("podgate.io/inject"), json!({})), vec![]),
        // A Kustomize patch, and a file that is not a Kubernetes object.
        (object("apps/v1", "Deployment", json!({}), json!({"template": {"metadata": order}})), vec![
            format!("warning place-not-read spec.template.metadata.{at}: {render}")]),
        (json!({"web": order}), vec![format!("warning place-not-read web.{at}: {render}")]),
        (json!({"web": annotation("podgate.io/ordr")}), vec![
            r#"error unknown-key web.annotations["podgate.io/ordr"]: did you mean podgate.io/order?"#.to_owned()]),
        // Operators copy the metadata of templates into Pods.
        (elastic(json!({})), vec![format!(
            "warning place-not-read spec.nodeSets[0].podTemplate.metadata.{at}: if the operator copies annotations into \
             its Pods, install podgate's webhook, and add the label podgate.io/inject: enabled beside the key to silence this \
             warning")]),
        (elastic(json!({"podgate.io/inject": "enabled"})), vec![]),
        (elastic(json!({"podgate.io/injekt": "enabled", "podgate.io/inject": "enabled"})), vec![
            r#"error unknown-key spec.nodeSets[0].podTemplate.metadata.labels["podgate.io/injekt"]: did you mean podgate.io/inject?"#.to_owned()]),
    ] {
        assert_eq!(misplaced(&document), expected, "{document}");
    }
}

#[test]
fn only_an_operator_can_undo_an_order() {
    let order = json!({"podgate.io/order": "a, b"});
    let injected = json!({"podgate.io/order": "a, b", "podgate.io/injected": "x"});
    let spec = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let owned = |kind: &str, by: &str, mut object: Value| {
        (object["apiVersion"], object["kind"]) = (json!(if kind == "Pod" { "v1" } else { "apps/v1" }), json!(kind));
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": by, "kind": "X", "name": "x", "controller": true}]);
        object
    };
    let pod = |annotations: &Value| json!({"metadata": {"annotations": annotations}, "spec": spec});
    let workload = |key: &str| json!({key: {"template": pod(&injected)}});
    let operator = "shop.example.com/v1";
    for (document, warnings) in [
        (owned("Pod", operator, pod(&order)), 1),
        (owned("Pod", operator, pod(&injected)), 0),
        (owned("Deployment", operator, workload("spec")), 1),
        // Kubernetes' own controllers copy the order from their template.
        (owned("Pod", "apps/v1", pod(&order)), 0),
        (owned("ReplicaSet", "apps/v1", workload("spec")), 0),
        (owned("ControllerRevision", "apps/v1", workload("data")), 0),
    ] {
        let found = misplaced(&document);
        assert_eq!(found.len(), warnings, "{document}: {found:?}");
        assert!(found.iter().all(|one| one.starts_with("warning operator-owns ")), "{found:?}");
    }
}

#[test]
fn keys_in_sources_of_manifests_are_not_read() {
    let key = "podgate.io/order";
    let order = json!({key: "a, b"});
    let embedded = "spec:\n  template:\n    metadata:\n      annotations:\n        podgate.io/order: a, b\n";
    let own = json!({"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"name": "a"}]}});
    let with = |field: &str, value: Value| {
        let mut pod = own.clone();
        pod["metadata"] = json!({"annotations": {field: value}});
        pod
    };
    for (document, place) in [
        (
            json!({"kind": "Kustomization", "commonAnnotations": order}),
            Some(r#"commonAnnotations["podgate.io/order"]"#),
        ),
        (json!({"podAnnotations": order}), Some(r#"podAnnotations["podgate.io/order"]"#)),
        (json!({"web": {"podAnnotations": order}}), Some(r#"web.podAnnotations["podgate.io/order"]"#)),
        (
            json!([{"op": "add", "path": "/metadata/annotations", "value": order}]),
            Some(r#"[0].value["podgate.io/order"]"#),
        ),
        (json!([{"op": "add", "path": "/metadata/annotations/podgate.io~1order", "value": "a, b"}]), Some("[0].path")),
        // Other strings are not searched.
        (json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"pod.yaml": embedded}}), None),
        (with("kubectl.kubernetes.io/last-applied-configuration", json!(embedded)), None),
        (with(key, json!("a")), None),
    ] {
        let found = misplaced(&document);
        let expected = place.map(|place| format!("warning place-not-read {place}: "));
        assert_eq!(found.len(), usize::from(expected.is_some()), "{document}: {found:?}");
        assert!(
            found.iter().all(|one| one.starts_with(expected.as_deref().unwrap_or_default())),
            "{document}: {found:?}"
        );
    }
}
