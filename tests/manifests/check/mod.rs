//! Tests of the command `kubectl podgate check`: output in each format, and exit codes.

mod docs;
mod errors;
mod findings;
mod forecasts;
mod keys;
mod orders;
mod returned;
pub(crate) mod server;
mod suggest;
mod verify;

use crate::screen::assert_screen;
use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Returns a command that runs the program with an empty environment.
pub(crate) fn program(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-podgate"));
    command.env_clear().env("HOME", home);
    command
}

/// Creates a directory with one file `pod.yaml`.
pub(crate) fn file(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pod.yaml");
    fs::write(&path, text).unwrap();
    (directory, path)
}

/// Runs `check`. Returns exit code, standard output and standard error.
pub(crate) fn check(directory: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    let output = program(directory.path()).current_dir(directory.path()).arg("check").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Runs `check pod.yaml` with these flags, and asserts its screen.
fn assert_check(name: &str, directory: &TempDir, flags: &[&str]) {
    let arguments = [&["pod.yaml"], flags].concat();
    assert_screen(name, &[&["check"], &arguments[..]].concat(), &check(directory, &arguments));
}

pub(crate) const CHAIN: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  template:
    metadata:
      annotations:
        podgate.io/order: \"db, api & cache, web\"
    spec:
      containers:
      - {name: db, command: [db], readinessProbe: {tcpSocket: {port: 5432}}}
      - {name: api, command: [api], readinessProbe: {tcpSocket: {port: 8080}}}
      - {name: cache, command: [cache], readinessProbe: {tcpSocket: {port: 6379}}}
      - {name: web, command: [web]}
";

#[test]
fn declared_stop_order_shows_the_shutdown_time_of_each_container() {
    let key = "        podgate.io/order";
    let (directory, _) = file(&CHAIN.replace(key, &format!("        podgate.io/stop-order: reverse\n{key}")));
    // The note is only about db, because only db keeps less than a third of the grace period.
    assert_check("check-stop-order", &directory, &[]);
}

#[test]
fn check_prints_the_forecast() {
    let (directory, _) = file(CHAIN);
    assert_check("check-forecast", &directory, &[]);
    let (code, out, _) = check(&directory, &["pod.yaml", "--quiet"]);
    assert_eq!((code, out.as_str()), (0, "1 template checked: 0 errors, 0 warnings, 0 notes\n"));
}

#[test]
fn finding_shows_its_place_and_fix() {
    let (directory, _) =
        file(&CHAIN.replace("db, api & cache", "db, apii & cache").replace("name: shop}", "name: shop}\n# ü"));
    assert_check("check-finding", &directory, &["-q"]);
}

#[test]
fn rule_name_is_a_link_on_a_terminal() {
    let (directory, _) = file(&CHAIN.replace("db, api & cache", "db, apii & cache"));
    let mut command = program(directory.path());
    let command = command.current_dir(directory.path()).env("CLICOLOR_FORCE", "1").args(["check", "pod.yaml"]);
    let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let link = "\x1b]8;;https://github.com/podgate/podgate/blob/main/docs/rules.md#unknown-container\x1b\\unknown-container\x1b]8;;\x1b\\";
    assert!(out.contains(link), "{out:?}");
}

#[test]
fn cycle_is_shown_completely() {
    let (directory, _) =
        file(&CHAIN.replace("      annotations:\n", "      annotations:\n        after.podgate.io/db: web\n"));
    assert_check("check-cycle", &directory, &[]);
}

#[test]
fn warnings_fail_only_with_strict() {
    let (directory, _) = file(&CHAIN.replace(", readinessProbe: {tcpSocket: {port: 5432}}", ""));
    let (code, out, _) = check(&directory, &["pod.yaml"]);
    assert!(code == 0 && out.contains("warning[no-readiness-probe]: api, cache, web wait until db is Ready"), "{out}");
    assert_eq!(check(&directory, &["pod.yaml", "--strict"]).0, 1);
}

#[test]
fn same_finding_is_reported_for_each_document() {
    let one = CHAIN.replace(", readinessProbe: {tcpSocket: {port: 5432}}", "");
    let (directory, _) = file(&format!("{one}---\n{one}"));
    let (_, out, _) = check(&directory, &["pod.yaml"]);
    assert!(out.contains("pod.yaml:11:9") && out.contains("pod.yaml:26:9"), "{out}");
    assert!(out.contains("2 templates checked: 0 errors, 2 warnings"), "{out}");
}

#[test]
fn templates_without_an_order_count_as_checked() {
    let job = "apiVersion: batch/v1
kind: Job
metadata: {name: report}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: main:1, command: [main]}
      - {name: log, image: busybox, command: [tail, -F, /log]}
";
    let (directory, _) = file(&format!("{CHAIN}---\n{job}"));
    let (_, out, _) = check(&directory, &["pod.yaml", "--quiet"]);
    assert!(out.contains("2 templates checked: 0 errors, 1 warning"), "{out}");
}

