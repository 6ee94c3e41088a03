//! Tests steps that pass on their results in files, like Tekton's steps. Such steps do not need the sidecar.

use crate::cluster::{BUSYBOX_IMAGE, create};
use crate::pod::{Container, Pod, server};
use crate::scene::{FollowedPod, Scene};
use serde_json::{Value, json};

/// Creates step `n`, which waits for the previous step, runs `script`, and writes a file with the result.
fn step(n: u32, script: &str, more: &[&str]) -> Container {
    let (own, before) = (format!("/steps/{n}"), format!("file:///steps/{}", n - 1));
    let mut flags = vec!["--post-file", &own];
    if n > 1 {
        flags.extend(["--check", &before]);
    }
    flags.extend(more);
    let name = format!("step-{n}");
    server(&name).gate(&flags).with(json!({"image": BUSYBOX_IMAGE, "args": ["sh", "-c", script]}))
}

fn create_pod<'a>(scene: &'a Scene, name: &str, steps: Vec<Container>) -> FollowedPod<'a> {
    let mut pod = Pod::new(name, steps).with(json!({"spec": {"restartPolicy": "Never"}})).json();
    let add = |list: &mut Value, item: Value| list.as_array_mut().expect("a list").push(item);
    add(&mut pod["spec"]["volumes"], json!({"name": "steps", "emptyDir": {}}));
    for container in pod["spec"]["containers"].as_array_mut().expect("containers") {
        add(&mut container["volumeMounts"], json!({"name": "steps", "mountPath": "/steps"}));
    }
    let run = scene.follow(name);
    create(&scene.namespace, &pod.to_string());
    run
}

/// Waits until all steps have ended. Returns the exit code and the message of each step.
fn ends(run: &FollowedPod<'_>, count: u32) -> Vec<(i64, String)> {
    let seen = run.watch.wait_until("all steps have ended", 90, |seen| {
        (1..=count).all(|n| seen.kubelet_status(&format!("step-{n}"))["state"]["terminated"].is_object())
    });
    let end = |n| {
        let end = &seen.kubelet_status(&format!("step-{n}"))["state"]["terminated"];
        (end["exitCode"].as_i64().unwrap_or(-1), end["message"].as_str().unwrap_or("").to_owned())
    };
    (1..=count).map(end).collect()
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn steps_run_one_after_another() {
    let scene = Scene::shared("steps");
    scene.grant_pod_access();
    let write = |n: u32| format!("echo {n} >>/steps/log; sleep 0.5");
    let last = "echo 3 >>/steps/log; [ \"$(tr -d '\\n' </steps/log)\" = 123 ]";
    let run = create_pod(&scene, "steps", vec![step(1, &write(1), &[]), step(2, &write(2), &[]), step(3, last, &[])]);
    let ends = ends(&run, 3);
    assert!(ends.iter().all(|(code, _)| *code == 0), "{ends:?}");
}

/// If a step times out, all later steps are skipped. If a step with `--on-error continue` fails, the later steps run.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn failure_skips_later_steps() {
    let scene = Scene::shared("steps-fail");
    scene.grant_pod_access();
    let steps = vec![
        step(1, "exit 5", &["--on-error", "continue"]),
        step(2, "sleep 1000", &["--command-timeout", "1s", "--grace", "2s"]),
        step(3, "touch /steps/ran", &[]),
        step(4, "touch /steps/ran", &[]),
    ];
    let run = create_pod(&scene, "steps-fail", steps);
    let ends = ends(&run, 4);
    scene.report(&format!("{ends:?}"));
    let codes: Vec<i64> = ends.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [0, 75, 69, 69]);
    assert!(ends[1].1.contains("1s"), "{:?}", ends[1]);
    assert!(ends[2].1.contains("/steps/2.err exists") && ends[3].1.contains("/steps/3.err exists"), "{ends:?}");
}
