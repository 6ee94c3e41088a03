//! The commands on the pages that need a cluster, as a reader would type them. Those that need none: `tests/book`.

#[allow(dead_code, reason = "shared with tests/book")]
#[path = "../../book/page.rs"]
mod page;

mod install;
mod pod;
mod tutorial;

use crate::cluster::{BUSYBOX_IMAGE, IMAGE, ROOT, run_script};
use crate::scene::Scene;
use page::Page;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use tempfile::TempDir;

/// A reader: a folder to work in, kubectl with its plugin, and a kubeconfig whose namespace is the scene's.
pub(crate) struct Reader {
    folder: TempDir,
    /// What on the pages is another here: names and images.
    replacements: Vec<(String, String)>,
}

/// The tutorial's Deployment, with the order that it comes to.
fn ordered_shop() -> String {
    let shop = &Page::read("docs/tutorial.md").blocks("yaml")[0].text;
    let labels = "      labels: {app: shop}\n    spec:";
    assert_eq!(shop.matches(labels).count(), 1, "{shop}");
    shop.replace(labels, "      labels: {app: shop}\n      annotations: {podgate.io/order: 'db, api, web'}\n    spec:")
}

/// What came of some commands.
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    /// That, and what was said on standard error.
    pub(crate) all_output: String,
}

impl Reader {
    pub(crate) fn new(scene: &Scene) -> Reader {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["bin", "plugins"] {
            fs::create_dir(at(name)).expect("a folder");
        }
        let program = option_env!("CARGO_BIN_EXE_kubectl-podgate").unwrap_or("kubectl-podgate");
        symlink(program, at("plugins/kubectl-podgate")).expect("a link");
        let here = folder.path().display();
        let kubectl = format!(
            "#!/bin/sh\nexport KUBECONFIG={here}/kubeconfig PATH={here}/plugins:${{PATH#{here}/bin:}}\n\
             exec {ROOT}/tests/cluster/cluster kubectl \"$@\"\n"
        );
        fs::write(at("bin/kubectl"), kubectl).expect("a script");
        fs::set_permissions(at("bin/kubectl"), fs::Permissions::from_mode(0o755)).expect("a script");

        let config = run_script(&["kubectl", "config", "view", "--raw", "--flatten", "--minify", "-o", "json"]);
        let mut config: Value = serde_json::from_str(&config).expect("a kubeconfig");
        config["contexts"][0]["context"]["namespace"] = scene.namespace.as_str().into();
        let mut other = config["contexts"][0].clone();
        other["name"] = "test".into();
        config["contexts"].as_array_mut().expect("contexts").push(other);
        fs::write(at("kubeconfig"), config.to_string()).expect("the kubeconfig");

        let inject = (String::from("podgate inject "), format!("podgate inject --image {IMAGE} "));
        let busybox = (String::from("docker.io/library/busybox:1.37"), String::from(BUSYBOX_IMAGE));
        Reader { folder, replacements: vec![inject, busybox] }
    }

    /// Where the page says `from`, the reader types `to`.
    pub(crate) fn substitute(&mut self, from: &str, to: &str) {
        self.replacements.push((from.to_owned(), to.to_owned()));
    }

    fn with_replacements(&self, text: &str) -> String {
        self.replacements.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// Saves a file.
    pub(crate) fn save(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), self.with_replacements(text)).expect("a file");
    }

    pub(crate) fn link(&self, name: &str, to: &str) {
        symlink(to, self.folder.path().join(name)).expect("a link");
    }

    /// Runs commands, of which each must succeed for the next one to be run.
    pub(crate) fn try_run(&self, commands: &str) -> CommandOutput {
        let script = format!("PATH={}/bin:$PATH\n{}", self.folder.path().display(), self.with_replacements(commands));
        let mut command = Command::new("bash");
        command.args(["-euxo", "pipefail", "-c", &script]).current_dir(self.folder.path());
        let output = command.env_remove("KUBECONFIG").output().expect("bash");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let all = format!("{out}\n{}", String::from_utf8_lossy(&output.stderr));
        CommandOutput { code: output.status.code(), stdout: out, all_output: all }
    }

    pub(crate) fn run(&self, commands: &str) -> CommandOutput {
        let said = self.try_run(commands);
        assert_eq!(said.code, Some(0), "{commands}\n{}", said.all_output);
        said
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}
