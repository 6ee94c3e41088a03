//! Tests of manifests and flags that `try` rejects, and that nothing of a manifest runs.

use super::{Machine, PROGRAM, scenarios};
use std::fs;
use std::process::Command;

#[test]
fn unusable_input_exits_with_1_and_one_line() {
    let machine = Machine::new();
    let mut undeclared = scenarios::chain();
    undeclared["metadata"]["annotations"] = serde_json::json!({});
    let mut wrong = scenarios::chain();
    wrong["metadata"]["annotations"]["podgate.io/order"] = "db, ap".into();
    for (pod, expected) in [
        (undeclared, "<stdin>: no Pod or Pod template declares an order; add the annotation podgate.io/order"),
        (wrong, "did you mean api"),
    ] {
        let run = machine.run_manifest(&pod, &[]);
        assert_eq!((run.code, run.out.as_str(), run.err.lines().count()), (1, "", 1), "{}", run.err);
        assert!(run.err.to_lowercase().contains(&expected.to_lowercase()), "{expected:?} is missing in {}", run.err);
    }
    // If agent and sidecar are not in the program's directory, the program prints how to build the two.
    let alone = tempfile::tempdir().unwrap();
    let program = alone.path().join("kubectl-podgate");
    fs::copy(PROGRAM, &program).unwrap();
    let output = Command::new(program).arg("try").env("PATH", "/nonexistent").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && err.contains("copy it from the plugin's archive for Linux"), "{err}");
}

#[test]
fn wrong_flags_exit_with_64() {
    for (arguments, expected) in [
        (&["--break", "db"][..], "write NAME@FAULT"),
        (&["--break", "@never"], "write NAME@FAULT, such as db@never"),
        (&["--break", "db@hang"], "is not a fault"),
        (&["--break", "db@slow:1s"], "is not a fault; write never, crash:3s, kill:2s or ignores-term"),
        (&["--break", "sidecar@never"], "can only be killed"),
        (&["--break", "dbb@never"], "--break dbb: the Pod has no such container; choose one of db, api, web"),
        (&["--ready", "db"], "write NAME=DURATION"),
        (&["--ready", "dbb=1s"], "--ready dbb: the Pod has no such container"),
        (&["--timeout", "0s"], "between 1ms and 1day"),
    ] {
        let run = Machine::new().run(arguments);
        assert!(run.code == 64 && run.err.contains(expected), "{arguments:?}: {run:?}");
    }
}

/// The manifest may be untrusted. `try` must not run a command of the manifest, or pass a value of it to a program.
#[test]
fn nothing_of_the_manifest_runs() {
    let directory = tempfile::tempdir().unwrap();
    let touch = |name: &str| serde_json::json!(["touch", directory.path().join(name).to_str().unwrap()]);
    let exec = |name: &str| serde_json::json!({"exec": {"command": touch(name)}, "periodSeconds": 1});
    let program = directory.path().join("sh").to_str().unwrap().to_owned();
    fs::write(&program, format!("#!/bin/sh\n/bin/touch {}/program", directory.path().display())).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut pod = scenarios::chain();
    for container in pod["spec"]["containers"].as_array_mut().unwrap() {
        container["command"] = touch("command");
        container["args"] = touch("args");
        container["workingDir"] = directory.path().to_str().into();
        container["env"] = serde_json::json!([
            {"name": "PATH", "value": directory.path()}, {"name": "LD_PRELOAD", "value": program},
            {"name": "PODGATE_BOARD", "value": directory.path()},
        ]);
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            container[probe] = exec(probe);
        }
        container["lifecycle"] = serde_json::json!({"postStart": exec("postStart"), "preStop": exec("preStop")});
        container["lifecycle"]["postStart"].as_object_mut().unwrap().remove("periodSeconds");
        container["lifecycle"]["preStop"].as_object_mut().unwrap().remove("periodSeconds");
    }
    pod["spec"]["containers"][2].as_object_mut().unwrap().remove("command");
    let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.insert("command.podgate.io/web".into(), touch("annotation").to_string().into());
    annotations.insert("ready.podgate.io/db".into(), format!("exec:{}", touch("ready")).into());
    annotations.insert("check.podgate.io/api".into(), format!("exec:{}", touch("check")).into());
    pod["spec"]["initContainers"] = serde_json::json!([{"name": "init", "image": "x", "command": touch("init")}]);
    let run = Machine::new().run_manifest(&pod, &["--stop", "--timeout=20s"]);
    assert_eq!(run.code, 0, "{run:?}");
    for name in ["db", "api", "web"] {
        for hook in ["postStart", "preStop"] {
            assert!(run.out.contains(&format!("the {hook} hook of {name} does not run here\n")), "{}", run.out);
        }
    }
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["sh"], "{run:?}");
    let run = Machine::new().run_manifest(&pod, &["--processes"]);
    assert!(run.code == 64 && run.err.contains("unexpected argument '--processes'"), "{run:?}");
}
