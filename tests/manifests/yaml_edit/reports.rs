//! Tests of the reports of `inject` about manifests that `inject` can write, but that do not work.

use super::{POD, run};

/// Changes of [`POD`], each with the rule that `inject` must report.
const FAULTY: [(&str, &str, &str); 8] = [
    ("    readinessProbe:\n      tcpSocket: {port: 5432}\n", "", "warning: no-readiness-probe"),
    ("{port: 5432}", "{port: pg}", "error: unknown-port"),
    ("spec:\n", "spec:\n  activeDeadlineSeconds: 60\n", "warning: deadline-too-short"),
    ("[\"/api\"]", "[\"/api -x\"]", "warning: command-not-split"),
    ("[\"/api\"]", "[\"/api\"]\n    lifecycle: {preStop: {sleep: {seconds: 31}}}", "warning: pre-stop-too-long"),
    ("db, api\n", "db, api\n    podgate.io/stop-order: db, api\n", "warning: stops-too-early"),
    ("{port: 5432}", "{port: 5432, host: db}", "warning: host-is-container"),
    (
        "db, api\nspec:\n",
        "db, api\n    podgate.io/mode: hold\nspec:\n  restartPolicy: Never\n",
        "error: hold-without-deadline",
    ),
];

#[test]
fn inject_reports_what_cannot_start() {
    for (old, new, expected) in FAULTY {
        let manifest = POD.replace(old, new);
        assert_ne!(manifest, POD, "{expected}");
        let (level, rule) = expected.split_once(": ").unwrap();
        let is_error = level == "error";
        let injected = run(&["inject", "-q", "-"], &manifest);
        assert!(
            injected.err.contains(&format!(": {level}: ")) && injected.err.contains(&format!(" [{rule}]\n")),
            "{}",
            injected.err
        );
        assert_eq!((injected.code, injected.out.is_empty()), (i32::from(is_error), is_error), "{expected}");
        // `check` prints the same text.
        let checked = run(&["check", "-q", "-o", "json", "-"], &manifest).out;
        let found: serde_json::Value = serde_json::from_str(&checked).unwrap();
        let found = found["findings"].as_array().unwrap().iter().find(|one| one["rule"] == rule).unwrap();
        let message = found["message"].as_str().unwrap();
        assert!(injected.err.contains(message), "{message}: {}", injected.err);

        let strict = run(&["inject", "--strict", "-"], &manifest);
        assert_eq!((strict.code, strict.out.as_str()), (1, ""), "{expected}");
        assert!(!strict.err.contains(": injected"), "{}", strict.err);
        let ignored = run(&["inject", "--strict", "--ignore", &format!("no-grace,{rule}"), "-"], &manifest);
        match is_error {
            true => {
                assert!(ignored.code == 64 && ignored.err.contains("are errors; fix them instead"), "{}", ignored.err)
            }
            false => assert!(ignored.code == 0 && !ignored.out.is_empty(), "{expected}: {}", ignored.err),
        }
    }
}

#[test]
fn strict_needs_an_order() {
    let plain = POD.replace("    podgate.io/order: db, api\n", "    a: b\n");
    let relaxed = run(&["inject", "-"], &plain);
    assert_eq!((relaxed.code, relaxed.out.as_str()), (0, plain.as_str()));
    let strict = run(&["inject", "-q", "--strict", "-"], &plain);
    assert_eq!((strict.code, strict.out.as_str()), (1, ""));
    assert!(strict.err.contains("no Pod or pod template declares an order"), "{}", strict.err);
    assert_eq!(run(&["inject", "--strict", "-"], POD).code, 0);
}

#[test]
fn unknown_rule_to_ignore_is_a_usage_error() {
    for command in ["check", "inject"] {
        let misspelled = run(&[command, "--ignore", "no-readiness-prob", "-"], POD);
        assert!(
            misspelled.code == 64 && misspelled.err.contains("did you mean no-readiness-probe?"),
            "{}",
            misspelled.err
        );
        assert!(run(&[command, "--ignore", "xyz", "-"], POD).err.contains("no such rule; see https://"));
    }
}