#[test]
fn json_contains_findings_and_forecasts() {
    let (directory, _) = file(&CHAIN.replace(", readinessProbe: {tcpSocket: {port: 5432}}", ""));
    let (code, out, _) = check(&directory, &["pod.yaml", "-o", "json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["errors"], &json["warnings"]), (0, &0.into(), &1.into()));
    let finding = &json["findings"][0];
    assert_eq!(finding["rule"], "no-readiness-probe");
    assert_eq!((&finding["line"], &finding["column"], &finding["file"]), (&11.into(), &9.into(), &"pod.yaml".into()));
    assert_eq!(finding["place"], "spec.template.spec.containers[0]");
    let template = &json["templates"][0];
    assert_eq!((&template["name"], &template["works"]), (&"Deployment/shop".into(), &true.into()));
    assert_eq!(template["starts"], serde_json::json!([["db"], ["api", "cache"], ["web"]]));
    assert_eq!(template["longestWaitSeconds"], 300.0);
    assert_eq!(template["containers"][1]["mode"], "entrypoint");
}

#[test]
fn stdin_directories_and_files_without_an_order_are_read() {
    let (directory, _) = file(CHAIN);
    let output = program(directory.path()).args(["check", "-"]).write_stdin(CHAIN).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("Deployment/shop (<stdin>:2)"));
    assert_eq!(check(&directory, &["-f", "pod.yaml", "--filename=pod.yaml"]).1.matches("Deployment/shop").count(), 1);
    fs::create_dir(directory.path().join("deep")).unwrap();
    fs::write(directory.path().join("deep/other.yaml"), CHAIN.replace("shop", "other")).unwrap();
    assert!(!check(&directory, &["."]).1.contains("Deployment/other"));
    assert!(check(&directory, &["-R", "."]).1.contains("Deployment/other"));
    fs::write(directory.path().join("none.yaml"), "kind: Service\n").unwrap();
    for (arguments, expected) in [
        (&["none.yaml"][..], (0, true)),
        (&["none.yaml", "--strict"], (1, true)),
        (&["none.yaml", "--strict", "-o", "json"], (1, true)),
        (&["none.yaml", "-o", "json"], (0, false)),
        (&["none.yaml", "pod.yaml", "--strict"], (0, false)),
    ] {
        let (code, _, err) = check(&directory, arguments);
        assert_eq!((code, err.contains("no order declared")), expected, "{arguments:?}: {err}");
        assert_eq!(err.starts_with("error: "), expected == (1, true), "{arguments:?}: {err}");
    }
}

#[test]
fn unreadable_files_are_findings_and_the_rest_is_checked() {
    let (directory, _) = file(&CHAIN.replace("db, api & cache", "db, apii & cache"));
    for (name, text) in [
        ("a.yaml", "# podgate.io\na: {{ .Values.a }}\n---\nb: 1\n"),
        ("b.yaml", "no: [key, of, podgate\n"),
        ("z/z.json", "{\"podgate.io/order\": 1,\n \"ü\": ü ü\": 2}"),
    ] {
        fs::create_dir_all(directory.path().join("z")).unwrap();
        fs::write(directory.path().join(name), text).unwrap();
    }
    fs::write(directory.path().join("c.yaml"), b"# podgate.io\na: \xff\n").unwrap();
    let (code, out, err) = check(&directory, &["-R", ".", "nowhere.yaml", "-o", "json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    let found = |finding: &Value| {
        let text = |field: &str| finding[field].as_str().unwrap().to_owned();
        format!("{}:{}:{}: {}", text("file"), finding["line"], finding["column"], text("message"))
    };
    let found: Vec<String> = json["findings"].as_array().unwrap().iter().map(found).collect();
    let expected = [
        "./a.yaml:2:5: this is a Helm template",
        "./c.yaml:1:1: invalid UTF-8 in line 2; save the file as UTF-8",
        "./pod.yaml:8:32: there is no container apii",
        "./z/z.json:2:11: invalid YAML: while parsing a flow mapping, did not find expected ',' or '}'",
        "nowhere.yaml:1:1: cannot read: no such file",
    ];
    assert!(found.len() == expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found:?} instead of {expected:?}");
    }
    assert_eq!((code, &json["errors"]), (1, &5.into()));
    assert!(err.starts_with(
        "note: ignored an unreadable document without \"podgate.io\" or in a chart's templates: ./b.yaml:1:5: "
    ));

    let arguments = ["-q", "a.yaml", "nowhere.yaml"];
    assert_screen("check-unreadable", &[&["check"], &arguments[..]].concat(), &check(&directory, &arguments));
}

#[test]
fn templates_of_a_chart_are_errors_only_if_named() {
    let (directory, _) = file(CHAIN);
    fs::create_dir_all(directory.path().join("chart/templates/sub")).unwrap();
    fs::write(directory.path().join("chart/Chart.yaml"), "name: shop\n").unwrap();
    let template = "chart/templates/sub/web.yaml";
    fs::write(directory.path().join(template), "a: {{ .Values.a }} # podgate.io/order\n").unwrap();
    for paths in [&["-R", "."][..], &["-R", "chart", "pod.yaml"], &["--strict", "-R", "."]] {
        let (code, out, err) = check(&directory, paths);
        assert_eq!(code, 0, "{paths:?}: {out}{err}");
        assert!(err.contains("web.yaml:1:5: this is a Helm template; check or inject the output of"), "{err}");
    }
    assert_eq!(check(&directory, &["-R", ".", template]).0, 1);
}

#[test]
fn kubectls_flags_have_a_tip() {
    let (directory, _) = file(CHAIN);
    for (arguments, expected) in [
        (&["-k", "base"][..], "  tip: kubectl kustomize DIR | kubectl podgate check -\n"),
        (&["x", "-n", "shop"], "  tip: kubectl get KIND/NAME -n NAMESPACE -o yaml | kubectl podgate check -\n"),
        (&["-q", "deployment/shop"], "`kubectl get deployment/shop -o yaml | kubectl podgate check -`"),
    ] {
        let (_, out, err) = check(&directory, arguments);
        assert!(format!("{out}{err}").contains(expected), "{arguments:?}: {out}{err}");
    }
}

#[test]
fn usage_errors_exit_with_64() {
    let (directory, _) = file(CHAIN);
    for (arguments, expected) in [
        (&[][..], "<FILE>"),
        (&["x", "--kubernetes", "new"], "write 1.34"),
        (&["x", "-o", "yaml"], "possible values: text, json"),
    ] {
        let (code, _, err) = check(&directory, arguments);
        assert!(code == 64 && err.contains(expected), "{err}");
    }
}

#[test]
fn failed_image_lookup_gives_one_line() {
    let (directory, _) = file(&CHAIN.replace("command: [web]", "image: 'localhost:1/web:1'"));
    let (code, out, err) = check(&directory, &["pod.yaml", "--resolve-images"]);
    assert_eq!((code, out.as_str(), err.matches('\n').count()), (1, "", 1), "{err}");
    assert!(err.contains("container web: image localhost:1/web:1"), "{err}");
    let (code, out, _) = check(&directory, &["pod.yaml"]);
    assert!(code == 0 && out.contains("(held; its command is not known)"), "{out}");
}

#[test]
fn long_lines_are_truncated() {
    let (directory, path) = file("");
    let long = "x".repeat(900_000);
    let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels":
        {"note": long}, "annotations": {"podgate.io/order": "a, c"}}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
    fs::write(&path, pod.to_string()).unwrap();
    let (code, out, _) = check(&directory, &["pod.yaml"]);
    assert!(code == 1 && out.len() < 2000 && out.contains("there is no container c"), "{} bytes", out.len());
    assert!(out.contains("pod.yaml:1:900"), "{out}");
}

