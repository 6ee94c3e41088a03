//! Tests of the programs' dependencies, and of the targets in Cargo.toml.

use std::collections::BTreeSet;
use std::process::Command;

fn tree(arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO"))
        .args(["tree", "--no-default-features", "--edges", "normal", "--prefix", "none", "--offline"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// Returns the names of all crates in a program's dependency tree.
fn crates(features: &str) -> BTreeSet<String> {
    let tree = tree(&["--features", features, "--format", "{p}"]);
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// The agent must not depend on a runtime, an API client or TLS. Checks the dependency tree, not the linked binary.
#[test]
fn agent_has_few_dependencies_and_no_runtime() {
    let names = crates("");
    let heavy =
        ["tokio", "futures", "mio", "kube", "hyper", "http", "rustls", "ring", "native-tls", "openssl", "regex"];
    let found: Vec<&String> = names
        .iter()
        .filter(|name| heavy.iter().any(|heavy| *name == heavy || name.starts_with(&format!("{heavy}-"))))
        .collect();
    assert!(found.is_empty(), "the agent depends on {found:?}");
    assert!((10..=45).contains(&names.len()), "{} crates: {names:?}", names.len());
}

/// The webhook is a separate program, so that the plugin needs no server code.
#[test]
fn plugin_has_no_server_dependencies() {
    let names = crates("kubectl");
    for server in ["rcgen", "prometheus-client", "x509-parser"] {
        assert!(!names.contains(server), "the plugin depends on {server}");
        assert!(crates("webhook").contains(server), "the webhook does not depend on {server}; was the crate renamed?");
    }
    let tree = tree(&["--features", "kubectl", "--format", "{p} [{f}]"]);
    let hyper = tree.lines().find(|line| line.starts_with("hyper ")).unwrap();
    assert!(!hyper.contains("server"), "{hyper}");
}

/// Without default features, clap supports `--help` only if these features are enabled. The default features of inotify
/// need tokio.
#[test]
fn dependencies_have_the_right_features() {
    let tree = tree(&["--format", "{p} [{f}]"]);
    let features = |name: &str| {
        let line = tree
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("no crate {name}"));
        let list = line.rsplit_once('[').unwrap().1.split(']').next().unwrap();
        list.split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    for wanted in ["std", "help", "usage", "error-context"] {
        assert!(features("clap").iter().any(|feature| feature == wanted), "clap lacks {wanted}");
    }
    for (name, unwanted) in [("clap", "color"), ("inotify", "stream"), ("tracing-subscriber", "env-filter")] {
        assert!(features(name).iter().all(|feature| feature != unwanted), "{name} has {unwanted}");
    }
}

/// The admission policy must allow the longest annotation that the sidecar writes.
#[test]
fn policy_allows_longest_sidecar_annotation() {
    let policy = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/policy.yaml")).unwrap();
    assert!(policy.contains(&format!("size() <= {}", podgate::core::annotations::VALUE_MAX)));
}

/// Container images are built without the folders of tests and benches. Cargo fails on a missing target unless the
/// target has a `path`.
#[test]
fn every_target_has_a_path() {
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let targets: Vec<&str> = manifest.split("\n[[").skip(1).map(|rest| rest.split("\n[").next().unwrap()).collect();
    assert!(targets.len() > 10, "{targets:?}");
    for target in targets {
        assert!(target.contains("\npath = "), "no path: [[{target}");
    }
}
