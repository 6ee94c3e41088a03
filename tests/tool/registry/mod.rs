//! Tests of `inject --resolve-images` and `resolve-images`. They use a real registry, and servers that answer
//! incorrectly or not at all.

mod cluster;
mod commands;
mod hostile;
mod image_file;
mod server;
mod tokens;

use crate::free_port::free_address;
use crate::hang_guard::HANG_GUARD;
use assert_cmd::Command;
use serde_json::{Value, json};
use server::{Access, Registry, USER};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use tempfile::TempDir;
use tokens::Service;

const APP: &[u8] = br#"{"os":"linux","config":{"Entrypoint":["/app","--x"],"Cmd":["$(A)","serve"]}}"#;
const ARM: &[u8] = br#"{"os":"linux","config":{"Entrypoint":null,"Cmd":["/arm"]}}"#;
const NONE: &[u8] = br#"{"os":"linux","config":{}}"#;

/// Temporary directory with the images of a registry, a home directory and manifests.
struct Scene {
    directory: TempDir,
    program: String,
}

impl Scene {
    fn new() -> Option<Scene> {
        let program = server::program()?;
        let scene = Scene { directory: tempfile::tempdir().unwrap(), program };
        fs::create_dir(scene.home()).unwrap();
        Some(scene)
    }

    fn home(&self) -> std::path::PathBuf {
        self.directory.path().join("home")
    }

    fn serve(&self, access: Access) -> Registry {
        Registry::start(&self.program, self.directory.path(), access)
    }

    /// Writes a file. Returns the path of the file.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Writes the certificate and the key for a registry with TLS. Returns the path of the certificate.
    fn certificate(&self) -> String {
        let certificate = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        self.file("key.pem", &certificate.signing_key.serialize_pem());
        self.file("tls.pem", &certificate.cert.pem())
    }

    fn inject(&self, image: &str, more: &[&str]) -> Run {
        run(&self.home(), &pod(image), &[&["--resolve-images"], more].concat())
    }
}

struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    /// Returns the injected container `app`.
    fn container(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.err);
        let pod: Value = serde_saphyr::from_str(&self.out).unwrap();
        pod["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .find(|container| container["name"] == "app")
            .unwrap()
            .clone()
    }

    /// Returns the command that the gate starts.
    fn command(&self) -> Vec<String> {
        let container = self.container();
        let all = ["command", "args"].into_iter().filter_map(|field| container[field].as_array()).flatten();
        let words = all.map(|word| word.as_str().unwrap().to_owned());
        words.skip_while(|word| word != "--").skip(1).collect()
    }

    fn image(&self) -> String {
        self.container()["image"].as_str().unwrap().to_owned()
    }
}

fn run(home: &Path, input: &str, more: &[&str]) -> Run {
    run_tool(home, input, &[&["inject", "-"], more].concat())
}

fn run_tool(home: &Path, input: &str, arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-podgate"));
    command.env_clear().env("HOME", home).timeout(HANG_GUARD);
    let output = command.args(arguments).write_stdin(input).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// Returns a Pod whose second container has no command.
fn pod(image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    podgate.io/order: db, app\n    podgate.io/mode: entrypoint\n\
         spec:\n  containers:\n  - name: db\n    image: db:1\n    command: [/db]\n    readinessProbe:\n      tcpSocket: {{port: 1}}\n\
         \x20 - name: app\n    image: {image}\n"
    )
}

#[test]
fn commands_are_read_from_all_image_formats() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve(Access::Open);
    let at = &registry.address;
    let own = registry.push("team/app", "docker", true, APP);
    registry.push("team/app", "oci", false, APP);
    let arm = registry.push("team/app", "arm", false, ARM);
    let index = registry.index("team/app", "all", &[(own.clone(), "linux/amd64"), (arm, "linux/arm64/v8")]);

    for tag in ["docker", "oci", "all"] {
        let run = scene.inject(&format!("{at}/team/app:{tag}"), &[]);
        assert_eq!(run.command(), ["/app", "--x", "$$(A)", "serve"], "{tag}");
    }
    // A multi-platform image is pinned to the digest of its index.
    let digest = |descriptor: &Value| descriptor["digest"].as_str().unwrap().to_owned();
    let run = scene.inject(&format!("{at}/team/app:all"), &[]);
    assert_eq!(run.image(), format!("{at}/team/app:all@{}", digest(&index)));
    assert!(run.err.contains("note: ") && run.err.contains("[image-pinned]"), "{}", run.err);
    let run = scene.inject(&format!("{at}/team/app:all"), &["--no-pin"]);
    assert_eq!(run.image(), format!("{at}/team/app:all"));

    for platform in ["linux/arm64", "linux/arm64/v8"] {
        let run = scene.inject(&format!("{at}/team/app:all"), &["--platform", platform]);
        assert_eq!(run.command(), ["/arm"]);
    }
    let by_digest = format!("{at}/team/app@{}", digest(&own));
    let run = scene.inject(&by_digest, &[]);
    assert_eq!((run.command().len(), run.image()), (4, by_digest));
}

