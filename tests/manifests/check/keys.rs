//! Tests of `check` and `inject` with misspelled and misplaced keys, and with values that YAML misreads.

use super::{CHAIN, check, file, program};

/// Checks and injects `text`. Returns the exit codes of `check --strict` and `inject`, and their whole output.
fn check_and_inject(text: &str) -> (i32, i32, String) {
    let (directory, _) = file(text);
    let (strict, out, _) = check(&directory, &["--strict", "-q", "pod.yaml"]);
    let output = program(directory.path()).current_dir(directory.path()).args(["inject", "pod.yaml"]).output().unwrap();
    let found = out + &String::from_utf8(output.stderr).unwrap();
    (strict, output.status.code().unwrap(), found)
}

#[test]
fn both_commands_reject_the_same_mistakes() {
    let order = "podgate.io/order: \"db, api & cache, web\"";
    let misspelled = CHAIN.replace("podgate.io/order", "podgate.io/ordr");
    let on_the_deployment = CHAIN
        .replace("{name: shop}", "{name: shop, annotations: {podgate.io/order: \"db, api\"}}")
        .replace(order, "example.com/x: y");
    let label = CHAIN.replace("      annotations:", "      labels:").replace(order, "podgate.io/order: db");
    let of_service =
        "apiVersion: v1\nkind: Service\nmetadata:\n  labels: {podgate.io/ordr: x}\n---\n".to_owned() + CHAIN;
    let foreign = CHAIN.replace("podgate.io/order", "podgate/order");
    let beside = CHAIN.replace(order, &format!("{order}\n        podgate.com/timeout: 5m"));
    let cut = CHAIN
        .replace(&format!("annotations:\n        {order}"), "annotations: {podgate.io/order: db, api & cache, web}");
    let list = CHAIN.replace(order, "podgate.io/order: [db, api]");
    let arrow = CHAIN.replace(order, "podgate.io/order: DB -> api");
    let empty = CHAIN.replace(order, "podgate.io/order:");
    let helm = CHAIN.replace(order, "podgate.io/order: '{{ .Values.order }}'");
    let field = CHAIN.replace(&format!("        {order}"), &format!("      {order}"));
    let of_spec = CHAIN
        .replace(order, "example.com/x: y")
        .replace("      containers:", &format!("      {order}\n      containers:"));
    for (text, rule, fix) in [
        (field, "misplaced", "below annotations:, indented deeper than that line"),
        (of_spec, "misplaced", "below annotations:, indented deeper than that line"),
        (misspelled, "unknown-key", "did you mean podgate.io/order?"),
        (on_the_deployment, "misplaced", "move it to spec.template.metadata.annotations"),
        (label, "not-a-label", "move it to metadata.annotations"),
        (of_service, "unknown-key", "did you mean podgate.io/order?"),
        (foreign, "unknown-key", "did you mean podgate.io/order?"),
        (beside, "unknown-key", "did you mean podgate.io/timeout?"),
        (cut, "cut-at-comma", "put the order in quotes: podgate.io/order: \"db, api & cache, web\""),
        (list, "bad-value", "write one string: \"db, api\""),
        (arrow, "bad-order", "write a list such as db, api, cache"),
        (empty, "bad-order", "such as db, api, cache"),
        (helm, "bad-order", "check the output of helm template"),
    ] {
        let (strict, injected, out) = check_and_inject(&text);
        assert_eq!((strict, injected), (1, 1), "{rule}: {out}");
        assert!(out.contains(&format!("error[{rule}]")) && out.contains(&format!("[{rule}]\n")), "{rule}: {out}");
        assert_eq!(out.matches(fix).count(), 2, "{rule}: {out}");
    }
}

#[test]
fn key_at_a_place_that_podgate_does_not_read_is_a_warning() {
    let elastic = "\
apiVersion: elasticsearch.k8s.elastic.co/v1
kind: Elasticsearch
metadata: {name: shop}
spec:
  nodeSets:
  - name: default
    podTemplate:
      metadata:
        annotations: {podgate.io/order: \"db, web\"}
      spec:
        containers: [{name: db}, {name: web}]
";
    let (strict, injected, out) = check_and_inject(elastic);
    assert_eq!((strict, injected), (1, 0), "{out}");
    assert!(out.contains("warning[place-not-read]") && out.contains("pod.yaml:9:23: warning"), "{out}");
    let (strict, injected, out) = check_and_inject(&format!("{CHAIN}---\n{elastic}"));
    assert!((strict, injected) == (1, 0) && out.contains("pod.yaml:24:23: warning"), "{out}");
}

#[test]
fn key_in_a_patch_is_a_warning() {
    let json_patch = "- {op: add, path: /spec/template/metadata/annotations/podgate.io~1order, value: \"db, web\"}\n";
    let in_kustomization =
        format!("resources: [a.yaml]\npatches:\n- target: {{kind: Deployment}}\n  patch: |-\n    {json_patch}");
    let merge = "patches:\n- patch: |-\n    metadata: {name: a, annotations: {podgate.io/order: \"db, web\"}}\n";
    for text in [json_patch, &in_kustomization, merge] {
        let (strict, injected, out) = check_and_inject(text);
        assert_eq!((strict, injected), (1, 0), "{out}");
        assert!(out.contains("warning[place-not-read]") && out.contains("kubectl kustomize"), "{out}");
    }
}

/// A manifest can be a copy of a running Pod. `inject` removes the states, and `check` reports them.
#[test]
fn states_in_a_manifest_are_warnings_and_inject_removes_them() {
    let manifest = "\
apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations: {status.podgate.io/db: Ready, sandbox.podgate.io/id: x, override.podgate.io/db: Ready}
spec:
  containers: [{name: db, command: [db]}, {name: api, command: [api]}]
";
    let ordered = manifest.replace("annotations: {", "annotations: {podgate.io/order: 'db, api', ");
    for text in [manifest, &ordered] {
        let (_, injected, out) = check_and_inject(text);
        assert_eq!((injected, out.matches("warning[copied-state]").count()), (0, 3), "{out}");
        assert!(!out.contains("error[") && !out.contains(": error:"), "{out}");
    }
    // `uninject` removes what `inject` has added, even if the sidecar has written annotations since.
    let (directory, _) = file(&ordered);
    let run = |command: &str| {
        let output =
            program(directory.path()).current_dir(directory.path()).args([command, "pod.yaml"]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let injected = run("inject").1;
    assert!(
        !["status.podgate", "sandbox.podgate", "override.podgate"].iter().any(|key| injected.contains(key)),
        "{injected}"
    );
    let injected = injected.replace("annotations: {", "annotations: {status.podgate.io/db: Ready, ");
    assert!(injected.contains("podgate.io/injected") && injected.contains("status.podgate.io"), "{injected}");
    std::fs::write(directory.path().join("pod.yaml"), injected).unwrap();
    let (code, plain) = run("uninject");
    assert!(code == Some(0) && !plain.contains("podgate.io/injected"), "{plain}");
}
