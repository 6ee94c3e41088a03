//! Orders containers without podgate, in the ways that are in use. `tests/kubelet/peers/prepare` builds the programs.

use super::cell::Mode;
use crate::cluster::{ROOT, run_script};
use crate::pod::{Container, Peer, SHARED_DIR};
use serde_json::json;
use std::process::{Child, Command, Stdio};

/// Image with Tekton's entrypoint and the test server.
const IMAGE: &str = "docker.io/podgate/peers:dev";

/// Returns the containers of the chain, ordered by `mode`. Their servers listen on the ports after `ports`. `timeout`
/// is the time limit of each wait in seconds, if the way has one.
pub(super) fn order(mode: Mode, [db, api, web]: [Container; 3], ports: u16, timeout: Option<u32>) -> [Container; 3] {
    let address = |number: &u16| format!("--address=127.0.0.1:{}", ports + number);
    let poll = |numbers: &[u16], limit: Option<u32>, more: &[&str]| {
        let words = ["/testserver", "poll"].map(str::to_owned).into_iter();
        let words = words.chain(numbers.iter().map(address)).chain(limit.map(|s| format!("--timeout={s}s")));
        words.chain(more.iter().map(|word| (*word).to_owned())).collect::<Vec<_>>()
    };
    match mode {
        Mode::NativeSidecars => {
            let native = || Peer::NativeSidecar { failure_threshold: timeout.unwrap_or(3600) };
            [db.by_peer(native()), api.by_peer(native()), web]
        }
        Mode::Kruise => {
            let mut priority = 4;
            [db, api, web].map(|container| {
                priority -= 1;
                container.by_peer(Peer::LaunchPriority(priority))
            })
        }
        Mode::Tekton => {
            let ready = |name: &str| format!("{SHARED_DIR}/{name}");
            let waiting = |container: Container, files: &[String]| {
                let [end, step] = ["end", "step"].map(|kind| ready(&format!("{}-{kind}", container.name)));
                let wait = ["/entrypoint", "-wait_file", &files.join(","), "-termination_path", &end];
                let wait = wait.into_iter().chain(["-step_metadata_dir", &step]);
                let command = wait.chain(["-entrypoint", "/testserver", "--"]).map(str::to_owned);
                container.by_peer(Peer::Wrapper(command.collect())).with(json!({"image": IMAGE}))
            };
            let (db, api) = (db.args(&["--touch", &ready("db")]), api.args(&["--touch", &ready("api")]));
            [db, waiting(api, &[ready("db")]), waiting(web, &[ready("db"), ready("api")])]
        }
        Mode::HookLoop => {
            // The default of `pilot-agent wait`.
            let hook = |own: u16| Peer::Hook(poll(&[own], Some(timeout.unwrap_or(60)), &[]));
            [db.by_peer(hook(1)), api.by_peer(hook(2)), web]
        }
        Mode::PollingWrapper => {
            let wrapper = |awaited: &[u16]| Peer::Wrapper(poll(awaited, timeout, &["--"]));
            [db, api.by_peer(wrapper(&[1])), web.by_peer(wrapper(&[1, 2]))]
        }
        _ => unreachable!("{mode:?} is podgate's"),
    }
}

/// Kruise's controller, as a process on this machine. Dropping it kills the process.
pub(super) struct KruiseController {
    namespace: String,
    process: Child,
}

impl KruiseController {
    pub(super) fn start(namespace: &str) -> KruiseController {
        let program = Command::new(format!("{ROOT}/tests/kubelet/peers/prepare")).arg("--kruise").output();
        let program = program.expect("tests/kubelet/peers/prepare").stdout;
        let mut command = Command::new(String::from_utf8_lossy(&program).trim());
        command.env("KUBECONFIG", run_script(&["kubeconfig"]).trim()).env("POD_NAMESPACE", namespace);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the controller starts");
        KruiseController { namespace: namespace.to_owned(), process }
    }

    /// Kills the controller and starts it again.
    pub(super) fn restart(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        *self = KruiseController::start(&self.namespace);
    }
}

impl Drop for KruiseController {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
