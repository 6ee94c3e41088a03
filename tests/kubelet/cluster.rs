//! Access to the cluster through the script `tests/cluster/cluster`.

use crate::clock::eventually;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Once, OnceLock};

pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");
pub(crate) const IMAGE: &str = "docker.io/podgate/podgate:dev";
pub(crate) const WEBHOOK_IMAGE: &str = "docker.io/podgate/podgate-webhook:dev";
pub(crate) const TESTSERVER_IMAGE: &str = "docker.io/podgate/testserver:dev";
/// Image with podgate, the test server, and a library that steps the wall clock of a program.
pub(crate) const CLOCK_IMAGE: &str = "docker.io/podgate/clock:dev";
/// Image with the Debian packages of `tests/cluster/debian/root`.
pub(crate) const DEBIAN_IMAGE: &str = "docker.io/podgate/debian:dev";
pub(crate) const BUSYBOX_IMAGE: &str = "docker.io/library/busybox:podgate-test";

pub(crate) fn script_command() -> Command {
    Command::new(format!("{ROOT}/tests/cluster/cluster"))
}

/// Runs `tests/cluster/cluster ARGUMENTS` with `input` on standard input. Returns the script's standard output, or its
/// standard error if the script fails.
pub(crate) fn try_script(arguments: &[&str], input: &str) -> Result<String, String> {
    let mut command = script_command();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("tests/cluster/cluster: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Ignore the error. The write fails if the command does not read standard input.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Runs the script like [`try_script`], and panics if the script fails.
pub(crate) fn run_script(arguments: &[&str]) -> String {
    try_script(arguments, "").unwrap_or_else(|error| panic!("cluster {}: {error}", arguments.join(" ")))
}

pub(crate) fn try_kubectl(arguments: &[&str]) -> Result<String, String> {
    try_script(&[&["kubectl"], arguments].concat(), "")
}

pub(crate) fn kubectl(arguments: &[&str]) -> String {
    try_kubectl(arguments).unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
}

pub(crate) fn kubectl_json(arguments: &[&str]) -> Value {
    let text = kubectl(&[arguments, &["-o", "json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
}

/// Creates the objects of `manifest`, which is JSON or YAML.
pub(crate) fn create(namespace: &str, manifest: &str) {
    try_script(&["kubectl", "-n", namespace, "create", "-f", "-"], manifest)
        .unwrap_or_else(|error| panic!("kubectl create: {error}\n{manifest}"));
}

/// Applies the admission policy and the role from `manifests/`, which podgate needs in every cluster.
pub(crate) fn install_manifests() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        kubectl(&["apply", "-k", &format!("{ROOT}/manifests")]);
    });
}

/// Returns true if `tests/cluster/cluster up` started this cluster. Scenarios can inject faults only in such a cluster.
/// Without a cluster, panics unless `KUBECONFIG` is set: only a user's own cluster is a reason to skip scenarios.
pub(crate) fn is_test_cluster() -> bool {
    static IS_TEST_CLUSTER: OnceLock<bool> = OnceLock::new();
    *IS_TEST_CLUSTER.get_or_init(|| match try_script(&["audit-log"], "") {
        Ok(_) => true,
        Err(error) => {
            assert!(std::env::var_os("KUBECONFIG").is_some(), "{error}");
            false
        }
    })
}

/// Returns the lowest minor version of the kubelets, which are never newer than the API server.
pub(crate) fn minor_version() -> u32 {
    let nodes = kubectl_json(&["get", "nodes"]);
    let nodes = nodes["items"].as_array().expect("a list").iter();
    // Simulated nodes have other versions, such as `kwok-v0.8.0`.
    let version = |node: &Value| {
        let version = node["status"]["nodeInfo"]["kubeletVersion"].as_str()?.strip_prefix("v1.")?;
        version.split('.').next()?.parse().ok()
    };
    nodes.filter_map(version).min().expect("a node with a kubelet")
}

/// Guard that stops the API server. Dropping the guard starts the API server again.
pub(crate) struct ApiServerStopped;

impl ApiServerStopped {
    pub(crate) fn stop() -> ApiServerStopped {
        run_script(&["stop-apiserver"]);
        ApiServerStopped
    }
}

impl Drop for ApiServerStopped {
    fn drop(&mut self) {
        if let Err(error) = try_script(&["start-apiserver"], "") {
            crate::scene::print_line(&format!("cannot restart the API server: {error}"));
        }
    }
}

/// Guard that runs the component `apiserver` or `kubelet` with the feature gate `EnvFiles` off. Dropping the guard
/// restarts the component with its default gates.
pub(crate) struct WithoutEnvFiles(&'static str);

impl WithoutEnvFiles {
    pub(crate) fn restart(component: &'static str) -> WithoutEnvFiles {
        run_script(&[&format!("stop-{component}")]);
        let restarted = WithoutEnvFiles(component);
        run_script(&[&format!("start-{component}"), "EnvFiles=false"]);
        restarted
    }
}

impl Drop for WithoutEnvFiles {
    fn drop(&mut self) {
        for step in ["stop", "start"] {
            if let Err(error) = try_script(&[&format!("{step}-{}", self.0)], "") {
                crate::scene::print_line(&format!("cannot {step} the {}: {error}", self.0));
            }
        }
    }
}

/// Restarts the kubelet, and returns when the kubelet listens again.
pub(crate) fn restart_kubelet() {
    run_script(&["restart-kubelet", "--kill"]);
}

/// One run of a container, from containerd's records. Times are in milliseconds since 1970.
#[derive(Debug, Clone)]
pub(crate) struct Incarnation {
    pub(crate) container: String,
    pub(crate) attempt: u32,
    pub(crate) started: Option<f64>,
    pub(crate) finished: Option<f64>,
    pub(crate) exit_code: Option<i64>,
    /// containerd's id of the Pod sandbox.
    pub(crate) sandbox: String,
}

/// Returns all incarnations of all containers of a Pod in creation order. Works without the API server.
pub(crate) fn incarnations(namespace: &str, pod: &str) -> Vec<Incarnation> {
    try_incarnations(namespace, pod).unwrap_or_else(|error| panic!("container-times: {error}"))
}

pub(crate) fn try_incarnations(namespace: &str, pod: &str) -> Result<Vec<Incarnation>, String> {
    let lines = try_script(&["container-times", namespace, pod], "")?;
    let ms = |value: &Value| value.as_f64().map(|ns| ns / 1e6);
    let read = |line| -> Incarnation {
        let value: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("container-times: {error}: {line}"));
        let container = value["container"].as_str().expect("a container's name").to_owned();
        let attempt = value["attempt"].as_u64().and_then(|n| n.try_into().ok()).expect("an attempt number");
        let sandbox = value["sandbox"].as_str().expect("a sandbox").to_owned();
        let (started, finished) = (ms(&value["started_ns"]), ms(&value["finished_ns"]));
        Incarnation { container, attempt, started, finished, exit_code: value["exit_code"].as_i64(), sandbox }
    };
    Ok(lines.lines().map(read).collect())
}

/// Waits until `container` has started for the `count`th time, and returns the start time. Works without the API
/// server.
pub(crate) fn wait_for_start(namespace: &str, pod: &str, container: &str, count: usize) -> f64 {
    eventually(&format!("{container} starts ({count})"), 90, || {
        let started = incarnations(namespace, pod).into_iter().filter(|i| i.container == container);
        started.filter_map(|i| i.started).nth(count - 1)
    })
}

/// Returns the host pid of the container's first process.
pub(crate) fn pid(namespace: &str, pod: &str, container: &str) -> Option<u32> {
    try_script(&["container-pid", namespace, pod, container], "").ok()?.trim().parse().ok()
}

/// A request for Pods in the API server's audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditedRequest {
    pub(crate) verb: String,
    pub(crate) uri: String,
    /// HTTP status code of the answer; 0 until the API server has sent it.
    pub(crate) code: u64,
    /// Time at which the API server received the request, in RFC 3339.
    pub(crate) received: String,
}

/// Returns the requests for Pods that the sidecars of `namespace` made, oldest first.
pub(crate) fn requests_of(namespace: &str) -> Vec<AuditedRequest> {
    let path = run_script(&["audit-log"]);
    let log = std::fs::read_to_string(path.trim()).unwrap_or_else(|error| panic!("{path}: {error}"));
    let user = format!("system:serviceaccount:{namespace}:default");
    let mut requests = std::collections::BTreeMap::new();
    for line in log.lines().filter(|line| line.contains(&user)) {
        // The last line may be incomplete.
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        if event["user"]["username"] == user.as_str() {
            let text = |key: &str| event[key].as_str().unwrap_or("").to_owned();
            let code = event["responseStatus"]["code"].as_u64().unwrap_or(0);
            // The log has two entries with the same audit ID for each watch: one at the start and one at the end.
            let received = text("requestReceivedTimestamp");
            let request = AuditedRequest { verb: text("verb"), uri: text("requestURI"), code, received };
            requests.insert(text("auditID"), request);
        }
    }
    let mut requests: Vec<_> = requests.into_values().collect();
    requests.sort_by(|a: &AuditedRequest, b| a.received.cmp(&b.received));
    requests
}
