//! Runs the commands of the documentation that need a cluster. `tests/tool/book` runs the other commands.

#[allow(dead_code, reason = "shared with tests/tool/book")]
#[path = "../../tool/book/page.rs"]
mod page;

mod install;
mod pod;
mod tutorial;

use crate::cluster::{IMAGE, ROOT, run_script};
use crate::scene::Scene;
use page::Page;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use tempfile::TempDir;

/// The environment of a user who runs the commands: a work directory, kubectl with the plugin, and a kubeconfig with
/// the scene's namespace.
pub(crate) struct Reader {
    directory: TempDir,
    /// Pairs of a text on the pages and its replacement for this cluster.
    replacements: Vec<(String, String)>,
}

/// Returns the tutorial's Deployment with the order that the tutorial declares last.
fn ordered_shop() -> String {
    let shop = &Page::read("docs/tutorial.md").blocks("yaml")[0].text;
    let labels = "      labels: {app: shop}\n    spec:";
    assert_eq!(shop.matches(labels).count(), 1, "{shop}");
    shop.replace(labels, "      labels: {app: shop}\n      annotations: {podgate.io/order: 'db, api, web'}\n    spec:")
}

/// The exit code and output of some commands.
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    /// Standard output, followed by standard error.
    pub(crate) all_output: String,
}

impl Reader {
    pub(crate) fn new(scene: &Scene) -> Reader {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        for name in ["bin", "plugins"] {
            fs::create_dir(at(name)).expect("a directory");
        }
        let program = option_env!("CARGO_BIN_EXE_kubectl-podgate").unwrap_or("kubectl-podgate");
        symlink(program, at("plugins/kubectl-podgate")).expect("a link");
        let here = directory.path().display();
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
        Reader { directory, replacements: vec![inject] }
    }

    /// Replaces `from` by `to` in commands and files.
    pub(crate) fn substitute(&mut self, from: &str, to: &str) {
        self.replacements.push((from.to_owned(), to.to_owned()));
    }

    fn with_replacements(&self, text: &str) -> String {
        self.replacements.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// Writes `text` to a file, with the replacements made.
    pub(crate) fn save(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), self.with_replacements(text)).expect("a file");
    }

    /// Runs commands, and stops at the first failed command.
    pub(crate) fn try_run(&self, commands: &str) -> CommandOutput {
        let script =
            format!("PATH={}/bin:$PATH\n{}", self.directory.path().display(), self.with_replacements(commands));
        let mut command = Command::new("bash");
        command.args(["-euxo", "pipefail", "-c", &script]).current_dir(self.directory.path());
        let output = command.env_remove("KUBECONFIG").output().expect("bash");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let all = format!("{out}\n{}", String::from_utf8_lossy(&output.stderr));
        CommandOutput { code: output.status.code(), stdout: out, all_output: all }
    }

    pub(crate) fn run(&self, commands: &str) -> CommandOutput {
        let output = self.try_run(commands);
        assert_eq!(output.code, Some(0), "{commands}\n{}", output.all_output);
        output
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }
}
