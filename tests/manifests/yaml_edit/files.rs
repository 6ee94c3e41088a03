//! Tests of files and directories as input and output.

use super::{POD, done, run, write};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

#[test]
fn directories_give_one_stream_sorted_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().to_str().unwrap();
    for (name, text) in [
        ("b.yml", "# b\n---\nb: 1\n"),
        ("a.yaml", "a: 1"),
        ("bom.yaml", "\u{feff}bom: 1\n"),
        ("c.json", "{\"c\": 1} {\"d\": 1}"),
        ("d.txt", "d: ["),
        (".e.yaml", "e: ["),
        ("nothing.yaml", "# nothing\n"),
        ("sub/f.yaml", "f: 1\n"),
    ] {
        write(directory.path(), name, text);
    }
    let stream = "---\na: 1\n# b\n---\nb: 1\n---\nbom: 1\n---\n{\"c\": 1}\n---\n{\"d\": 1}";
    assert_eq!(done(&["inject", at], ""), stream);
    assert_eq!(done(&["inject", "-R", "-f", at], ""), format!("{stream}\n---\nf: 1\n"));
    assert_eq!(done(&["inject", &format!("{at}/b.yml"), "-"], "x: 1\n"), "# b\n---\nb: 1\n---\nx: 1\n");
}

#[test]
fn in_place_writes_only_changed_files() {
    let directory = tempfile::tempdir().unwrap();
    let (pod, other) = (write(directory.path(), "pod.yaml", POD), write(directory.path(), "other.yaml", "a: 1\n"));
    let link = directory.path().join("link.yaml");
    std::os::unix::fs::symlink("pod.yaml", &link).unwrap();
    fs::set_permissions(&pod, fs::Permissions::from_mode(0o640)).unwrap();
    let modified = |path: &str| fs::metadata(path).unwrap().modified().unwrap();
    let before = modified(&other);

    assert_eq!(done(&["inject", "-i", link.to_str().unwrap(), &other], ""), "");
    let text = fs::read_to_string(&pod).unwrap();
    assert_eq!(text, done(&["inject", "-"], POD));
    assert_eq!(fs::metadata(&pod).unwrap().permissions().mode() & 0o7777, 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(modified(&other), before);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3, "a temporary file is left behind");

    assert_eq!(done(&["uninject", "-i", &pod], ""), "");
    assert_eq!(fs::read_to_string(&pod).unwrap(), POD);
}

#[test]
fn in_place_failure_changes_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (
        write(directory.path(), "a.yaml", POD),
        write(directory.path(), "b.yaml", &POD.replace("db, api", "db, missing")),
    );
    let run = run(&["inject", "-i", &a, &b], "");
    assert_eq!(run.code, 1, "{}", run.err);
    assert_eq!(fs::read_to_string(&a).unwrap(), POD);
}

#[test]
fn check_lists_changes_and_diff_shows_them() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().to_str().unwrap();
    let pod = write(directory.path(), "pod.yaml", POD);
    write(directory.path(), "other.yaml", "a: 1\n");
    let check = run(&["inject", "--check", at], "");
    assert_eq!((check.code, check.out.as_str()), (3, ""));
    assert!(check.err.contains("pod.yaml: would change") && !check.err.contains("other.yaml"), "{}", check.err);
    assert_eq!(fs::read_to_string(&pod).unwrap(), POD);

    let diff = run(&["inject", "--check", "--diff", at], "");
    assert_eq!(diff.code, 3);
    assert!(
        diff.out.contains("+  initContainers:\n") && diff.out.contains("\n-    command: [\"/api\"]\n"),
        "{}",
        diff.out
    );
    assert_eq!(done(&["inject", "--diff", at], ""), diff.out);

    done(&["inject", "-i", at], "");
    let check = run(&["inject", "--check", at], "");
    assert_eq!((check.code, check.out.as_str()), (0, ""), "{}", check.err);
    assert_eq!(run(&["uninject", "--check", at], "").code, 3);

    // If the user's own parts have changed, --check names the reason. An injection fixes it without a message.
    let changed = fs::read_to_string(&pod).unwrap().replace("tcpSocket: {port: 5432}", "tcpSocket: {port: 5433}");
    fs::write(&pod, changed).unwrap();
    let check = run(&["inject", "--check", "-q", at], "");
    let reason = "db.readinessProbe.tcpSocket.port is 5432 in the sidecar's list, but 5433 in the manifest";
    assert!(check.code == 3 && check.err.contains(&format!("error: {reason}")), "{} {}", check.code, check.err);
    assert!(!run(&["uninject", "--check", at], "").err.contains("error: "));
    let again = run(&["inject", "-i", "-q", at], "");
    assert_eq!((again.code, again.err.as_str()), (0, ""));
    assert_eq!(run(&["inject", "--check", at], "").code, 0);
}

