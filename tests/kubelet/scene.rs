//! The environment of one scenario: the namespace and its Pods. If the scenario fails, prints the state of the Pods.

use crate::clock::{eventually, wall_ms};
use crate::cluster::{self, ROOT, kubectl, pid, try_kubectl, try_script};
use crate::incarnation_log::{IncarnationLog, assert_order, summary};
use crate::pod::Pod;
use crate::watch::{ObservedPod, PodWatch};
use podgate::core::annotations::{self, Annotations};
use podgate::core::names;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Lock that a scenario holds exclusively while it breaks the node or the API server.
static NODE_LOCK: RwLock<()> = RwLock::new(());

#[allow(dead_code, reason = "held for its drop")]
enum NodeGuard {
    Shared(RwLockReadGuard<'static, ()>),
    Exclusive(RwLockWriteGuard<'static, ()>),
}

/// Prints a line to standard error without the output capture of the test harness, so that the output of passing
/// scenarios shows the line too.
pub(crate) fn print_line(line: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Reports a scenario as skipped. The script `run` counts these lines.
pub(crate) fn skip(name: &str, why: &str) {
    print_line(&format!("skipped: {name}: {why}"));
}

/// The namespace of one scenario, which is deleted on drop.
pub(crate) struct Scene {
    name: String,
    pub(crate) namespace: String,
    _node_guard: NodeGuard,
}

impl Scene {
    /// Creates a scene that may run at the same time as others.
    pub(crate) fn shared(name: &str) -> Scene {
        Scene::new(name, NodeGuard::Shared(NODE_LOCK.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Creates a scene that runs alone on the node, for faults that affect all Pods, or for times that depend on the
    /// other Pods. On a user's cluster, prints a line and returns `None`.
    ///
    /// The script `run` finds these scenarios by `alone` in the names of their tests, and runs them after the others.
    /// Among the others, such a scenario would wait until the running scenarios end, and the next scenarios would wait
    /// for it.
    pub(crate) fn exclusive(name: &str) -> Option<Scene> {
        let thread = std::thread::current();
        let test = thread.name().filter(|test| *test != "main").unwrap_or("alone");
        assert!(test.contains("alone"), "{test}: the name does not contain `alone`, and the test runs alone");
        let guard = NodeGuard::Exclusive(NODE_LOCK.write().unwrap_or_else(PoisonError::into_inner));
        Scene::can_inject_faults(name).then(|| Scene::new(name, guard))
    }

    /// Returns true if scenarios may inject faults in this cluster. Otherwise prints a line.
    pub(crate) fn can_inject_faults(name: &str) -> bool {
        if !cluster::is_test_cluster() {
            skip(
                name,
                "it affects the whole cluster or needs an idle node: only in a cluster of tests/cluster/cluster",
            );
        }
        cluster::is_test_cluster()
    }

    /// Returns true if the node's runtime has user namespaces. Otherwise prints a line.
    pub(crate) fn has_user_namespaces(&self) -> bool {
        let features = "jsonpath={.items[0].status.runtimeHandlers[*].features.userNamespaces}";
        let found = cluster::kubectl(&["get", "nodes", "-o", features]).contains("true");
        if !found {
            skip(&self.name, "the node's runtime has no user namespaces, which need runc 1.2");
        }
        found
    }

    fn new(name: &str, guard: NodeGuard) -> Scene {
        cluster::install_manifests();
        let nonce = crate::clock::wall_ms() as u64 % 0x100_0000;
        let namespace = format!("e2e-{name}-{nonce:06x}");
        cluster::run_script(&["namespace", &namespace]);
        Scene { name: name.to_owned(), namespace, _node_guard: guard }
    }

    /// Grants the sidecars of this namespace permission to watch and patch Pods.
    pub(crate) fn grant_pod_access(&self) {
        kubectl(&["-n", &self.namespace, "apply", "-f", &format!("{ROOT}/manifests/rolebinding.yaml")]);
    }

    /// Creates `pod`. The watch on the Pod starts before the creation.
    pub(crate) fn create(&self, pod: &Pod) -> FollowedPod<'_> {
        let run = self.follow(&pod.name);
        cluster::create(&self.namespace, &pod.json().to_string());
        run
    }

    pub(crate) fn follow(&self, pod: &str) -> FollowedPod<'_> {
        FollowedPod { scene: self, pod: pod.to_owned(), watch: PodWatch::new(&self.namespace, pod) }
    }

    /// Prints one line about an observation.
    pub(crate) fn report(&self, text: &str) {
        print_line(&format!("  {}: {text}", self.name));
    }

    fn failure_dump(&self) -> String {
        let mut out = format!("\n==== {} failed; state of namespace {}:\n", self.name, self.namespace);
        let show = |arguments: &[&str]| {
            let all = [&["-n", &self.namespace], arguments].concat();
            try_kubectl(&all).unwrap_or_else(|error| error)
        };
        let _ = writeln!(
            out,
            "{}\n-- events\n{}",
            show(&["get", "pods", "-o", "wide"]),
            show(&["get", "events", "--sort-by=.metadata.creationTimestamp"])
        );
        let pods = try_kubectl(&["-n", &self.namespace, "get", "pods", "-o", "json"]).unwrap_or_default();
        let pods: Value = serde_json::from_str(&pods).unwrap_or_default();
        for pod in pods["items"].as_array().into_iter().flatten() {
            let name = pod["metadata"]["name"].as_str().unwrap_or("");
            let _ = writeln!(out, "-- {name}: {:#}\n{:#}", pod["metadata"]["annotations"], pod["status"]);
            let specs = ["initContainers", "containers"].map(|list| &pod["spec"][list]);
            for container in specs.into_iter().filter_map(Value::as_array).flatten() {
                let container = container["name"].as_str().unwrap_or("");
                let _ = writeln!(
                    out,
                    "-- log of {name}/{container}\n{}",
                    show(&["logs", name, "-c", container, "--tail=60"])
                );
                if let Ok(log) =
                    try_kubectl(&["-n", &self.namespace, "logs", name, "-c", container, "--tail=60", "--previous"])
                {
                    let _ = writeln!(out, "-- log of the previous incarnation\n{log}");
                }
                let directory = PathBuf::from(names::SELF_DIR).join(container);
                for file in
                    [PathBuf::from(names::BOARD_DIR).join(names::ANNOTATIONS_FILE), directory.join(names::REPORT_FILE)]
                {
                    if let Some(text) = self.read_file(name, "podgate", &file).filter(|_| cluster::is_test_cluster()) {
                        let _ = writeln!(out, "-- {}\n{text}", file.display());
                    }
                }
            }
            let _ = writeln!(
                out,
                "-- containerd's times\n{}",
                try_script(&["container-times", &self.namespace, name], "").unwrap_or_default()
            );
        }
        out
    }

    /// Reads a file of `container` from the node. Returns `None` if the file is larger than 64 KiB.
    fn read_file(&self, pod: &str, container: &str, path: &Path) -> Option<String> {
        let pid = pid(&self.namespace, pod, container)?;
        let path = format!("/proc/{pid}/root{}", path.display());
        fs::symlink_metadata(&path).ok().filter(|found| found.is_file() && found.len() < 1 << 16)?;
        fs::read_to_string(path).ok()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print_line(&self.failure_dump());
        }
        if std::env::var_os("PODGATE_KEEP").is_some() {
            print_line(&format!("  {}: kept in namespace {}", self.name, self.namespace));
        } else {
            let _ = try_kubectl(&["delete", "namespace", &self.namespace, "--wait=false"]);
        }
    }
}

/// A Pod of a scene, with a watch on that Pod.
pub(crate) struct FollowedPod<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) pod: String,
    pub(crate) watch: PodWatch,
}

impl FollowedPod<'_> {
    /// Waits until both podgate and the kubelet report that the Pod has started.
    pub(crate) fn wait_until_up(&self) -> ObservedPod {
        self.watch.wait_until("the pod is up", 120, ObservedPod::is_up)
    }

