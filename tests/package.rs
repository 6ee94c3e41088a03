//! Dependencies of the programs.

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

/// The names of all crates in a program's tree.
fn crates(features: &str) -> BTreeSet<String> {
    let tree = tree(&["--features", features, "--format", "{p}"]);
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// No runtime, no API client, no TLS: a compile error, not an observation about a linker.
#[test]
fn the_agents_tree_is_small_and_holds_no_runtime() {
    let names = crates("");
    let heavy =
        ["tokio", "futures", "mio", "kube", "hyper", "http", "rustls", "ring", "native-tls", "openssl", "regex"];
    let found: Vec<&String> = names
        .iter()
        .filter(|name| heavy.iter().any(|heavy| *name == heavy || name.starts_with(&format!("{heavy}-"))))
        .collect();
    assert!(found.is_empty(), "in the agent's tree: {found:?}");
    assert!((10..=45).contains(&names.len()), "{} crates: {names:?}", names.len());
}

/// The webhook is a program of its own: who installs the tool gets no server, nor what a server needs.
#[test]
fn the_tools_tree_holds_no_server() {
    let names = crates("kubectl");
    for server in ["rcgen", "prometheus-client", "x509-parser"] {
        assert!(!names.contains(server), "in the tool's tree: {server}");
        assert!(crates("webhook").contains(server), "{server} has another name now");
    }
    let tree = tree(&["--features", "kubectl", "--format", "{p} [{f}]"]);
    let hyper = tree.lines().find(|line| line.starts_with("hyper ")).unwrap();
    assert!(!hyper.contains("server"), "{hyper}");
}

/// clap without its defaults loses `--help` unless these are named; inotify's default is tokio.
#[test]
fn features_that_matter_are_as_they_should_be() {
    let tree = tree(&["--format", "{p} [{f}]"]);
    let features = |name: &str| {
        let line =
            tree.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("no {name}"));
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

/// The longest annotation that the sidecar writes is one that the policy lets through.
#[test]
fn what_the_sidecar_writes_finds_room_in_what_the_policy_allows() {
    let policy = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/policy.yaml")).unwrap();
    assert!(policy.contains(&format!("size() <= {}", podgate::core::times::MAX_BYTES)));
}

/// An image is built without tests and benches: Cargo looks for those that say no path, and stops where it finds none.
#[test]
fn every_target_says_its_path() {
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let targets: Vec<&str> = manifest.split("\n[[").skip(1).map(|rest| rest.split("\n[").next().unwrap()).collect();
    assert!(targets.len() > 10, "{targets:?}");
    for target in targets {
        assert!(target.contains("\npath = "), "no path: [[{target}");
    }
}
