//! Tests of keys that almost match podgate's keys. Each such key is an error. A key of another tool is never an error.

use podgate::order::declare::keys::is_manifest_annotation;
use podgate::order::declare::spec::Spec;
use podgate::order::declare::{check_undeclared, read_annotations};
use podgate::order::finding::{Finding, has_errors};
use podgate::order::lint::check_document;
use podgate::order::pod_templates;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Keys that other tools and users put on Pods.
const FOREIGN: &str = "
    app order name pod gate podgate podgate-version pod-gateway podgateway.io/order
    app.kubernetes.io/name app.kubernetes.io/part-of pod.kubernetes.io/sidecars pod-template-hash
    pod-security.kubernetes.io/enforce podsecurity.io/x kubernetes.io/config.mirror
    apps.kubernetes.io/pod-index batch.kubernetes.io/job-name statefulset.kubernetes.io/pod-name
    kubectl.kubernetes.io/restartedAt controller.kubernetes.io/pod-deletion-cost
    cluster-autoscaler.kubernetes.io/safe-to-evict scheduling.k8s.io/gate gate.io/order gates.io/x
    io.podman.annotations.init podman.io/order io.kubernetes.cri-o.Devices prometheus.io/scrape
    prometheus.io/port gatekeeper.sh/x pod-gatekeeper.sh/x pod.gateway.example.com/x podinfo.io/order
    gateway.networking.k8s.io/gateway-name sidecar.istio.io/inject proxy.istio.io/config istio.io/rev
    linkerd.io/inject config.linkerd.io/skip-outbound-ports argocd.argoproj.io/sync-wave
    argocd.argoproj.io/podgate rollouts-pod-template-hash helm.sh/chart meta.helm.sh/release-name
    vault.hashicorp.com/agent-inject dapr.io/enabled instrumentation.opentelemetry.io/inject-java
    ad.datadoghq.com/app.checks cni.projectcalico.org/podIP k8s.v1.cni.cncf.io/networks
    container.apparmor.security.beta.kubernetes.io/db eks.amazonaws.com/role-arn iam.gke.io/gcp
    azure.workload.identity/use keda.sh/x karpenter.sh/do-not-disrupt velero.io/backup-name
    backup.velero.io/backup-volumes reloader.stakater.com/auto checksum/config example.com/order
    example.com/podgate-version prodgate.example.com/order portgate.io/order kongate.io/x
    podgate-webhook
";

/// Returns a Pod template with this key as an annotation or label.
fn template(field: &str, key: &str) -> Value {
    let containers: Vec<Value> = ["db", "api", "web"].iter().map(|name| json!({"name": name})).collect();
    json!({"metadata": {field: {key: "db"}}, "spec": {"containers": containers}})
}

/// Returns the findings for a key on a Pod template with an order, on a template without an order, and on a Deployment.
fn findings(field: &str, key: &str) -> [Vec<Finding>; 3] {
    let undeclared = template(field, key);
    let mut declared = undeclared.clone();
    declared["metadata"]["annotations"]["podgate.io/order"] = "db, api".into();
    let mut found = Vec::new();
    read_annotations(&declared, &Spec::read(&declared, &mut Vec::new()), &mut found);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": undeclared["metadata"],
        "spec": {"template": {"spec": undeclared["spec"]}},
    });
    let misplaced = check_document(&deployment, &pod_templates::templates(&deployment));
    [found, check_undeclared(&undeclared), misplaced]
}

/// Returns `text` with each possible change of one character.
fn edits(text: &str) -> BTreeSet<String> {
    let letters: Vec<char> = text.chars().collect();
    let join = |parts: &[&[char]]| parts.concat().iter().collect::<String>();
    let mut edited = BTreeSet::new();
    for at in 0..=letters.len() {
        let (before, after) = letters.split_at(at);
        for new in "abdegiopstxz019.-_/ A".chars() {
            edited.insert(join(&[before, &[new], after]));
            edited.extend(after.get(1..).map(|rest| join(&[before, &[new], rest])));
        }
        edited.extend(after.get(1..).map(|rest| join(&[before, rest])));
        if let [first, second, rest @ ..] = after {
            edited.insert(join(&[before, &[*second, *first], rest]));
        }
    }
    edited.remove(text);
    edited
}

