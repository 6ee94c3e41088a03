//! The commands of `docs/resolve-images.md`, in a folder with the files that they name.

use crate::page::Page;
use crate::server::{Door, USER};
use crate::{APP, ARM, Place, login, pod};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

#[test]
fn commands_on_the_page_do_what_they_say() {
    let Some(place) = Place::new() else { return };
    let open = place.serve(Door::Open);
    let (amd, arm) = (open.push("shop/app", "amd", false, APP), open.push("shop/app", "arm", false, ARM));
    open.index("shop/app", "1", &[(amd, "linux/amd64"), (arm, "linux/arm64")]);
    drop(open);
    let registry = place.serve(Door::Locked);
    let manifest = pod(&format!("{}/shop/app:1", registry.address));
    let at = |name: &str| place.folder.path().join(name);
    for name in ["bin", "deploy", "home/.docker"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    place.file("shop.yaml", &manifest);
    place.file("deploy/shop.yaml", &manifest);
    let logins = login(&registry.address, USER.1);
    place.file("home/.docker/config.json", &logins);
    let secret = format!("apiVersion: v1\nkind: Secret\nstringData:\n  .dockerconfigjson: '{logins}'\n");
    place.file("secret.yaml", &secret);
    let kubectl =
        "#!/bin/sh\ncase $1 in\npodgate) shift && exec kubectl-podgate \"$@\" ;;\n*) cat >applied.yaml ;;\nesac\n";
    place.file("bin/kubectl", kubectl);
    fs::set_permissions(at("bin/kubectl"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink(env!("CARGO_BIN_EXE_kubectl-podgate"), at("bin/kubectl-podgate")).unwrap();

    let blocks = Page::read("docs/resolve-images.md").blocks("sh");
    let commands: Vec<&str> = blocks.iter().flat_map(|block| block.text.lines()).collect();
    for command in &commands {
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &format!("PATH=$PWD/bin:$PATH\n{command}")])
            .current_dir(place.folder.path());
        let output = bash.env("HOME", place.home()).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(commands.len(), 2);
    let starts = |name: &str, program: &str| fs::read_to_string(at(name)).unwrap().contains(program);
    assert!(starts("applied.yaml", "\"/app\"") || starts("applied.yaml", "- /app"), "the image's command");
    assert!(starts("deploy/shop.yaml", "/arm"), "that for the other platform");
}