#[test]
fn terminal_control_characters_are_escaped() {
    let (directory, _) = file(
        "kind: Pod\nmetadata:\n  name: \"\\e[31mred\"\n  annotations:\n    podgate.io/order: \"a, \\e[2Jb\"\n    podgate.io/mode: \"\\u202e\\e]0;x\\a\"\n\
         spec:\n  containers: [{name: a}]\n",
    );
    let (code, out, err) = check(&directory, &["pod.yaml"]);
    assert_eq!(code, 1);
    assert!(!out.contains(['\u{1b}', '\u{7}', '\u{202e}']) && err.is_empty(), "{out:?}");
}

#[test]
fn injected_manifest_is_checked_without_podgates_parts() {
    let (directory, _) = file(CHAIN);
    let before = check(&directory, &["pod.yaml"]).1;
    let mut document: Value =
        serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"}});
    let containers: Vec<Value> = [("db", 5432), ("api", 8080), ("cache", 6379)]
        .iter()
        .map(|(name, port)| serde_json::json!({"name": name, "command": [name], "readinessProbe": {"tcpSocket": {"port": port}}}))
        .chain([serde_json::json!({"name": "web", "command": ["web"]})])
        .collect();
    let template = serde_json::json!({"metadata": {"annotations": {"podgate.io/order": "db, api & cache, web"}}, "spec": {"containers": containers}});
    let options = podgate::order::inject::Options::new("podgate:x");
    let injected =
        podgate::order::inject::inject(&template, &options, &podgate::order::plan::KnownFacts::default()).unwrap();
    document["spec"] = serde_json::json!({"template": injected.value});
    fs::write(directory.path().join("pod.yaml"), serde_json::to_string_pretty(&document).unwrap()).unwrap();
    let (code, after, _) = check(&directory, &["pod.yaml"]);
    assert_eq!(code, 0, "{after}");
    assert_eq!(after.replace("pod.yaml:3, injected", "pod.yaml:2"), before);
}

