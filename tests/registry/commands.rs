//! The commands of `docs/resolve-images.md`, in a folder with the files that they name.

use crate::page::Page;
use crate::server::{Door, USER};
use crate::{APP, ARM, Place, login, pod, shell};
use std::fs;

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
    for name in ["deploy", "home/.docker"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    place.file("shop.yaml", &manifest);
    place.file("deploy/shop.yaml", &manifest);
    let logins = login(&registry.address, USER.1);
    place.file("home/.docker/config.json", &logins);
    let secret = format!("apiVersion: v1\nkind: Secret\nstringData:\n  .dockerconfigjson: '{logins}'\n");
    place.file("secret.yaml", &secret);
    shell::set_up(place.folder.path());

    let blocks = Page::read("docs/resolve-images.md").blocks("sh");
    let commands: Vec<&str> = blocks.iter().flat_map(|block| block.text.lines()).collect();
    for command in &commands {
        let (code, said) = shell::bash(place.folder.path(), &place.home(), command);
        assert_eq!(code, Some(0), "{command}: {said}");
    }
    assert_eq!(commands.len(), 2);
    let starts = |name: &str, program: &str| fs::read_to_string(at(name)).unwrap().contains(program);
    assert!(starts("applied.yaml", "\"/app\"") || starts("applied.yaml", "- /app"), "the image's command");
    assert!(starts("deploy/shop.yaml", "/arm"), "that for the other platform");
}
