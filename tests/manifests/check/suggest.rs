//! Tests of `kubectl podgate suggest`: output, `--write`, exit codes, and the orders of real manifests.

use super::{check, file, program};
use std::fs;
use std::path::Path;
use std::process::Command;

const SHOP: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: nginx}
data:
  nginx.conf: |
    upstream api { server 127.0.0.1:8080; }
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
spec:
  template:
    spec:
      # the shop
      containers:
      - name: web
        image: web:1
        volumeMounts: [{name: conf, mountPath: /etc/nginx}]
      - name: api
        image: api:1
        ports: [{containerPort: 8080}]
        env: [{name: DB_URL, value: 'postgres://localhost:5432/shop'}]
      - name: db
        image: db:1
        readinessProbe: {tcpSocket: {port: 5432}}
      volumes: [{name: conf, configMap: {name: nginx}}]
";

#[test]
fn evidence_and_order_are_shown_and_written() {
    let (directory, path) = file(SHOP);
    let run = |arguments: &[&str]| {
        let output = program(directory.path()).current_dir(directory.path()).arg("suggest").args(arguments).output();
        let output = output.unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let out = run(&["pod.yaml"]);
    for expected in [
        "the file nginx.conf (ConfigMap nginx) of web names 127.0.0.1:8080, and api declares this port",
        "the variable DB_URL of api names localhost:5432, and db has a probe of this port",
        "= help: start db before api; otherwise, the first connections of api fail, and it may exit",
        "= help: start api before web; otherwise, the first requests through web fail",
        "pod.yaml:9:1: Deployment/shop: podgate.io/order: \"db, api, web\"",
        "pod.yaml:9:1: Deployment/shop: ready.podgate.io/api: \"tcp://127.0.0.1:8080\"",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), SHOP, "nothing is written without --write");
    assert_eq!(run(&["--write", "pod.yaml"]), out);
    let annotated = "  template:\n    metadata:\n      annotations:\n        podgate.io/order: \"db, api, web\"\n        ready.podgate.io/api: tcp://127.0.0.1:8080\n    spec:\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), SHOP.replace("  template:\n    spec:\n", annotated));
    assert_eq!(
        run(&["-w", "pod.yaml"]),
        "pod.yaml:9:1: Deployment/shop: declares an order already, or is excluded by its label\n"
    );
    // The rest of the file is unchanged, and the order is valid.
    assert_eq!(check(&directory, &["pod.yaml"]).0, 0);
}

#[test]
fn reasons_for_no_order_are_told() {
    let pod = |containers: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n{containers}")
    };
    let own = |name: &str, port: u16, needs: u16| {
        format!("  - {{name: {name}, ports: [{{containerPort: {port}}}], args: ['--to=localhost:{needs}']}}\n")
    };
    for (containers, expected) in [
        (own("a", 1, 2), "Pod/p: nothing needs an order: no container clearly needs another one\n"),
        (
            own("exporter", 1, 2) + &own("b", 2, 2) + &own("telegraf", 3, 2),
            "Pod/p: nothing needs an order, because these retry: exporter, telegraf until b answers\n",
        ),
        (
            own("a", 1, 2)
                + "  initContainers: [{name: b, restartPolicy: Always, ports: [{containerPort: 2}], readinessProbe: {}}]\n",
            "Pod/p: no order for a native sidecar: it starts first, but Kubernetes does not wait until it is Ready; run kubectl podgate check\n",
        ),
        (own("a", 1, 9) + &own("b", 2, 3), "Pod/p: no order, because an address has no known owner\n"),
        (
            own("a", 1, 2) + &own("b", 2, 1),
            "Pod/p: no order, because the containers need each other: a waits for b, b waits for a\n",
        ),
        (
            // The client answers the readinessProbe of its server.
            own("a", 1, 2) + "  - {name: b, ports: [{containerPort: 2}], readinessProbe: {tcpSocket: {port: 1}}}\n",
            "Pod/p: no order, because b, a does not help: the readinessProbe of b uses port 1 of a, but a starts only when b is Ready: the wait never ends\n",
        ),
    ] {
        let (directory, _) = file(&pod(&containers));
        let output =
            program(directory.path()).current_dir(directory.path()).args(["suggest", "pod.yaml"]).output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && out.ends_with(expected), "{expected}: {out}");
        // A Pod that needs no order has one line.
        assert!(!expected.contains("nothing") || out.lines().count() == 1, "{out}");
    }
    let secret = "  - {name: b, envFrom: [{secretRef: {name: db}}, {configMapRef: {name: conf}}]}\n";
    let (directory, _) = file(&pod(secret));
    let output =
        program(directory.path()).current_dir(directory.path()).args(["suggest", "pod.yaml"]).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "pod.yaml:2:1: Pod/p: nothing needs an order: no container clearly needs another one\n\
         pod.yaml:2:1: Pod/p: not read: ConfigMap conf, Secret db (suggest reads only ConfigMaps in the input)\n"
    );
    // A check that the user has written remains.
    let (directory, path) = file(
        &(pod(&(own("a", 1, 2) + &own("b", 2, 2)))
            .replace("{name: p}", "{name: p, annotations: {ready.podgate.io/b: 'tcp://:7'}}")),
    );
    program(directory.path()).args(["suggest", "-w", path.to_str().unwrap()]).assert().success();
    let written = fs::read_to_string(&path).unwrap();
    assert!(
        written.contains("podgate.io/order: \"b, a\"") && written.contains("ready.podgate.io/b: 'tcp://:7'"),
        "{written}"
    );
    let (directory, path) = file("a: [");
    for (arguments, code) in [
        (vec!["suggest", path.to_str().unwrap()], 0),
        (vec!["suggest", "none.yaml"], 1),
        (vec!["suggest", "-w", "-"], 64),
        (vec!["suggest"], 64),
    ] {
        let output = program(directory.path()).args(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

/// Compares the output of `suggest` with the orders in `suggest.tsv`. The columns of the file are repository, commit,
/// file, object, order, and a reader's judgment of the errors in the order. The manifests come from public
/// repositories, which must be in `PODGATE_SUGGESTIONS/OWNER/NAME`. The rules of `suggest` were written with them.
///
/// Of 153 Pods, 45 get an order. These orders have 61 edges, of which one is wrong, because the server reads a file that
/// the client writes. For 98 more pairs, `suggest` says that the client retries. For 10 addresses, it names the
/// containers that may own them.
#[test]
#[ignore = "needs the repositories: make suggestions"]
fn recorded_orders_of_public_manifests() {
    let directory = std::env::var_os("PODGATE_SUGGESTIONS").expect("PODGATE_SUGGESTIONS=DIRECTORY");
    let home = tempfile::tempdir().unwrap();
    let table = include_str!("suggest.tsv");
    for row in table.lines() {
        let [repository, commit, path, object, order] = row.split('\t').take(5).collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let git = Path::new(&directory).join(repository);
        let manifest =
            Command::new("git").arg("-C").arg(git).args(["show", &format!("{commit}:{path}")]).output().unwrap();
        assert!(manifest.status.success(), "{row}: {}", String::from_utf8_lossy(&manifest.stderr));
        let output = program(home.path()).args(["suggest", "-"]).write_stdin(manifest.stdout).output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        let verdict = out.lines().find_map(|line| Some(line.split_once(&format!(": {object}: "))?.1));
        let found = verdict.unwrap_or_else(|| panic!("{row}: {out}")).strip_prefix("podgate.io/order: ");
        assert_eq!(found.unwrap_or("\"\"").trim_matches('"'), order, "{row}");
    }
}
