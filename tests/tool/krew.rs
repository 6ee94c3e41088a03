//! Tests of the output of `krew/package`: archives, and a manifest that must follow the rules in krew's
//! `internal/index/validation`.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn package(arguments: &[&str]) -> Output {
    Command::new(format!("{ROOT}/krew/package")).args(arguments).output().unwrap()
}

/// Packages a placeholder program for two platforms. Returns the manifest.
fn packed(out: &Path) -> Value {
    let directory = TempDir::new().unwrap();
    let binary = directory.path().join("built");
    fs::write(&binary, "#!/bin/sh\n").unwrap();
    let agent = directory.path().join("podgate");
    fs::write(&agent, "#!/bin/sh\n").unwrap();
    let linux = format!("linux-amd64={},{}", binary.display(), agent.display());
    let windows = format!("windows-arm64={}", binary.display());
    let output = package(&["--out", out.to_str().unwrap(), "--url", "https://x.example/%v", &linux, &windows]);
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(out.join("podgate.yaml")).unwrap();
    assert!(!text.contains('@') && !text.contains('#'), "{text}");
    serde_saphyr::from_str(&text).unwrap()
}

fn text<'a>(value: &'a Value, at: &str) -> &'a str {
    let found = value.pointer(at).and_then(Value::as_str).unwrap_or_default();
    assert!(!found.trim().is_empty(), "{at} is missing in {value:#}");
    found
}

#[test]
fn manifest_follows_krews_rules() {
    let out = TempDir::new().unwrap();
    let manifest = packed(out.path());
    assert_eq!(text(&manifest, "/apiVersion"), "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(text(&manifest, "/kind"), "Plugin");
    assert_eq!(text(&manifest, "/metadata/name"), "podgate", "must match the file name");
    assert_eq!(text(&manifest, "/spec/version"), concat!("v", env!("CARGO_PKG_VERSION")));
    let short = text(&manifest, "/spec/shortDescription");
    assert!(short.len() <= 50 && !short.ends_with('.') && !short.contains('\n'), "{short}");
    assert_eq!(text(&manifest, "/spec/homepage"), podgate::order::release::REPOSITORY);
    text(&manifest, "/spec/description");
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    let mut seen = Vec::new();
    for platform in platforms {
        let labels = platform["selector"]["matchLabels"].as_object().unwrap();
        assert!(labels.keys().all(|key| ["os", "arch"].contains(&key.as_str())) && labels.len() == 2, "{labels:?}");
        assert!(!seen.contains(labels), "two archives for one platform");
        seen.push(labels.clone());
        let sum = text(platform, "/sha256");
        assert!(sum.len() == 64 && sum.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{sum}");
        let bin = text(platform, "/bin");
        assert!(!bin.starts_with('/') && !bin.contains(".."));
        let files: Vec<(&str, &str)> =
            platform["files"].as_array().unwrap().iter().map(|f| (text(f, "/from"), text(f, "/to"))).collect();
        assert!(files.contains(&(bin, ".")) && files.contains(&("LICENSE", ".")), "{files:?}");
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn archives_match_the_manifest_and_are_reproducible() {
    let (out, again) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let manifest = packed(out.path());
    packed(again.path());
    for platform in manifest["spec"]["platforms"].as_array().unwrap() {
        let uri = text(platform, "/uri");
        let name = uri.strip_prefix(concat!("https://x.example/v", env!("CARGO_PKG_VERSION"), "/")).expect(uri);
        let archive = out.path().join(name);
        let sum = Command::new("sha256sum").arg(&archive).output().unwrap();
        assert!(String::from_utf8_lossy(&sum.stdout).starts_with(text(platform, "/sha256")));
        assert_eq!(
            fs::read(&archive).unwrap(),
            fs::read(again.path().join(name)).unwrap(),
            "archives differ between runs"
        );
        let listed = Command::new("tar").arg("tvzf").arg(&archive).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let lines: Vec<&str> = listed.lines().collect();
        assert!(lines[0].starts_with("-rwxr-xr-x") && lines[0].ends_with(text(platform, "/bin")), "{listed}");
        assert!(lines[1].starts_with("-rw-r--r--") && lines[1].ends_with(" LICENSE"), "{listed}");
        let is_linux = platform["selector"]["matchLabels"]["os"] == "linux";
        let more: Vec<bool> =
            lines[2..].iter().map(|line| line.starts_with("-rwxr-xr-x") && line.ends_with(" podgate")).collect();
        assert_eq!(more, vec![true; usize::from(is_linux)], "`try` needs the agent beside the plugin: {listed}");
    }
}

#[test]
fn wrong_arguments_give_one_line() {
    for (arguments, code, expected) in [
        (&["--out", "x"][..], 64, "no binary: give"),
        (&["linux-amd64=x"], 64, "--out is missing"),
        (&["--out", "/tmp", "linux-amd64=/nonexistent"], 1, "/nonexistent: no such file"),
        (&["--out", "/tmp", "plan9-amd64=/bin/sh"], 64, "the OS must be linux, darwin or windows"),
        (&["--out", "/tmp", "linux-vax=/bin/sh"], 64, "unknown architecture vax"),
        (&["--out"], 64, "--out needs a value"),
        (&["--nonsense"], 64, "unknown option"),
    ] {
        let output = package(arguments);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), err.matches('\n').count()), (Some(code), 1), "{arguments:?}: {err}");
        assert!(err.contains(expected), "{err}");
    }
}