#[test]
fn manifest_takes_precedence_over_image() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve(Access::Open);
    registry.push("app", "1", false, APP);
    let image = format!("{}/app:1", registry.address);
    let with_args = pod(&image) + "    args: [own]\n";
    let run_args = run(&scene.home(), &with_args, &["--resolve-images"]);
    assert_eq!(run_args.command(), ["/app", "--x", "own"]);

    drop(registry);
    // Without the registry, every request fails. Podgate sends no request if the command is known or not needed.
    for text in [pod(&image) + "    command: [/own]\n", pod(&image).replace("mode: entrypoint", "mode: post-start")] {
        assert_eq!(run(&scene.home(), &text, &["--resolve-images"]).code, 0);
    }
    let run = run(&scene.home(), &pod(&image), &[]);
    assert!(run.code == 1 && run.err.contains("--resolve-images"), "{}", run.err);
}

#[test]
fn commands_replace_hold_mode() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve(Access::Open);
    registry.push("app", "1", false, APP);
    let image = format!("{}/app:1", registry.address);
    // In this Pod, `app` waits for nothing and has no preStop hook. Podgate needs the command of `app` to report the
    // exit of `app` at once.
    let ends =
        pod(&image).replace("order: db, app", "order: app=Completed, db").replace("mode: entrypoint", "mode: auto");
    let ends = ends.replace("spec:\n", "spec:\n  restartPolicy: Never\n");
    assert_eq!(run(&scene.home(), &ends, &["--resolve-images"]).command(), ["/app", "--x", "$$(A)", "serve"]);
    drop(registry);
    let held = pod(&image).replace("mode: entrypoint", "mode: hold");
    let run = run(&scene.home(), &held, &["--resolve-images"]);
    assert!(run.code == 0 && run.out.contains("PODGATE_HOLD"), "mode hold needs no command: {}", run.err);
}

fn login(registry: &str, password: &str) -> String {
    json!({"auths": {registry: {"username": USER.0, "password": password}}}).to_string()
}

#[test]
fn credentials_come_from_pull_secrets_and_docker_config() {
    let Some(scene) = Scene::new() else { return };
    scene.serve(Access::Open).push("team/app", "1", true, APP);
    let registry = scene.serve(Access::Locked);
    let image = format!("{}/team/app:1", registry.address);

    let run = scene.inject(&image, &[]);
    assert!(run.code == 1 && run.err.contains("--pull-secret"), "{}", run.err);
    let wrong = scene.file("wrong.json", &login(&registry.address, "secret-and-wrong"));
    let run = scene.inject(&image, &["--pull-secret", &wrong]);
    assert!(run.code == 1 && run.err.contains("access denied"), "{}", run.err);
    assert!(!run.err.contains("secret-and-wrong"), "{}", run.err);

    let right = scene.file("right.json", &login(&registry.address, USER.1));
    assert_eq!(scene.inject(&image, &["--pull-secret", &right]).command().len(), 4);
    let narrow = scene.file("narrow.json", &login(&format!("https://{}/team", registry.address), USER.1));
    // If the registry denies the first credentials, podgate tries the next ones.
    assert_eq!(scene.inject(&image, &["--pull-secret", &wrong, "--pull-secret", &narrow]).command().len(), 4);
    let elsewhere = scene.file("elsewhere.json", &login(&format!("{}/other", registry.address), USER.1));
    assert_eq!(scene.inject(&image, &["--pull-secret", &elsewhere]).code, 1);

    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {".dockerconfigjson": login(&registry.address, USER.1)}});
    let secret = scene.file("secret.yaml", &secret.to_string());
    assert_eq!(scene.inject(&image, &["--pull-secret", &secret]).command().len(), 4);

    fs::create_dir(scene.home().join(".docker")).unwrap();
    fs::write(scene.home().join(".docker/config.json"), login(&registry.address, USER.1)).unwrap();
    assert_eq!(scene.inject(&image, &[]).command().len(), 4);
}

