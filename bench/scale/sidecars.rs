//! Runs many sidecars against one API server. Measures their memory, their requests, and their reconnects.

use crate::api::{Answer, Api, Request, processor_ms};
use crate::cluster::{kubectl, run_script, script_command, try_kubectl};
use crate::quantile::median;
use crate::{Results, admissions, clock, storm};
use podgate::core::names;
use podgate::core::report::Report;
use podgate::edge::{files, source};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const NAMESPACE: &str = "scale-sidecars";
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const CONTAINERS: &str =
    r#"[{"name":"db","mode":"post-start"},{"name":"api","mode":"post-start"},{"name":"web","mode":"post-start"}]"#;
/// Script that starts a sidecar for each directory in $1. Each sidecar has its own mount namespace, because the path of
/// the token is fixed.
const START: &str = r#"
mount -t tmpfs none /var/run
mkdir -p "$account"
for directory in "$1"/*/; do
    cd "$directory"
    echo >log
    (echo "$BASHPID" >pid
     exec env POD_NAME="$(basename "$directory")" POD_UID="$(cat uid)" \
         unshare --mount sh -ec 'mount --bind account "$account"; exec "$program"' >log 2>&1) &
done
wait"#;
/// Time limit in seconds within which each sidecar must connect again.
const RECONNECTED: u64 = 120;

/// File with the limit of inotify instances for each user. The sidecars of all Pods on a node share this limit. A
/// sidecar without an instance polls.
const INOTIFY: &str = "/proc/sys/fs/inotify/max_user_instances";

/// The sidecars' processes and directories. Dropping this value ends the processes, and restores the inotify limit.
struct Sidecars {
    inotify: String,
    parent: Child,
    _root: tempfile::TempDir,
    pods: Vec<PathBuf>,
    pids: Vec<u32>,
}

impl Drop for Sidecars {
    fn drop(&mut self) {
        // Do not use kill(1): procps 4.0.2 reads a process group such as -123 as -1, which means every process.
        let _ = kill_process_group(Pid::from_child(&self.parent), Signal::KILL);
        let _ = self.parent.wait();
        let _ = fs::write(INOTIFY, &self.inotify);
        let _ = try_kubectl(&["delete", "namespace", NAMESPACE]);
    }
}

pub(crate) fn measure(count: usize) -> Results {
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--ignore-not-found"]);
    run_script(&["namespace", NAMESPACE]);
    let group = format!("--group=system:serviceaccounts:{NAMESPACE}");
    kubectl(&["-n", NAMESPACE, "create", "rolebinding", "podgate", "--clusterrole=podgate-sidecar", &group]);
    let begin = clock::wall_ms();
    let sidecars = Sidecars::start(count);
    let requests = |verb: &str, since| {
        storm::requests(NAMESPACE, since).iter().filter(|(_, request)| request.verb == verb).count()
    };
    clock::eventually("each sidecar watches and has patched its Pod", 300, || {
        std::thread::sleep(Duration::from_secs(1));
        (requests("watch", begin) >= count && requests("patch", begin) >= count).then_some(())
    });
    std::thread::sleep(Duration::from_secs(15));
    let waiting = sidecars.memory();
    let used = sidecars.processor_ms();
    std::thread::sleep(Duration::from_secs(10));
    let used = (sidecars.processor_ms() - used) / 10.0 / count as f64;
    let mut per_pod = storm::requests(NAMESPACE, begin).len();

    let reconnects = |since| {
        clock::eventually("all sidecars have connected again", RECONNECTED, || {
            std::thread::sleep(Duration::from_secs(1));
            Some(storm::reconnects(NAMESPACE, since)).filter(|times| times.len() == count)
        })
    };
    let since = clock::wall_ms();
    cut();
    let cut_spread = storm::spread("after a cut of all connections", &reconnects(since));
    let since = clock::wall_ms();
    run_script(&["stop-apiserver"]);
    run_script(&["start-apiserver"]);
    let restart_spread = storm::spread("after a restart of the API server", &reconnects(since));
    // A watch must last some time before it counts as stable.
    std::thread::sleep(Duration::from_secs(15));

    let since = clock::wall_ms();
    for container in ["db", "api", "web"] {
        sidecars.pods.iter().for_each(|pod| report(pod, container));
        std::thread::sleep(Duration::from_secs(5));
    }
    let is_idle = |pod: &PathBuf| fs::read_to_string(pod.join("log")).is_ok_and(|log| log.contains("going idle"));
    clock::eventually("all sidecars are idle", 300, || {
        std::thread::sleep(Duration::from_secs(1));
        sidecars.pods.iter().all(is_idle).then_some(())
    });
    // An idle sidecar keeps a connection without requests for 10 s (`REQUEST_TIMEOUT`), so wait until the sidecar has
    // closed the connection.
    std::thread::sleep(Duration::from_secs(30));
    per_pod += storm::requests(NAMESPACE, since).len();
    let idle = sidecars.memory();
    let since = clock::wall_ms();
    cut();
    std::thread::sleep(Duration::from_secs(20));
    let idle_requests = storm::requests(NAMESPACE, since).len();
    vec![
        ("sidecar-waiting-pss", waiting.0),
        ("sidecar-waiting-private", waiting.1),
        ("sidecar-waiting-processor-time", used),
        ("sidecar-idle-private", idle.1),
        ("requests-per-pod", per_pod as f64 / count as f64),
        ("cut-spread", cut_spread.seconds),
        ("cut-busiest-second", cut_spread.busiest_second),
        ("restart-spread", restart_spread.seconds),
        ("restart-busiest-second", restart_spread.busiest_second),
        ("idle-requests-after-cut", idle_requests as f64),
    ]
}

/// Cuts all connections to the API server, like a load balancer that fails over.
fn cut() {
    run_script(&["run", "ss", "--tcp", "--no-header", "--kill", "dst", admissions::API_IP, "dport", "=", ":443"]);
}

/// Reports that `container` has started. A container without a probe is then Ready.
fn report(pod: &Path, container: &str) {
    let board = source::read_board(&pod.join("board")).unwrap_or_else(|error| panic!("{}: {error:?}", pod.display()));
    let report = Report { sandbox: Some(board.sandbox), epoch: board.epoch, started: true, ..Report::default() };
    let directory = pod.join("self").join(container);
    files::replace(&directory, names::REPORT_FILE, report.to_text().as_bytes(), 0o644).expect("to write a report");
}

impl Sidecars {
    fn start(count: usize) -> Sidecars {
        let root = tempfile::tempdir().expect("a directory");
        let api = Api::new();
        let programs = Command::new(format!("{}/tools/build", crate::cluster::ROOT))
            .args(["podgate-controller", "podgate"])
            .output();
        let programs = String::from_utf8(programs.expect("tools/build").stdout).expect("paths");
        let [program, agent] = programs.lines().collect::<Vec<_>>()[..] else { panic!("tools/build: {programs}") };
        let pods: Vec<PathBuf> = (0..count).map(|number| root.path().join(format!("pod-{number}"))).collect();
        for (pod, (uid, token)) in pods.iter().zip(identities(&api, &pods)) {
            for directory in ["board", "self", "account"] {
                fs::create_dir_all(pod.join(directory)).expect("a directory");
            }
            let files = [("uid", uid.as_bytes()), ("account/token", token.as_bytes()), ("account/ca.crt", &api.ca)];
            for (file, content) in [&files[..], &[("account/namespace", NAMESPACE.as_bytes())]].concat() {
                fs::write(pod.join(file), content).expect("to write a file");
            }
        }
        let mut command = script_command();
        command.args(["run", "unshare", "--mount", "bash", "-ec", START, "bash"]).arg(root.path());
        command.env("account", ACCOUNT).env("program", program).env("PODGATE_AGENT", agent);
        command.env("PODGATE_BOARD", "board").env("PODGATE_SELF", "self");
        command.env("PODGATE_CONTAINERS", CONTAINERS).env("POD_NAMESPACE", NAMESPACE).env("POD_IPS", "127.0.0.1");
        command.env("KUBERNETES_SERVICE_HOST", admissions::API_IP).env("KUBERNETES_SERVICE_PORT", "443");
        let inotify = fs::read_to_string(INOTIFY).expect("the limit");
        fs::write(INOTIFY, (4 * count + 1024).to_string()).expect("to raise the limit");
        let parent = command.process_group(0).stdin(Stdio::null()).spawn().expect("the cluster");
        let mut sidecars = Sidecars { inotify, parent, _root: root, pods, pids: Vec::new() };
        clock::eventually("all sidecars have started", 120, || {
            let read = |pod: &PathBuf| fs::read_to_string(pod.join("pid")).ok()?.trim().parse().ok();
            sidecars.pids = sidecars.pods.iter().filter_map(read).collect();
            (sidecars.pids.len() == count).then_some(())
        });
        sidecars
    }

    /// Returns medians in MiB: the proportional set size, and the memory that belongs to one process alone.
    fn memory(&self) -> (f64, f64) {
        let mut values = [Vec::new(), Vec::new()];
        for pid in &self.pids {
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("the sidecar runs");
            let sum = |keys: &[&str]| {
                let lines = text.lines().filter(|line| keys.iter().any(|key| line.starts_with(key)));
                lines
                    .map(|line| line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).expect("kB"))
                    .sum()
            };
            values[0].push(sum(&["Pss:"]));
            values[1].push(sum(&["Private_Clean:", "Private_Dirty:"]));
        }
        (median(&values[0]) / 1024.0, median(&values[1]) / 1024.0)
    }

    fn processor_ms(&self) -> f64 {
        self.pids.iter().map(|pid| processor_ms(*pid)).sum()
    }
}

/// Creates the Pods, which no scheduler places, and a token for each Pod. Returns uids and tokens.
fn identities(api: &Api, pods: &[PathBuf]) -> Vec<(String, String)> {
    let name = |pod: &PathBuf| pod.file_name().expect("a name").display().to_string();
    let post = |path: &str, body: Value| Request {
        method: "POST",
        path: format!("/api/v1/namespaces/{NAMESPACE}/{path}"),
        body: body.to_string(),
    };
    let send = |requests: Vec<Request>, pointer: &str| {
        let mut answers = api.send(&requests);
        answers.sort_by_key(|answer| answer.number);
        let text = |answer: Answer| {
            let object: Value = serde_json::from_str(&answer.body).expect("JSON");
            let text = object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            text.unwrap_or_else(|| panic!("{}: {}", answer.status, answer.body))
        };
        answers.into_iter().map(text).collect::<Vec<String>>()
    };
    let container = |name: &str| json!({"name": name, "image": "x"});
    let containers = ["db", "api", "web"].map(container);
    let pod = |pod| {
        let spec = json!({"schedulerName": "none", "containers": containers});
        post("pods", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name(pod)}, "spec": spec}))
    };
    let uids = send(pods.iter().map(pod).collect(), "/metadata/uid");
    let token = |(pod, uid): (&PathBuf, &String)| {
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": name(pod), "uid": uid});
        let spec = json!({"audiences": [], "expirationSeconds": 7200, "boundObjectRef": bound});
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        post("serviceaccounts/default/token", request)
    };
    let tokens = send(pods.iter().zip(&uids).map(token).collect(), "/status/token");
    uids.into_iter().zip(tokens).collect()
}
