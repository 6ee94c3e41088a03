//! Tests of `--images`: the file with the commands of images.

use crate::answers::patched;
use crate::client::{pod, review};
use crate::hang_guard::HANG_GUARD;
use crate::program::{Files, Webhook, eventually};
use assert_cmd::Command;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

const FILE: &str = r#"{"shop/api:1": {"entrypoint": ["/api"], "cmd": ["serve"]}}"#;

/// Returns a Pod in which `api`, which waits for `db`, has no command.
fn unknown_command(image: &str) -> Value {
    let mut pod = pod("db, api");
    let api = pod["spec"]["containers"][1].as_object_mut().unwrap();
    api.remove("command");
    api.insert("image".to_owned(), image.into());
    pod
}

/// Returns the injected container `api` of a Pod.
fn injected(webhook: &Webhook, files: &Files, pod: &Value) -> Value {
    let response = webhook.client(&files.ca).review(&review("one", pod));
    assert_eq!(response["allowed"], true, "{response}");
    patched(pod, &response)["spec"]["containers"][1].clone()
}

fn is_held(container: &Value) -> bool {
    container["env"][0]["name"] == "PODGATE_HOLD"
}

/// Returns the command behind the gate, with the `args`.
fn command(container: &Value) -> Vec<&str> {
    let words = ["command", "args"].into_iter().filter_map(|field| container[field].as_array()).flatten();
    words.map(|word| word.as_str().unwrap()).skip_while(|word| *word != "--").skip(1).collect()
}

#[test]
fn image_in_the_file_gets_a_gate_and_others_are_held() {
    let files = Files::new();
    files.put("images.json", FILE.as_bytes());
    let without = Webhook::with_files(&files, &[]);
    assert!(is_held(&injected(&without, &files, &unknown_command("shop/api:1"))));
    let webhook = Webhook::with_files(&files, &["--images", files.path("images.json").to_str().unwrap()]);
    webhook.logged("read the file of --images");
    let held = injected(&webhook, &files, &unknown_command("shop/api:2"));
    assert!(is_held(&held) && command(&held).is_empty(), "{held}");
    let gated = injected(&webhook, &files, &unknown_command("shop/api:1"));
    assert!(!is_held(&gated), "{gated}");
    // The manifest's args replace the image's cmd.
    assert_eq!(command(&gated), ["/api", "--on"]);
    let mut plain = unknown_command("shop/api:1");
    plain["spec"]["containers"][1].as_object_mut().unwrap().remove("args");
    assert_eq!(command(&injected(&webhook, &files, &plain)), ["/api", "serve"]);
    // The Pod's own declarations take precedence.
    plain["metadata"]["annotations"]["command.podgate.io/api"] = "[\"/own\"]".into();
    assert_eq!(command(&injected(&webhook, &files, &plain)), ["/own"]);
    plain["metadata"]["annotations"]["mode.podgate.io/api"] = "hold".into();
    assert!(is_held(&injected(&webhook, &files, &plain)));
}

/// The webhook does not know whether a tag has moved since the command was read.
#[test]
fn command_of_a_tag_is_a_warning() {
    let files = Files::new();
    let digest = format!("sha256:{}", "1".repeat(64));
    let file = json!({
        "shop/api:1": {"entrypoint": ["/api"], "digest": digest}, "own:1": {"entrypoint": ["/own"]},
        format!("shop/api@{digest}"): {"entrypoint": ["/api"], "digest": digest},
    });
    files.put("images.json", file.to_string().as_bytes());
    let webhook = Webhook::with_files(&files, &["--images", files.path("images.json").to_str().unwrap()]);
    let mut known = unknown_command("shop/api:1");
    known["metadata"]["annotations"]["command.podgate.io/api"] = "[\"/own\"]".into();
    let mut held = unknown_command("shop/api:1");
    held["metadata"]["annotations"]["mode.podgate.io/api"] = "hold".into();
    for (pod, expected) in [
        (unknown_command("shop/api:1"), Some("api (sha256:111111111111)")),
        (unknown_command("own:1"), Some("api (no digest)")),
        (unknown_command(&format!("shop/api@{digest}")), None),
        (unknown_command(&format!("shop/api:1@{digest}")), None),
        (unknown_command("shop/api:2"), None),
        (known, None),
        (held, None),
        (pod("db, api"), None),
    ] {
        let client = webhook.client(&files.ca);
        let response = client.review(&review("one", &pod));
        let warnings = response["warnings"].as_array().cloned().unwrap_or_default();
        let own: Vec<&str> =
            warnings.iter().map(|it| it.as_str().unwrap()).filter(|it| it.contains("a tag has moved")).collect();
        let Some(name) = expected else {
            assert!(own.is_empty(), "{pod}: {own:?}");
            continue;
        };
        let expected = "podgate: spec.containers: commands come from the webhook's file of images; if a tag has moved \
                        since, run kubectl podgate resolve-images --apply: ";
        assert_eq!(own, [format!("{expected}{name}")]);
        let again = client.review(&review("again", &patched(&pod, &response)));
        assert!(!again.to_string().contains("a tag has moved"), "only the first call in a request warns: {again}");
    }
}