#[test]
fn diff_can_be_applied_as_a_patch() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "pod.yaml", POD.trim_end());
    let shell = |line: &str| {
        let program = env!("CARGO_BIN_EXE_kubectl-podgate");
        std::process::Command::new("sh")
            .args(["-c", line])
            .env("P", program)
            .current_dir(directory.path())
            .output()
            .unwrap()
    };
    // Use `git apply` instead of `patch`, because every developer has git.
    let output = shell("$P inject --diff pod.yaml | git apply -p0 && $P inject --check pod.yaml");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn options_reach_the_sidecar() {
    let image = ["inject", "-", "--image", "r.example/p:2", "--image-pull-policy", "Always"];
    let other = ["--no-fixed-user", "--sidecar-resources", "requests.cpu=50m, limits.memory=64Mi", "-q"];
    let run = run(&[&image[..], &other].concat(), POD);
    let pod: serde_json::Value = serde_saphyr::from_str(&run.out).unwrap();
    let sidecar = &pod["spec"]["initContainers"][0];
    assert_eq!((&sidecar["image"], &sidecar["imagePullPolicy"]), (&"r.example/p:2".into(), &"Always".into()));
    assert!(sidecar["securityContext"].get("runAsUser").is_none(), "{sidecar}");
    let resources = serde_json::json!({"requests": {"cpu": "50m"}, "limits": {"memory": "64Mi"}});
    assert_eq!(sidecar["resources"], resources);
    assert_eq!(run.err, "", "-q must print no messages");
}

#[test]
fn second_injection_keeps_the_target_of_the_states() {
    let without = run(&["inject", "-q", "-", "--publish", "none"], POD).out;
    assert_eq!(run(&["inject", "-q", "-"], &without).out, without);
    assert_eq!(run(&["inject", "-q", "-", "--publish", "api"], &without).out, run(&["inject", "-q", "-"], POD).out);
}

#[test]
fn inject_reads_an_openkruise_order() {
    let text =
        POD.replace("    podgate.io/order: db, api\n", "    apps.kruise.io/container-launch-priority: Ordered\n");
    let run = run(&["inject", "--from", "kruise", "-"], &format!("kind: Service\n---\n{text}"));
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("podgate.io/order: ") && run.out.contains("initContainers:"), "{}", run.out);
    assert!(run.out.starts_with("kind: Service\n---\n"));
}

#[test]
fn inject_says_that_from_has_no_effect_on_a_declared_order() {
    let kruise = "    apps.kruise.io/container-launch-priority: Ordered\n";
    let both = POD.replace("  annotations:\n", &format!("  annotations:\n{kruise}"));
    let run_on = |text: &str| run(&["inject", "--from", "kruise", "-"], text);
    let declared = run_on(&both);
    assert!(declared.code == 0 && declared.err.contains("[declared-already]"), "{}", declared.err);
    assert_eq!(declared.out, done(&["inject", "-"], &both));
    let again = run_on(&declared.out);
    assert!(again.out == declared.out && again.err.contains("[declared-already]"), "{}", again.err);
    // The label alone declares no order.
    let labeled = POD.replace("    podgate.io/order: db, api\n", kruise);
    let labeled = labeled.replace("  annotations:\n", "  labels: {podgate.io/inject: enabled}\n  annotations:\n");
    let migrated = run_on(&labeled);
    assert!(migrated.code == 0 && migrated.err.contains("[migrated]"), "{}", migrated.err);
    assert!(!migrated.err.contains("declared-already") && migrated.out.contains("initContainers:"), "{}", migrated.out);
}

/// Returns the peak memory of `uninject` (RSS), in bytes.
fn memory_of_uninject(path: &str) -> u64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-podgate"));
    let mut child = command.args(["uninject", "-q", path]).stdout(Stdio::piped()).spawn().unwrap();
    // The output fills the pipe, so the program does not end before its memory is read.
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
    out.read_to_end(&mut Vec::new()).unwrap();
    assert!(child.wait().unwrap().success());
    peak.unwrap().trim().parse::<u64>().unwrap() * 1024
}

/// `uninject` of 4,000 Deployments (24 MB as YAML, 19 MB as JSON) must need less than 300 MiB. A development build and
/// its allocator use more memory. This test therefore limits the growth with the number of Pods instead of the total.
#[test]
fn large_lists_need_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let pod = done(&["inject", "-q", "-"], POD);
    let item = format!("- {}\n", pod.trim_end().replace('\n', "\n  "));
    let [small, large] = [300, 1000].map(|count| {
        let text = format!("kind: List\nitems:\n{}", item.repeat(count));
        let json = super::yaml::Source::parse("f", text.clone()).documents[0].value.to_string();
        [("yaml", text), ("json", json)].map(|(end, text)| {
            let path = write(directory.path(), &format!("{count}.{end}"), &text);
            (memory_of_uninject(&path), text.len() as u64)
        })
    });
    for ((small, large), limit) in small.into_iter().zip(large).zip([40.0, 20.0]) {
        let growth = (large.0 - small.0) as f64 / (large.1 - small.1) as f64;
        assert!(growth < limit, "{growth} bytes of memory for each byte of the input");
    }
}
