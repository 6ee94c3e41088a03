use podgate::order::pod_templates::templates;
use serde_json::{Value, json};

fn template_places(document: &Value) -> Vec<String> {
    templates(document).iter().map(|template| template.place.to_string()).collect()
}

fn pod() -> Value {
    json!({"metadata": {}, "spec": {"containers": [{"name": "a"}]}})
}

#[test]
fn finds_the_templates_of_each_kind() {
    for (version, kind, path) in [
        ("v1", "Pod", ""),
        ("v1", "PodTemplate", "template"),
        ("apps/v1", "Deployment", "spec.template"),
        ("apps/v1", "StatefulSet", "spec.template"),
        ("apps/v1", "DaemonSet", "spec.template"),
        ("apps/v1", "ReplicaSet", "spec.template"),
        ("batch/v1", "CronJob", "spec.jobTemplate.spec.template"),
        ("argoproj.io/v1alpha1", "Rollout", "spec.template"),
        ("x.example/v1", "Thing", "spec.podTemplate"),
        ("batch.volcano.sh/v1", "Job", "spec.template"),
        ("apps.kruise.io/v1beta1", "AdvancedCronJob", "spec.template.jobTemplate.spec.template"),
        ("apps.kruise.io/v1alpha1", "UnitedDeployment", "spec.template.statefulSetTemplate.spec.template"),
    ] {
        let keys = path.split('.').filter(|key| !key.is_empty());
        let mut document = keys.rev().fold(pod(), |inner, key| json!({key: inner}));
        (document["apiVersion"], document["kind"]) = (json!(version), json!(kind));
        assert_eq!(template_places(&document), [path], "{kind}");
    }
}

#[test]
fn finds_templates_in_lists_up_to_the_depth_limit() {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service"},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": pod()}},
    ]});
    assert_eq!(template_places(&list), ["items[1]", "items[2].spec.template"]);
    let names: Vec<_> = templates(&list).iter().map(|template| template.name(&list)).collect();
    assert_eq!(names, ["Pod/p", "Deployment/d"]);

    let mut deep = list;
    for _ in 0..4 {
        deep = json!({"kind": "List", "items": [deep]});
    }
    assert!(template_places(&deep).is_empty());
}

#[test]
fn template_needs_a_list_of_containers() {
    for other in [
        json!(null),
        json!([]),
        json!("kind: Pod"),
        json!({"kind": "Pod"}),
        json!({"kind": "Pod", "spec": {"containers": {}}}),
        json!({"kind": "Deployment", "apiVersion": "apps/v1", "spec": {"template": {"spec": null}}}),
        json!({"kind": "List", "items": {"a": 1}}),
        json!({"kind": "ConfigMap", "data": {"spec": {"containers": []}}}),
    ] {
        assert!(template_places(&other).is_empty(), "{other}");
    }
}
