//! Tests of `--post-file` and of chains of steps.

use crate::support::{Agent, Scene, wait_until};
use std::fs;
use std::path::Path;

fn step(scene: &Scene, post: &Path, script: &str) -> Agent {
    scene.gate().flag("post-file", post).arg("--").arg("sh").arg("-c").arg(script)
}

#[test]
fn one_of_two_files_contains_the_exit_code() {
    let scene = Scene::new();
    let directory = scene.root.join("steps");
    fs::create_dir(&directory).unwrap();
    let post = directory.join("1");
    let failed = directory.join("1.err");
    let read = |path: &Path| fs::read_to_string(path).ok();

    assert_eq!(step(&scene, &post, "exit 3").run().code, 3);
    assert_eq!((read(&post), read(&failed).as_deref()), (None, Some("3\n")));
    step(&scene, &post, "exit 0").run().assert_released();
    assert_eq!((read(&post).as_deref(), read(&failed)), (Some("0\n"), None));
    // If the command never runs, the post file contains 127 or the gate's exit code.
    assert_eq!(scene.gate().flag("post-file", &post).arg("--").arg("/nonexistent").run().code, 127);
    assert_eq!((read(&post), read(&failed).as_deref()), (None, Some("127\n")));
    let gate_with = |flag: &str, value: &str| scene.gate().flag("post-file", &post).flag(flag, value);
    let run = gate_with("check", "file:///nonexistent").flag("timeout", "10ms").arg("--").arg("true").run();
    assert_eq!((run.code, read(&failed).as_deref()), (75, Some("75\n")));
    let run = gate_with("until", "db").flag("board", "/none").arg("--").arg("true").run();
    assert_eq!((run.code, read(&failed).as_deref()), (78, Some("78\n")));
    // With `--on-error continue`, a failure counts as success, but the file contains the command's exit code.
    let continued = gate_with("on-error", "continue").arg("--").arg("sh").arg("-c").arg("exit 5").run();
    assert_eq!((continued.code, read(&post).as_deref(), read(&failed)), (0, Some("5\n"), None));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "temporary files are left");
}

#[test]
fn sigterm_during_the_wait_writes_the_post_file() {
    let scene = Scene::with_sidecar();
    let post = scene.root.join("1");
    let agent = scene.gate().flag("post-file", &post).flag("until", "db").arg("--").arg("true").spawn_waiting();
    agent.signal(rustix::process::Signal::TERM);
    assert_eq!(agent.wait().code, 143);
    assert_eq!(fs::read_to_string(scene.root.join("1.err")).unwrap(), "143\n");
}

#[test]
fn an_error_names_the_post_file_that_cannot_be_written() {
    let scene = Scene::new();
    let post = scene.root.join("missing/1");
    let run = step(&scene, &post, "true").run();
    run.assert_failed(78, &format!("cannot write the post file {}: No such file", post.display()));
    assert!(scene.termination_message().contains("cannot write the post file"));
    assert_eq!(scene.report().unwrap().exit_code, Some(78), "the report must contain the container's exit code");
    assert_eq!(step(&scene, &post, "exit 3").run().code, 3, "the command's exit code must take precedence");
    let directory = scene.root.join("steps");
    fs::create_dir(&directory).unwrap();
    for name in ["", ".."] {
        step(&scene, &directory.join(name), "true").run().assert_failed(78, "not a file name");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "a file was written to the directory");
    }
    step(&scene, Path::new("/"), "true").run().assert_failed(78, "not a file name");
}

#[test]
fn a_chain_runs_in_order() {
    let (scene, codes) = chain("true", "true");
    assert_eq!(codes, [0, 0, 0]);
    assert_eq!(fs::read_to_string(scene.root.join("ran")).unwrap(), "1\n2\n3\n");
}

#[test]
fn a_failed_step_skips_the_steps_after_it() {
    let (scene, codes) = chain("exit 3", "true");
    assert_eq!(codes, [3, 69, 69]);
    assert_eq!(fs::read_to_string(scene.root.join("ran")).unwrap(), "1\n");
    let read = |name: &str| fs::read_to_string(scene.root.join(name)).unwrap();
    assert_eq!([read("1.err"), read("2.err"), read("3.err")], ["3\n", "69\n", "69\n"]);
    let (scene, codes) = chain("true", "exit 4");
    assert_eq!(codes, [0, 4, 69]);
    assert!(scene.root.join("1").exists());
    assert!(scene.termination_message().contains("the previous step failed"), "{}", scene.termination_message());
}

/// Starts three steps, the last step first. Each step waits for the previous step. Returns the scene, and the exit
/// codes in step order.
fn chain(first: &str, second: &str) -> (Scene, [i32; 3]) {
    let scene = Scene::new();
    let ran = scene.root.join("ran");
    let at = |name: &str| scene.root.join(name);
    let script = |number: u8, then: &str| format!("echo {number} >> {}; {then}", ran.display());
    let after = |name: &str| format!("file://{}+content", at(name).display());
    let third = step(&scene, &at("3"), "");
    let third = follow(third, &after("2"), &script(3, "true")).spawn();
    let second = follow(step(&scene, &at("2"), ""), &after("1"), &script(2, second)).spawn();
    wait_until("two steps wait", || scene.log_text().matches(": waiting for").count() >= 2);
    let first = step(&scene, &at("1"), &script(1, first)).spawn();
    (scene, [first.wait().code, second.wait().code, third.wait().code])
}

/// Returns the same step with `--check` and another script.
fn follow(mut step: Agent, check: &str, script: &str) -> Agent {
    step.arguments.pop();
    let at = step.arguments.iter().position(|argument| argument == "--").unwrap();
    step.arguments.splice(at..at, ["--check".into(), check.into()]);
    step.arg(script)
}
