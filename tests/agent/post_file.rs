//! `--post-file`, and the chains that are made of it.

use crate::support::{Agent, Scene, wait_until};
use std::fs;
use std::path::Path;

fn step(scene: &Scene, post: &Path, script: &str) -> Agent {
    scene.gate().flag("post-file", post).arg("--").arg("sh").arg("-c").arg(script)
}

#[test]
fn one_of_two_files_has_the_exit_code() {
    let scene = Scene::new();
    let folder = scene.root.join("steps");
    fs::create_dir(&folder).unwrap();
    let post = folder.join("1");
    let failed = folder.join("1.err");
    let read = |path: &Path| fs::read_to_string(path).ok();

    assert_eq!(step(&scene, &post, "exit 3").run().code, 3);
    assert_eq!((read(&post), read(&failed).as_deref()), (None, Some("3\n")));
    step(&scene, &post, "exit 0").run().assert_released();
    assert_eq!((read(&post).as_deref(), read(&failed)), (Some("0\n"), None));
    // It never ran: 127, and the gate's own exit codes.
    assert_eq!(scene.gate().flag("post-file", &post).arg("--").arg("/nonexistent").run().code, 127);
    assert_eq!((read(&post), read(&failed).as_deref()), (None, Some("127\n")));
    let shut = |flag: &str, value: &str| scene.gate().flag("post-file", &post).flag(flag, value);
    let run = shut("check", "file:///nonexistent").flag("timeout", "10ms").arg("--").arg("true").run();
    assert_eq!((run.code, read(&failed).as_deref()), (75, Some("75\n")));
    let run = shut("stdout", "/nonexistent/out").arg("--").arg("true").run();
    assert_eq!((run.code, read(&failed).as_deref()), (78, Some("78\n")));
    let run = shut("until", "db").flag("board", "/none").flag("podinfo", "/none").arg("--").arg("true").run();
    assert_eq!((run.code, read(&failed).as_deref()), (78, Some("78\n")));
    // What is forgiven counts as success, and the file still says what happened.
    let forgiven = shut("on-error", "continue").arg("--").arg("sh").arg("-c").arg("exit 5").run();
    assert_eq!((forgiven.code, read(&post).as_deref(), read(&failed)), (0, Some("5\n"), None));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn term_while_it_waits_is_an_end_too() {
    let scene = Scene::with_controller();
    let post = scene.root.join("1");
    let agent = scene.gate().flag("post-file", &post).flag("until", "db").arg("--").arg("true").spawn_waiting();
    agent.signal(rustix::process::Signal::TERM);
    assert_eq!(agent.wait().code, 143);
    assert_eq!(fs::read_to_string(scene.root.join("1.err")).unwrap(), "143\n");
}

#[test]
fn one_that_cannot_be_written_is_said() {
    let scene = Scene::new();
    let post = scene.root.join("missing/1");
    let run = step(&scene, &post, "true").run();
    run.assert_failed(78, &format!("can't write the post file {}: No such file", post.display()));
    assert!(scene.termination_message().contains("can't write the post file"));
    assert_eq!(scene.report().unwrap().exit_code, Some(78), "the report says how the container ends");
    assert_eq!(step(&scene, &post, "exit 3").run().code, 3, "a failure stays what it is");
    let folder = scene.root.join("steps");
    fs::create_dir(&folder).unwrap();
    for bad in ["", ".."] {
        step(&scene, &folder.join(bad), "true").run().assert_failed(78, "not a file name");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing is written beside it");
    }
    step(&scene, Path::new("/"), "true").run().assert_failed(78, "not a file name");
}

#[test]
fn a_chain_is_worked_off_in_order() {
    let scene = chain("true", "true");
    assert_eq!(scene.1, [0, 0, 0]);
    assert_eq!(fs::read_to_string(scene.0.root.join("ran")).unwrap(), "1\n2\n3\n");
}

#[test]
fn a_failure_skips_what_comes_after_it() {
    let (scene, codes) = chain("exit 3", "true");
    assert_eq!(codes, [3, 69, 69]);
    assert_eq!(fs::read_to_string(scene.root.join("ran")).unwrap(), "1\n");
    let read = |name: &str| fs::read_to_string(scene.root.join(name)).unwrap();
    assert_eq!([read("1.err"), read("2.err"), read("3.err")], ["3\n", "69\n", "69\n"]);
    let (scene, codes) = chain("true", "exit 4");
    assert_eq!(codes, [0, 4, 69]);
    assert!(scene.root.join("1").exists());
    // By a time-out as well: not only codes skip.
    assert!(scene.termination_message().contains("the previous step failed"), "{}", scene.termination_message());
}

/// Three steps at once, each after the one before; what they ended with. Started last to first.
fn chain(first: &str, second: &str) -> (Scene, [i32; 3]) {
    let scene = Scene::new();
    let ran = scene.root.join("ran");
    let at = |name: &str| scene.root.join(name);
    let script = |number: u8, then: &str| format!("echo {number} >> {}; {then}", ran.display());
    let after = |name: &str| format!("file://{}+content", at(name).display());
    let third = step(&scene, &at("3"), "");
    let third = follow(third, &after("2"), &script(3, "true")).spawn();
    let second = follow(step(&scene, &at("2"), ""), &after("1"), &script(2, second)).spawn();
    wait_until("they wait", || scene.log_text().matches(": waiting for").count() >= 2);
    let first = step(&scene, &at("1"), &script(1, first)).spawn();
    (scene, [first.wait().code, second.wait().code, third.wait().code])
}

/// The same step, behind `check` and with another script.
fn follow(mut step: Agent, check: &str, script: &str) -> Agent {
    step.arguments.pop();
    let at = step.arguments.iter().position(|argument| argument == "--").unwrap();
    step.arguments.splice(at..at, ["--check".into(), check.into()]);
    step.arg(script)
}