/// Docker Hub, ghcr.io and most other registries redirect clients to a token service.
#[test]
fn tokens_are_fetched_from_a_token_service() {
    let Some(scene) = Scene::new() else { return };
    let open = scene.serve(Access::Open);
    open.push("public/app", "1", true, APP);
    open.push("team/app", "1", true, APP);
    drop(open);
    let service = Service::start(scene.directory.path());
    let registry = scene.serve(Access::Token(service.address));
    let at = &registry.address;

    assert_eq!(scene.inject(&format!("{at}/public/app:1"), &[]).command().len(), 4, "{:?}", service.asked());
    assert_eq!(
        service.asked(),
        [("repository:public/app:pull".to_owned(), None)],
        "one token must cover all requests for an image"
    );

    let own = format!("{at}/team/app:1");
    let run = scene.inject(&own, &[]);
    assert!(run.code == 1 && run.err.contains("--pull-secret"), "{}", run.err);
    let wrong = scene.file("wrong.json", &login(at, "secret-and-wrong"));
    let right = scene.file("right.json", &login(at, USER.1));
    let run = scene.inject(&own, &["--pull-secret", &wrong]);
    assert!(run.code == 1 && run.err.contains("access denied"), "{}", run.err);
    let run = scene.inject(&own, &["--pull-secret", &wrong, "--pull-secret", &right]);
    assert_eq!(run.command().len(), 4);
    let last = service.asked().pop().unwrap();
    assert_eq!(last, ("repository:team/app:pull".to_owned(), Some(format!("{}:{}", USER.0, USER.1))));
}

#[test]
fn credential_helper_is_never_run() {
    let Some(scene) = Scene::new() else { return };
    scene.serve(Access::Open).push("app", "1", true, APP);
    let registry = scene.serve(Access::Locked);
    let marker = scene.directory.path().join("started");
    let bin = scene.directory.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let helper = bin.join("docker-credential-evil");
    fs::write(&helper, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
    fs::set_permissions(&helper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let config =
        scene.file("config.json", &json!({"auths": {&registry.address: {}}, "credsStore": "evil"}).to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-podgate"));
    command.env_clear().env("HOME", scene.home()).env("PATH", &bin).timeout(HANG_GUARD);
    let arguments = ["inject", "-", "--resolve-images", "--pull-secret", &config];
    let output = command.args(arguments).write_stdin(pod(&format!("{}/app:1", registry.address))).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && err.contains("does not run the credential helper"), "{err}");
    assert!(err.contains(" | docker-credential-NAME get | "), "{err}");
    assert!(!marker.exists());
}

#[test]
fn private_ca_needs_registry_ca() {
    let Some(scene) = Scene::new() else { return };
    scene.serve(Access::Open).push("app", "1", true, APP);
    let ca = scene.certificate();
    let registry = scene.serve(Access::Tls);
    let image = format!("{}/app:1", registry.address);
    let run = scene.inject(&image, &[]);
    assert!(
        run.code == 1 && run.err.contains("request to 127.0.0.1:") && run.err.contains("ertificate"),
        "{}",
        run.err
    );
    assert_eq!(scene.inject(&image, &["--registry-ca", &ca]).command().len(), 4);
    let none = scene.file("none.pem", "no certificate\n");
    let run = scene.inject(&image, &["--registry-ca", &none]);
    assert!(run.code == 1 && run.err.contains("no PEM certificate"), "{}", run.err);
}

#[test]
fn failed_lookup_is_one_error_line() {
    let Some(scene) = Scene::new() else { return };
    let registry = scene.serve(Access::Open);
    let at = registry.address.clone();
    let own = registry.push("app", "1", true, APP);
    registry.index("app", "arm", &[(own, "linux/arm64")]);
    registry.push("app", "broken", false, b"[]");
    registry.push("app", "huge", false, &[b' '; 5 << 20]);
    registry.push("app", "none", false, NONE);
    let free = free_address();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|address| (silent, address)).unwrap();
    for (image, expected) in [
        (format!("{at}/app:2"), "image not found"),
        (format!("{at}/other:1"), "image not found"),
        (format!("{at}/app@sha256:{}", "0".repeat(64)), "image not found"),
        (format!("{at}/app:arm"), "no image for platform linux/amd64"),
        (format!("{at}/app:broken"), "the manifest's configuration is not an image configuration"),
        (format!("{at}/app:huge"), "the image configuration is larger than 4 MiB"),
        (format!("{free}/app:1"), "Connection refused"),
        ("no-such-host.invalid/app:1".to_owned(), "request to no-such-host.invalid failed"),
        (format!("{}/app:1", silent.1), "no answer from"),
        ("'no name:1'".to_owned(), "invalid image name"),
    ] {
        let run = scene.inject(&image, &["--registry-timeout", "3s"]);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{image}: {}", run.err);
        assert!(run.err.contains(expected), "{image}: {}", run.err);
        assert!(
            run.err.lines().count() == 1 && run.err.contains("<stdin>:1: container app: image "),
            "{image}: {}",
            run.err
        );
    }
    let run = scene.inject(&format!("{at}/app:none"), &[]);
    assert!(run.code == 1 && run.err.contains("neither Entrypoint nor Cmd"), "{}", run.err);
}