#[test]
fn every_change_of_one_character_is_an_error() {
    let mut count = 0;
    for (field, key) in [
        ("annotations", "podgate.io/order"),
        ("annotations", "podgate.io/stop-order"),
        ("annotations", "podgate.io/job-sidecars"),
        ("annotations", "podgate.io/timeout"),
        ("annotations", "after.podgate.io/web"),
        ("annotations", "mode.podgate.io/web"),
        ("annotations", "check.podgate.io/web"),
        ("annotations", "on-dependency-restart.podgate.io/web"),
        ("labels", "podgate.io/inject"),
        ("labels", "podgate.io/order"),
    ] {
        for edited in edits(key) {
            for found in findings(field, &edited) {
                // A wrong container name is an error on a template only.
                if !has_errors(&found) && !is_manifest_annotation(&edited) {
                    panic!("{field} {edited:?} instead of {key} is no error: {found:#?}");
                }
            }
            assert!(has_errors(&findings(field, &edited)[0]), "{field} {edited:?} instead of {key}");
            count += 1;
        }
    }
    assert!(count > 5000, "only {count} changes");
}

#[test]
fn keys_that_resemble_podgates_have_a_suggestion() {
    const GENERAL: &str = "use one of the keys in https://github.com/podgate/podgate/blob/main/docs/declaring.md";
    let order = "did you mean podgate.io/order?";
    for (key, fix) in [
        ("podgate/order", order),
        ("podgate.com/order", order),
        ("podgate.dev/order", order),
        ("podgate.k8s.io/order", order),
        ("io.podgate/order", order),
        ("podgate.io.example.com/order", order),
        ("Podgate.io/order", order),
        ("PODGATE.IO/ORDER", order),
        ("podgate.io/Order", order),
        ("podgate.io/order ", order),
        (" podgate.io/order", order),
        ("podgateio/order", order),
        ("podgate-io/order", order),
        ("pod-gate.io/order", order),
        ("pod.gate.io/order", order),
        ("pod_gate.io/order", order),
        ("podgates.io/order", order),
        ("www.podgate.io/order", order),
        ("pogdate.io/order", order),
        ("podgate.io.order", GENERAL),
        ("podgate.ioorder", GENERAL),
        ("podgate.io:order", GENERAL),
        ("podgate.io\\order", GENERAL),
        ("order.podgate.io", GENERAL),
        ("https://podgate.io/order", order),
        ("podgate.io//order", order),
        ("podgate.com/ordr", order),
        ("podgate.com/on-timeout", "did you mean podgate.io/on-timeout?"),
        ("podgate.com/OnDependencyRestart", "did you mean podgate.io/on-dependency-restart?"),
        ("podgate.io/mode.api", "did you mean mode.podgate.io/api?"),
        ("podgate.io/mode/api", "did you mean mode.podgate.io/api?"),
        ("podgate.io/after.a", "did you mean after.podgate.io/a?"),
        ("podgate.io/on-dependency-restart.a-b", "did you mean on-dependency-restart.podgate.io/a-b?"),
        ("podgate/after", "write after.podgate.io/CONTAINER"),
        ("after.podgate.com/web", "did you mean after.podgate.io/web?"),
        ("after.podgate/web", GENERAL),
        ("after.pod-gate.io/web", "did you mean after.podgate.io/web?"),
        ("Check.Podgate.io/web", "did you mean check.podgate.io/web?"),
        ("afer.podgate.io/web", "did you mean after.podgate.io/web?"),
        ("podgate.io", GENERAL),
        ("podgate.example.com/colour", GENERAL),
    ] {
        for found in findings("annotations", key) {
            let found: Vec<(&str, &str)> = found.iter().map(|found| (found.rule, found.fix.as_str())).collect();
            assert_eq!(found, [("unknown-key", fix)], "{key}");
        }
    }
    for key in ["podgate.com/inject", "podgate/inject"] {
        let [found, ..] = findings("labels", key);
        assert_eq!(found[0].fix, "did you mean podgate.io/inject?", "{key}");
    }
}

#[test]
fn keys_of_other_tools_are_no_findings() {
    for key in FOREIGN.split_whitespace() {
        for field in ["annotations", "labels"] {
            assert_eq!(findings(field, key), [const { Vec::new() }; 3], "{field} {key}");
        }
    }
}