#[test]
fn init_container_before_the_injected_sidecar_warns() {
    let (directory, path) = file(&CHAIN.replace("command: [web]", "image: web:1"));
    let output = program(directory.path()).arg("inject").arg(&path).output().unwrap();
    let injected = String::from_utf8(output.stdout).unwrap();
    fs::write(&path, &injected).unwrap();
    let (code, out, _) = check(&directory, &["pod.yaml", "--strict"]);
    assert_eq!(code, 0, "{out}");
    let moved = injected.replacen("- name: podgate\n", "- {name: mesh-init, image: mesh}\n      - name: podgate\n", 1);
    fs::write(&path, moved).unwrap();
    let (code, out, _) = check(&directory, &["pod.yaml"]);
    assert!(code == 0 && out.contains("warning[sidecar-not-first]: mesh-init comes before podgate's sidecar"), "{out}");
}

#[test]
fn deadline_of_a_job_in_a_cron_job_counts() {
    let job = |deadline: &str| {
        format!(
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: report}}\nspec:\n  jobTemplate:\n    spec:\n{deadline}\
             \x20     template:\n        metadata: {{annotations: {{podgate.io/order: \"db, report\"}}}}\n        spec:\n\
             \x20         restartPolicy: Never\n          containers:\n\
             \x20         - {{name: db, command: [db], readinessProbe: {{tcpSocket: {{port: 1}}}}}}\n\
             \x20         - {{name: report, image: report:1}}\n"
        )
    };
    let (directory, path) = file(&job(""));
    let (code, out, _) = check(&directory, &["pod.yaml"]);
    assert!(code == 1 && out.contains("error[hold-without-deadline]"), "{out}");
    fs::write(path, job("      activeDeadlineSeconds: 3600\n")).unwrap();
    let (code, out, _) = check(&directory, &["pod.yaml", "-o", "json"]);
    assert_eq!(code, 0, "{out}");
    let found: Value = serde_json::from_str(&out).unwrap();
    let report = &found["templates"][0]["containers"][1];
    assert_eq!((&report["mode"], &report["because"]), (&"hold".into(), &"its command is not known".into()));
}

#[test]
fn finding_marks_the_word_in_any_yaml_style() {
    let pod = "spec:\n  containers: [{name: db, command: [db]}, {name: api, command: [api]}]\nkind: Pod\n";
    for (annotations, place, marked) in [
        ("\n    podgate.io/order: db, apii", "3:27", "apii"),
        ("\n    podgate.io/order: 'db, apii' # apii", "3:28", "apii"),
        ("\n    podgate.io/order: |-\n      db, apii", "4:11", "apii"),
        ("\n    podgate.io/order: >-\n      db,\n      apii", "5:7", "apii"),
        ("\n    podgate.io/order: \"db, \\x61pii\"", "3:5", "podgate.io/order"),
        (" {x: ü, \"podgate.io/order\": \"db, apii\"}", "2:48", "apii"),
        (" {\"podgate.io/order\": \"'a', b'\"}", "2:38", "'a'"),
    ] {
        let text = format!("metadata:\n  annotations:{annotations}\n{pod}");
        for (before, first_line) in [("", 0), ("# x\n---\n", 2)] {
            let (directory, _) = file(&format!("{before}{text}"));
            let (_, out, _) = check(&directory, &["-o", "json", "pod.yaml"]);
            let json: Value = serde_json::from_str(&out).unwrap();
            let finding = &json["findings"][0];
            let number = |field: &str| finding[field].as_u64().unwrap();
            let (line, column) = (number("line"), number("column"));
            assert_eq!(format!("{}:{column}", line - first_line), place, "{text}");
            let line_text = text.lines().nth((line - first_line) as usize - 1).unwrap();
            let mark = line_text.chars().skip(column as usize - 1).take((number("endColumn") - column) as usize);
            assert_eq!(mark.collect::<String>(), marked, "{text}");
            // `inject` reports the same place.
            let mut inject = program(directory.path());
            let inject = inject.current_dir(directory.path()).args(["inject", "-f", "pod.yaml"]).output().unwrap();
            let error = format!("pod.yaml:{line}:{column}: error: {}", finding["message"].as_str().unwrap());
            assert!(String::from_utf8(inject.stderr).unwrap().contains(&error), "{error}");
        }
    }
}

#[test]
fn missing_field_marks_its_nearest_parent() {
    let order = "kind: Pod\nmetadata: {annotations: {podgate.io/order: a}}\n";
    let (directory, _) = file(&format!("{order}spec: {{containers: [{{name: a}}, {{}}]}}\n"));
    let json: Value = serde_json::from_str(&check(&directory, &["-o", "json", "pod.yaml"]).1).unwrap();
    let finding = &json["findings"][0];
    assert_eq!((&finding["line"], &finding["column"]), (&3.into(), &32.into()), "{json:#}");
}

#[test]
fn handwritten_examples_pass_strict_checks() {
    let directory = tempfile::tempdir().unwrap();
    let manifests = directory.path().join("manifests");
    std::os::unix::fs::symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/manifests"), &manifests).unwrap();
    let arguments = ["--strict", "-R", "manifests"];
    assert_screen("check-by-hand", &[&["check"], &arguments[..]].concat(), &check(&directory, &arguments));
    let held = fs::read_to_string(manifests.join("pod-hold.yaml")).unwrap();
    fs::write(directory.path().join("pod.yaml"), held.replace("\"timeoutSeconds\": 300, ", "")).unwrap();
    let (code, out, _) = check(&directory, &["pod.yaml"]);
    assert!(code == 0 && out.contains("  waits    without a limit until the last container starts"), "{out}");
    fs::write(directory.path().join("pod.yaml"), held.replace("\"port\": 8081", "\"port\": 8082")).unwrap();
    let (code, out, _) = check(&directory, &["pod.yaml"]);
    let error = "error[list-differs]: web.readinessProbe.httpGet.port is 8082 in the sidecar's list, but 8081 in the manifest\n";
    assert!(code == 1 && out.contains(error) && out.contains("no forecast: fix the errors first"), "{out}");
    // Istio rewrites the probe of a Pod.
    let rewritten = held.replace("{path: /index.html, port: 8081}", "{path: /app-health/web/readyz, port: 15020}");
    assert_ne!(rewritten, held);
    fs::write(directory.path().join("pod.yaml"), rewritten).unwrap();
    let (code, out, _) = check(&directory, &["pod.yaml"]);
    assert!(code == 0 && out.contains("0 errors"), "{out}");
}

/// `check` and `try` reject an injected manifest whose own parts have changed since the injection.
#[test]
fn outdated_injection_is_an_error() {
    let (directory, path) = file(CHAIN);
    let run = |arguments: &[&str]| {
        let output = program(directory.path()).current_dir(directory.path()).args(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&["inject", "-i", "-q", "pod.yaml"]), (0, String::new()));
    assert_eq!(check(&directory, &["pod.yaml", "--strict"]).0, 0);
    let injected = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        injected.replace("readinessProbe: {tcpSocket: {port: 5432}}", "readinessProbe: {tcpSocket: {port: 5433}}"),
    )
    .unwrap();
    let error = "db.readinessProbe.tcpSocket.port is 5432 in the sidecar's list, but 5433 in the manifest";
    assert_check("check-outdated", &directory, &[]);
    let (code, err) = run(&["try", "pod.yaml"]);
    assert!(code == 1 && err.contains(error), "{err}");
}
