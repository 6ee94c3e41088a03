//! Tests of `resolve-images`, and of `--images` with the file that `resolve-images` writes.

use super::server::Access;
use super::{APP, ARM, Run, Scene, pod, run, run_tool};
use serde_json::{Value, json};

impl Scene {
    fn resolve(&self, input: &str, arguments: &[&str]) -> Run {
        run_tool(&self.home(), input, &[&["resolve-images"], arguments].concat())
    }
}

fn digest(descriptor: &Value) -> &str {
    descriptor["digest"].as_str().unwrap()
}

#[test]
fn file_has_sorted_entries_that_replace_the_registry() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve(Access::Open);
    let (second, first) = (registry.push("app", "1", false, APP), registry.push("all", "1", false, ARM));
    let [app, all] = ["app:1", "all:1"].map(|image| format!("{}/{image}", registry.address));
    let known = format!("{}---\n{}    command: [/known]\n", pod(&app), pod("unknown.invalid/known:1"));
    let written = scene.resolve(&format!("{known}---\n{}---\n{}", pod(&all), pod(&app)), &["-"]);
    let expected = json!({
        all.clone(): {"entrypoint": [], "cmd": ["/arm"], "digest": digest(&first)},
        app.clone(): {"entrypoint": ["/app", "--x"], "cmd": ["$(A)", "serve"], "digest": digest(&second)},
    });
    assert_eq!((written.code, written.err.as_str()), (0, ""));
    assert_eq!(written.out, serde_json::to_string_pretty(&expected).unwrap() + "\n");

    drop(registry);
    let file = scene.file("images.json", &written.out);
    let expected = ["/app", "--x", "$$(A)", "serve"];
    let pinned = format!("{app}@{}", digest(&second));
    for image in [&app, &pinned] {
        let injected = run(&scene.home(), &pod(image), &["--images", &file]);
        assert_eq!(injected.command(), expected, "{image}");
        assert_eq!(&injected.image(), image, "the file pins no image");
    }
    let with_args = run(&scene.home(), &(pod(&app) + "    args: [own]\n"), &["--images", &file]);
    assert_eq!(with_args.command(), ["/app", "--x", "own"]);
    for (image, code) in [(&*app, 0), ("other:1", 1)] {
        let checked = run_tool(&scene.home(), &pod(image), &["check", "-", "--images", &file]);
        assert_eq!(checked.code, code, "{}", checked.out);
        assert_eq!(checked.out.contains("[unknown-command]"), code == 1, "{}", checked.out);
    }
}

/// `kubectl get pods -A -o json` prints a List of all Pods. Some are injected, others are not.
#[test]
fn images_of_running_pods_are_found() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve(Access::Open);
    let at = &registry.address;
    for name in ["plain", "held", "gated"] {
        registry.push(name, "1", false, APP);
    }
    let value = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
    let auto = |name: &str| pod(&format!("{at}/{name}:1")).replace("mode: entrypoint", "mode: auto");
    let [held, gated] = [&[][..], &["--resolve-images", "--no-pin"]]
        .map(|flags| run(&scene.home(), &auto(if flags.is_empty() { "held" } else { "gated" }), flags));
    assert!(held.out.contains("PODGATE_HOLD") && gated.command()[0] == "/app", "{}{}", held.out, gated.out);
    let pods = [value(&auto("plain")), value(&held.out), value(&gated.out)];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods});
    let written = scene.resolve(&list.to_string(), &["-"]);
    assert_eq!(written.code, 0, "{}", written.err);
    let entries: Value = serde_json::from_str(&written.out).unwrap();
    let images: Vec<&String> = entries.as_object().unwrap().keys().collect();
    assert_eq!(images, ["gated", "held", "plain"].map(|name| format!("{at}/{name}:1")).iter().collect::<Vec<_>>());
}

#[test]
fn failed_lookup_does_not_hide_the_others() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve(Access::Open);
    registry.push("app", "1", false, APP);
    let at = &registry.address;
    let two = format!("{}---\n{}", pod(&format!("{at}/none:1")), pod(&format!("{at}/app:1")));
    let written = scene.resolve(&two, &["-"]);
    let place = format!("error: <stdin>:1: container app: image {at}/none:1: {at}: image not found");
    assert!(written.code == 1 && written.err.starts_with(&place), "{}", written.err);
    let entries: Value = serde_json::from_str(&written.out).unwrap();
    assert_eq!(entries.as_object().unwrap().keys().collect::<Vec<_>>(), [&format!("{at}/app:1")]);

    let none = scene.resolve("a: 1\n", &["-"]);
    assert_eq!((none.code, none.out.as_str(), none.err.as_str()), (0, "{}\n", ""));
    let bad = scene.resolve("podgate.io: [", &["-"]);
    assert!(bad.code == 1 && bad.out.is_empty() && bad.err.contains("error: unclosed ["), "{}", bad.err);
}

#[test]
fn flags_that_exclude_each_other_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let bad = directory.path().join("bad.json");
    std::fs::write(&bad, "{\"a\": 1}").unwrap();
    let bad = bad.to_str().unwrap();
    for (arguments, code, text) in [
        (&["resolve-images"][..], 64, "pass - as FILE"),
        (&["inject", "-", "--images", "x", "--resolve-images"], 64, "cannot be used with"),
        (&["inject", "-", "--images", "x", "--no-pin"], 64, "cannot be used with"),
        (&["check", "-", "--images", "x", "--platform", "a/b"], 64, "cannot be used with"),
        (&["check", "-", "--platform", "a/b"], 64, "--resolve-images"),
        (&["install", "--platform", "a/b"], 64, "--resolve-images"),
        (&["install", "--resolve-images", "--uninstall"], 64, "cannot be used with"),
        (&["resolve-images", "--apply", "x"], 64, "cannot be used with"),
        (&["resolve-images", "x", "--context", "c"], 64, "cannot be used with"),
        (&["inject", "-", "--images", "/no/such"], 1, "error: /no/such: cannot read: no such file"),
        (&["check", "-", "--images", bad], 1, "bad.json: invalid type: integer `1`, expected an object with"),
    ] {
        let run = run_tool(directory.path(), "", arguments);
        assert!(run.code == code && run.err.contains(text), "{arguments:?}: {}: {}", run.code, run.err);
    }
}
