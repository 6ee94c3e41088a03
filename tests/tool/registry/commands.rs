//! Runs the commands of `docs/inject.md` that need a registry, in a directory that has the files of these commands.

use super::cluster::Cluster;
use super::server::{Access, USER};
use super::{APP, ARM, Scene, login, pod};
use crate::book::page::{Page, needs_a_registry};
use crate::book::shell;
use std::fs;

#[test]
fn commands_on_the_page_work() {
    let Some(scene) = Scene::new() else { return };
    let open = scene.serve(Access::Open);
    let (amd, arm) = (open.push("shop/app", "amd", false, APP), open.push("shop/app", "arm", false, ARM));
    open.index("shop/app", "1", &[(amd, "linux/amd64"), (arm, "linux/arm64")]);
    drop(open);
    let registry = scene.serve(Access::Locked);
    let image = format!("{}/shop/app:1", registry.address);
    let manifest = pod(&image);
    let server = Cluster { deployment: image, ..Cluster::default() }.serve();
    let at = |name: &str| scene.directory.path().join(name);
    for name in ["deploy", "home/.docker"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    scene.file("shop.yaml", &manifest);
    scene.file("deploy/shop.yaml", &manifest);
    let logins = login(&registry.address, USER.1);
    scene.file("home/.docker/config.json", &logins);
    let secret = format!("apiVersion: v1\nkind: Secret\nstringData:\n  .dockerconfigjson: '{logins}'\n");
    scene.file("secret.yaml", &secret);
    shell::set_up(scene.directory.path());

    let blocks = Page::read("docs/inject.md").blocks("sh");
    // `tests/tool/book` runs the other commands.
    let lines = blocks.iter().flat_map(|block| block.text.lines());
    let commands: Vec<&str> = lines.filter(|line| needs_a_registry(line)).collect();
    let runs = |name: &str, program: &str| fs::read_to_string(at(name)).unwrap().contains(program);
    for command in &commands {
        let script = format!("export KUBECONFIG={}\n{command}", server.kubeconfig().display());
        let (code, output) = shell::bash(scene.directory.path(), &scene.home(), &script);
        assert_eq!(code, Some(0), "{command}: {output}");
        if command.contains("inject ") && command.contains("| kubectl apply") {
            let applied = fs::read_to_string(at("applied.yaml")).unwrap();
            assert!(applied.contains("\"/app\"") || applied.contains(" /app, "), "{command}: {applied}");
        }
        if command.contains(">images.json") {
            assert!(runs("images.json", "\"/app\""), "{command}");
        }
    }
    assert_eq!(commands.len(), 7);
    assert!(server.requests().iter().any(|request| request.method == "PATCH"), "--apply must write the ConfigMap");
    assert!(runs("deploy/shop.yaml", "/arm"), "the manifest must have the command for the other platform");
}