#[test]
fn line_about_an_injection_names_what_it_needs() {
    let held = POD.replace("    command: [\"/api\"]\n", "");
    let injected = run(&["inject", "-"], &held);
    let costs = [
        "Pod/shop: injected\n",
        "  shows    while the kubelet holds api, kubectl get pods shows CreateContainerConfigError, and the phase is \
         Pending; not so if podgate knows the command\n",
        "  version  needs Kubernetes 1.35 or newer to hold api\n",
        "  role     status shows no states, and held containers can start up to 90 s late without podgate's role: kubectl \
         podgate install --namespaces NAMESPACE\n",
        "  token    each container mounts the account's token, so it has this role too",
        "  held     to read the command of api from ",
    ];
    for cost in costs {
        assert!(injected.err.contains(cost), "{cost}: {}", injected.err);
    }
    let without_token = held.replace("spec:\n", "spec:\n  automountServiceAccountToken: false\n");
    assert!(!run(&["inject", "-"], &without_token).err.contains("mounts the account's token"));
    // `install` gives the role to the account `default` only.
    let with_account = held.replace("spec:\n", "spec:\n  serviceAccountName: shop's\n");
    let bind = "role: kubectl create rolebinding 'podgate-more-shop'\\''s' -n NAMESPACE --clusterrole podgate-sidecar \
                --serviceaccount 'NAMESPACE:shop'\\''s'\n";
    assert!(run(&["inject", "-"], &with_account).err.contains(bind));
    assert!(run(&["check", "-"], &with_account).out.contains(bind));
    let publishing_nothing = run(&["inject", "--publish", "none", "-"], &held).err;
    assert!(!publishing_nothing.contains("status shows no states"), "{publishing_nothing}");
    let (_, image) = injected.err.split_once("note: the Pods use podgate's default image ").unwrap();
    assert!(image.contains("; set another one with --image\n"), "{image}");
    let line = "version  needs Kubernetes 1.35 or newer to hold api";
    assert!(run(&["check", "-"], &held).out.contains(line));
    assert!(!run(&["check", "--kubernetes", "1.36", "-"], &held).out.contains(line));

    let gated = run(&["inject", "--image", "r.example/podgate:1", "-"], POD);
    assert!(gated.err.contains("Pod/shop: injected\n") && !gated.err.contains("default image"), "{}", gated.err);
    let again = run(&["inject", "-"], &run(&["inject", "-"], POD).out);
    assert_eq!(again.err, "", "nothing has changed");
}

#[test]
fn each_note_is_shown_unless_its_rule_is_ignored() {
    let two = [POD, POD].join("---\n").replace("db", "proxy");
    let notes = |flags: &[&str]| run(&[&["check", "-q", "-"], flags].concat(), &two).out;
    let shown = notes(&[]);
    assert_eq!(shown.lines().filter(|line| line.starts_with("note[native-would-do]")).count(), 2, "{shown}");
    assert!(shown.contains("2 templates checked: 0 errors, 0 warnings, 2 notes"), "{shown}");
    for format in ["text", "json"] {
        let left = notes(&["-o", format, "--ignore", "native-would-do"]);
        assert!(!left.contains("native-would-do"), "{left}");
    }
    let at = shown.lines().position(|line| line.starts_with("note[native-would-do]")).unwrap();
    assert!(shown.lines().nth(at + 1).unwrap().trim_start().starts_with("--> <stdin>:"), "{shown}");
}

#[test]
fn injection_is_reported_after_the_file_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = super::write(directory.path(), "pod.yaml", POD);
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&path, mode).unwrap();
    let refused = run(&["inject", "-i", &path], "");
    assert!(refused.code == 1 && refused.err.contains("cannot write: the file is read-only"), "{}", refused.err);
    assert!(!refused.err.contains("injected"), "{}", refused.err);
}
