//! Limits on the lines that `inject` adds to a manifest.

use super::done;
use std::fs;
use std::path::PathBuf;

/// Maximum number of lines that `inject` adds to [`EXAMPLE`] in entrypoint mode.
const ENTRYPOINT_MAX: usize = 45;
/// The same in hold mode.
const HOLD_MAX: usize = 50;
/// The same without a sidecar.
const LEAN_MAX: usize = 18;
/// Maximum of the median over all manifests of the repository.
const MEDIAN_MAX: usize = 50;
const LINE_WIDTH: usize = 100;

/// Deployment with the order of the README.
const EXAMPLE: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
spec:
  selector:
    matchLabels: {app: shop}
  template:
    metadata:
      labels: {app: shop}
      annotations:
        podgate.io/order: \"db, api, web\"
    spec:
      containers:
      - name: db
        image: postgres:17
        command: [postgres]
        readinessProbe:
          tcpSocket: {port: 5432}
      - name: api
        image: example.com/api:1
        command: [/usr/bin/api]
        readinessProbe:
          httpGet: {path: /healthz, port: 8080}
      - name: web
        image: example.com/web:1
        command: [/usr/bin/web]
        readinessProbe:
          httpGet: {path: /, port: 80}
";

/// Returns the example without commands, which podgate injects in hold mode.
fn held_example() -> String {
    EXAMPLE.split_inclusive('\n').filter(|line| !line.contains("command:")).collect()
}

/// Returns the number of lines by which `inject` lengthens a manifest, per Pod template.
fn growth(old: &str, new: &str) -> Option<usize> {
    let pods = new.matches("podgate.io/injected:").count();
    (new.lines().count() - old.lines().count()).checked_div(pods)
}

/// Returns the manifests of the repository that `inject` accepts, each with the injected text.
fn manifests() -> Vec<(String, String, String)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests/manifests/inject/corpus", "docs", "docs/recipes", "demo"];
    let files = folders.iter().flat_map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let injected = files.iter().filter_map(|file| {
        let old = fs::read_to_string(file).unwrap();
        let run = super::run(&["inject", "-q", "-"], &old);
        (run.code == 0).then(|| (file.display().to_string(), old, run.out))
    });
    injected.collect()
}

#[test]
fn inject_adds_few_lines() {
    let order = "podgate.io/order: \"db, api, web\"\n";
    let lean = EXAMPLE.replace(order, &format!("{order}        podgate.io/sidecar: none\n"));
    for (old, limit) in [(EXAMPLE, ENTRYPOINT_MAX), (&held_example(), HOLD_MAX), (&lean, LEAN_MAX)] {
        let new = done(&["inject", "-q", "-"], old);
        assert!(growth(old, &new).unwrap() <= limit, "{:?} lines, but the limit is {limit}:\n{new}", growth(old, &new));
        assert_eq!(done(&["inject", "-q", "-"], &new), new);
        assert_eq!(done(&["uninject", "-q", "-"], &new), old);
    }
    let mut all: Vec<usize> = manifests().iter().filter_map(|(_, old, new)| growth(old, new)).collect();
    all.sort_unstable();
    assert!(all.len() >= 60, "{}", all.len());
    assert!(all[all.len() / 2] <= MEDIAN_MAX, "{all:?}");
}

#[test]
fn new_lines_are_short() {
    let example = (String::new(), EXAMPLE.to_owned(), done(&["inject", "-q", "-"], EXAMPLE));
    for (file, old, new) in manifests().into_iter().chain([example]) {
        let before_bracket = |line: &str| line.split_once(['[', '{']).map(|(before, _)| before.to_owned());
        let long = new.lines().filter(|line| line.chars().count() > LINE_WIDTH && !old.lines().any(|old| old == *line));
        for line in long {
            let is_in_list = line.contains("{\"name\":");
            let is_single = line.contains("podgate.io/injected:") || line.trim().starts_with(['"', '\'']);
            // `inject` does not break an existing line in flow style.
            let is_extended = old.lines().any(|old| before_bracket(old).is_some_and(|old| line.starts_with(&old)));
            assert!(is_in_list || is_single || is_extended, "{file}: {line}");
        }
    }
}

#[test]
fn list_of_containers_has_one_line_for_each() {
    let new = done(&["inject", "-q", "-"], EXAMPLE);
    let expected = "        - name: PODGATE_CONTAINERS\n          value: |-\n            [{\"name\":\"db\",";
    assert!(new.contains(expected) && new.contains("},\n             {\"name\":\"api\","), "{new}");
    // The same text in JSON, and in a file with Windows line breaks.
    let values = |text: &str| super::yaml::Source::parse("f", text.to_owned()).documents.remove(0).value;
    let json = done(&["inject", "-q", "-"], &values(EXAMPLE).to_string());
    let windows = done(&["inject", "-q", "-"], &EXAMPLE.replace('\n', "\r\n"));
    assert_eq!([values(&json), values(&windows)], [values(&new), values(&new)]);
    assert!(json.contains("},\\n {\\\"name\\\":\\\"api\\\","), "{json}");
}