    /// Returns the log of `container`'s current incarnation. For a moment after a restart, the API server still returns
    /// the log of the earlier incarnation.
    pub(crate) fn log(&self, container: &str) -> IncarnationLog {
        IncarnationLog::fetch(&self.scene.namespace, &self.pod, container, false)
    }

    /// Asserts that the containers in `names` started in order, and prints the times.
    pub(crate) fn assert_order(&self, names: &[&str]) -> Vec<IncarnationLog> {
        let lives = assert_order(self, names);
        self.scene.report(&summary(&lives));
        lives
    }

    /// Waits until containerd reports the `count`th start of `container`, and returns the start time.
    pub(crate) fn wait_for_start(&self, container: &str, count: usize) -> f64 {
        cluster::wait_for_start(&self.scene.namespace, &self.pod, container, count)
    }

    /// Deletes the Pod and waits until it is gone. Returns the duration in milliseconds.
    pub(crate) fn delete(&self) -> f64 {
        let begin = wall_ms();
        kubectl(&["-n", &self.scene.namespace, "delete", "pod", &self.pod, "--wait=true", "--timeout=120s"]);
        wall_ms() - begin
    }

    /// Returns the names of the deleted Pod's containers that used up the grace period, so that the kubelet killed
    /// them.
    pub(crate) fn killed(&self) -> String {
        let statuses = |pod: &Value| -> Vec<Value> {
            let lists =
                ["initContainerStatuses", "containerStatuses"].map(|list| pod["status"][list].as_array().cloned());
            lists.into_iter().flatten().flatten().collect()
        };
        let ended = eventually("the kubelet reports the end of all containers", 20, || {
            let deleted = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
            let ended = |pod: &Value| statuses(pod).iter().all(|status| status["state"]["running"].is_null());
            self.watch.history().into_iter().rev().find(|seen| deleted(&seen.pod) && ended(&seen.pod))
        });
        let killed = statuses(&ended.pod).into_iter().filter(|status| {
            let end = &status["state"]["terminated"];
            // The kubelet also writes exit code 137 for a container that it never started.
            end["exitCode"] == 137 && end["reason"] != "ContainerStatusUnknown"
        });
        killed.map(|status| status["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn signal(&self, container: &str, signal: &str) {
        cluster::run_script(&["kill-container", &self.scene.namespace, &self.pod, container, signal]);
    }

    pub(crate) fn pid(&self, container: &str) -> Option<u32> {
        pid(&self.scene.namespace, &self.pod, container)
    }

    /// Returns the annotations on the board, read from the volume that `container` mounts.
    pub(crate) fn board_annotations(&self, container: &str) -> Option<Annotations> {
        let file = PathBuf::from(names::BOARD_DIR).join(names::ANNOTATIONS_FILE);
        annotations::read(self.scene.read_file(&self.pod, container, &file)?.as_bytes(), |_| true).ok()
    }

    /// Returns the container's current termination message.
    pub(crate) fn termination_message(&self, container: &str) -> Option<String> {
        self.scene.read_file(&self.pod, container, Path::new(names::TERMINATION_LOG))
    }

    /// Returns the host pid of a process in `container` that runs the agent's `subcommand`.
    pub(crate) fn agent_pid(&self, container: &str, subcommand: &str) -> Option<u32> {
        let pid_namespace =
            |pid: u32| fs::metadata(format!("/proc/{pid}/ns/pid")).ok().map(|found| (found.dev(), found.ino()));
        let own = pid_namespace(self.pid(container)?)?;
        let processes = fs::read_dir("/proc").ok()?.flatten();
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(|pid: &u32| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = command.split(|byte| *byte == 0);
            words.nth(1) == Some(subcommand.as_bytes()) && pid_namespace(*pid) == Some(own)
        })
    }

    pub(crate) fn sidecar_log(&self) -> String {
        kubectl(&["-n", &self.scene.namespace, "logs", &self.pod, "-c", "podgate"])
    }
}
