//! Every name, path and limit that two parties share. One home each: agent, controller, kubectl plugin, tests and
//! manifests are all checked against this file.

/// Prefix of the annotations that hold a container's state; the rest of the key is the container's name.
pub const STATUS_PREFIX: &str = "status.podgate.io/";
/// Prefix of the annotations that say where and when the states were observed.
pub const SANDBOX_PREFIX: &str = "sandbox.podgate.io/";
/// Prefix of the annotations by which an operator opens a gate by hand.
pub const OVERRIDE_PREFIX: &str = "override.podgate.io/";

/// The pod sandbox in which the states were observed.
pub const SANDBOX_ID: &str = "sandbox.podgate.io/id";
/// Random, new at every start of the controller.
pub const SANDBOX_EPOCH: &str = "sandbox.podgate.io/epoch";
/// Grows with every change, and never goes back while the board lives.
pub const SANDBOX_REVISION: &str = "sandbox.podgate.io/revision";
/// `starting`, `started` or `terminating`.
pub const SANDBOX_PHASE: &str = "sandbox.podgate.io/phase";
/// The ordered containers in their start order, separated by commas.
pub const SANDBOX_ORDER: &str = "sandbox.podgate.io/order";
/// Containers that can't go on by themselves, with the reason: `db=ImagePullBackOff,api=Ended`.
pub const SANDBOX_STUCK: &str = "sandbox.podgate.io/stuck";
/// When the controller last looked, RFC 3339 in UTC.
pub const SANDBOX_SEEN: &str = "sandbox.podgate.io/seen";

/// When each container came to what, in milliseconds since 1970 (`core::times`).
pub const SANDBOX_TIMES: &str = "sandbox.podgate.io/times";

/// On the board alone: the gates whose report the controller has taken in, with their tickets, having judged anew what each waits
/// for: `api=3f2a9c1e,web=00d1f6c2`.
pub const SANDBOX_HEARD: &str = "sandbox.podgate.io/heard";
/// Containers whose preStop hook has begun: `app,envoy`.
pub const SANDBOX_STOPPING: &str = "sandbox.podgate.io/stopping";
/// How often each container was started again in this epoch, where it was: `db=2`.
pub const SANDBOX_RESTARTS: &str = "sandbox.podgate.io/restarts";

/// On the board alone: when the first controller of this sandbox was started, RFC 3339 in UTC, by the kubelet's clock.
pub const SANDBOX_SINCE: &str = "sandbox.podgate.io/since";

/// Added by the kubelet to the downward-API file; a new value means that the kubelet has restarted.
pub const KUBELET_CONFIG_SEEN: &str = "kubernetes.io/config.seen";

/// Where the volume `podgate` is mounted: the board.
pub const BOARD_DIR: &str = "/podgate";
/// Where a container's own folder is mounted; in the sidecar, the volume of all folders.
pub const SELF_DIR: &str = "/podgate-self";
/// Where the downward-API volume is mounted.
pub const PODINFO_DIR: &str = "/podgate-info";

/// File of the annotations, on the board and in the downward-API volume alike.
pub const ANNOTATIONS_FILE: &str = "annotations";
/// The FIFO on the board whose write end the controller holds.
pub const BELL_FILE: &str = "bell";
/// The file on the board that a controller which has reset and published holds locked.
pub const CONTROLLER_FILE: &str = "controller";
/// Written on the board by the sidecar's own hook when it has succeeded; holds the epoch.
pub const HOOKED_FILE: &str = "hooked";
/// Folder on the board with the agent.
pub const BIN_DIR: &str = "bin";
/// The agent's file name.
pub const AGENT_FILE: &str = "podgate";
/// In a container's own folder: what its agent says.
pub const REPORT_FILE: &str = "report";

/// In a container's own folder: a file that is locked for as long as the container's process lives.
pub const TETHER_FILE: &str = "tether";

/// Where Kubernetes takes a container's last words from (`terminationMessagePath`, its default).
pub const TERMINATION_LOG: &str = "/dev/termination-log";

/// Most that is read of a file on the board or in a container's folder, in bytes.
pub const BOARD_FILE_MAX: usize = 64 * 1024;
/// Most that is read of the downward-API file, in bytes: annotations may hold 256 KiB, and quoting can make four bytes of one.
pub const PODINFO_FILE_MAX: usize = 4 * 256 * 1024 + BOARD_FILE_MAX;
/// Most that a hook writes to its output, in bytes: the kubelet puts all of it into the pod's status, and an overlong one blocks
/// status updates.
pub const HOOK_OUTPUT_MAX: usize = 1000;

/// Whether `name` can be a container's name: an RFC 1123 label
/// (<https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>).
pub fn is_container_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.len() <= 63
        && bytes.iter().all(|b| inner(b) || *b == b'-')
        && bytes.first().is_some_and(inner)
        && bytes.last().is_some_and(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_names_are_dns_labels() {
        for good in ["a", "db", "db-1", "0", &"x".repeat(63)] {
            assert!(is_container_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "a=b", "..", &"x".repeat(64)] {
            assert!(!is_container_name(bad), "{bad}");
        }
    }
}