/// The ConfigMap is optional, and may be created later.
#[test]
fn missing_file_has_no_commands() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &["--images", files.path("images.json").to_str().unwrap()]);
    let pod = unknown_command("shop/api:1");
    assert!(is_held(&injected(&webhook, &files, &pod)));
    files.put("images.json", FILE.as_bytes());
    eventually("the new file is used", || (!is_held(&injected(&webhook, &files, &pod))).then_some(()));
    assert!(!webhook.log().iter().any(|line| line["level"] == "WARN"), "{:?}", webhook.log());
}

/// The file may change between two calls for a Pod, or differ from the file of `inject`. The injection must not change.
#[test]
fn injected_pod_keeps_its_mode_and_command() {
    let files = Files::new();
    files.put("images.json", FILE.as_bytes());
    files.put("other.json", FILE.replace("/api\"]", "/other\"]").as_bytes());
    let [without, with, other] = [None, Some("images.json"), Some("other.json")].map(|name| {
        let path = name.map(|name| files.path(name));
        let flags: Vec<&str> = path.iter().flat_map(|path| ["--images", path.to_str().unwrap()]).collect();
        Webhook::with_files(&files, &flags)
    });
    let pod = unknown_command("shop/api:1");
    for first in [&without, &with] {
        let response = first.client(&files.ca).review(&review("first", &pod));
        let once = patched(&pod, &response);
        for again in [&without, &with, &other] {
            let response = again.client(&files.ca).review(&review("again", &once));
            assert_eq!((&response["allowed"], response.get("patch")), (&json!(true), None), "{response}");
        }
    }
}

/// When a ConfigMap changes, the kubelet replaces a symlink to the directory with the volume's files.
#[test]
fn changed_file_is_read_again_and_an_invalid_one_is_reported() {
    let files = Files::new();
    let switch_to = |name: &str, text: &str| {
        fs::create_dir(files.path(name)).unwrap();
        fs::write(files.path(name).join("images.json"), text).unwrap();
        symlink(name, files.path("new-data")).unwrap();
        fs::rename(files.path("new-data"), files.path("..data")).unwrap();
    };
    switch_to("first", "{}");
    symlink("..data/images.json", files.path("images.json")).unwrap();
    let webhook = Webhook::with_files(&files, &["--images", files.path("images.json").to_str().unwrap()]);
    let pod = unknown_command("shop/api:1");
    assert!(is_held(&injected(&webhook, &files, &pod)));

    switch_to("second", FILE);
    eventually("the new file is used", || (!is_held(&injected(&webhook, &files, &pod))).then_some(()));

    switch_to("third", "{\"shop/api:1\": 1}");
    let warning = "cannot use the file of --images; the last valid content remains in use";
    let error = webhook.logged(warning)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("images.json: invalid type: integer `1`") && error.contains("resolve-images"), "{error}");
    let failed = "podgate_webhook_image_file_reads_total{result=\"failed\"}";
    eventually("the file is read again", || (webhook.metric(failed) >= 2.0).then_some(()));
    assert_eq!(webhook.log().iter().filter(|line| line["msg"] == warning).count(), 1, "the error is logged once");
    assert_eq!(command(&injected(&webhook, &files, &pod)), ["/api", "--on"]);
    assert!(webhook.metric(&failed.replace("failed", "ok")) >= 1.0 && webhook.is_ready());
}

#[test]
fn invalid_file_prevents_the_start() {
    let files = Files::new();
    let (cert, key) = (files.path("tls.crt"), files.path("tls.key"));
    files.put("large.json", &b" ".repeat(10 << 20));
    fs::create_dir(files.path("directory.json")).unwrap();
    for (name, content, what) in [
        ("directory.json", None, "not a regular file"),
        ("large.json", None, "larger than 1048576 bytes"),
        ("empty.json", Some(""), "EOF while parsing a value at line 1"),
        ("text.json", Some("shop/api:1: [/api]"), "expected value at line 1 column 1"),
        (
            "type.json",
            Some("{\"shop/api:1\": {\"cmd\": \"/api\"}}"),
            "invalid type: string \"/api\", expected a sequence",
        ),
    ] {
        if let Some(content) = content {
            files.put(name, content.as_bytes());
        }
        let path = files.path(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_podgate-webhook"));
        command.env_clear().args(["--tls", "files", "--listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0"]);
        command.timeout(HANG_GUARD);
        let output = command.arg("--cert").arg(&cert).arg("--key").arg(&key).arg("--images").arg(&path).output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {stderr}");
        assert!(stderr.contains(what) && stderr.contains(path.to_str().unwrap()), "{name}: {stderr}");
    }
}

/// Small values need much more memory than their text.
#[test]
fn largest_files_need_little_memory() {
    let files = Files::new();
    let entries: Vec<String> = (0..(1 << 20) / 12).map(|n| format!("\"{n:05x}\":{{}}")).collect();
    for text in
        [format!("{{{}}}", entries.join(",")), format!("{{\"a\":{{\"cmd\":[{}\"\"]}}}}", "\"\",".repeat(345_000))]
    {
        assert!(text.len() <= 1 << 20 && text.len() > (1 << 20) * 9 / 10, "{}", text.len());
        files.put("images.json", text.as_bytes());
        let webhook = Webhook::with_files(&files, &["--images", files.path("images.json").to_str().unwrap()]);
        assert!(webhook.peak_memory_kib() < 64 << 10, "{} KiB", webhook.peak_memory_kib());
    }
}
