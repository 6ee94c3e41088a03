//! Names, paths and limits that podgate's programs and tests share.

/// Key prefix of the annotations with the containers' states. The rest of the key is the container's name.
pub const STATUS_KEY_PREFIX: &str = "status.podgate.io/";
/// Key prefix of the annotations with the origin and time of the states.
pub const SANDBOX_KEY_PREFIX: &str = "sandbox.podgate.io/";
/// Key prefix of the annotations that override a container's state, so that an operator can open a gate.
pub const OVERRIDE_KEY_PREFIX: &str = "override.podgate.io/";

/// Key of the annotation with the id of the pod sandbox in which the states were observed.
pub const SANDBOX_ID_KEY: &str = "sandbox.podgate.io/id";
/// Key of the annotation with the random id of the sidecar's run, created at every start of the sidecar.
pub const EPOCH_KEY: &str = "sandbox.podgate.io/epoch";
/// Key of the annotation with the counter that grows with every change and never decreases while the board exists.
pub const REVISION_KEY: &str = "sandbox.podgate.io/revision";
/// Key of the annotation with the stage of the pod: `starting`, `started` or `terminating`.
pub const STAGE_KEY: &str = "sandbox.podgate.io/stage";
/// Key of the annotation with the ordered containers, in the order of the list, separated by commas.
pub const ORDERED_CONTAINERS_KEY: &str = "sandbox.podgate.io/order";
/// Key of the annotation with the stuck containers and their reasons: `db=ImagePullBackOff,api=Ended`.
pub const STUCK_REASONS_KEY: &str = "sandbox.podgate.io/stuck";
/// Key of the annotation with the containers that have ended and that the kubelet will restart: `app,worker`.
/// Published only on the board.
pub const WILL_RESTART_KEY: &str = "sandbox.podgate.io/restarting";
/// Key of the annotation with the conditions that the sidecar cannot see without the API: `migrate=Completed`.
pub const UNSEEN_CONDITIONS_KEY: &str = "sandbox.podgate.io/unseen";
/// Key of the annotation with the time of the sidecar's last observation, RFC 3339 in UTC.
pub const LAST_SEEN_TIME_KEY: &str = "sandbox.podgate.io/seen";

/// Key of the annotation with the times of each container's milestones, in milliseconds since 1970 (`core::times`).
pub const MILESTONE_TIMES_KEY: &str = "sandbox.podgate.io/times";

/// Key of the annotation with the ticket of each gate whose report the sidecar has read and whose conditions the
/// sidecar has since evaluated: `api=3f2a9c1e,web=00d1f6c2`. Published only on the board.
pub const CONFIRMED_TICKETS_KEY: &str = "sandbox.podgate.io/confirmed";
/// Key of the annotation with the ticket of each gate whose startupProbe the sidecar has run, and the probe's result:
/// `api=3f2a9c1e:passed`. Published only on the board.
pub const STARTUP_RESULTS_KEY: &str = "sandbox.podgate.io/startup";
/// Key of the annotation with the Pod's first IP address. Published only on the board.
pub const POD_IP_KEY: &str = "sandbox.podgate.io/ip";
/// Key of the annotation with the containers whose preStop hook has started: `app,envoy`.
pub const STOPPING_CONTAINERS_KEY: &str = "sandbox.podgate.io/stopping";
/// Key of the annotation with the number of restarts of each restarted container in this epoch: `db=2`.
pub const EPOCH_RESTARTS_KEY: &str = "sandbox.podgate.io/restarts";

/// Key of the annotation with the start time of the first sidecar in this sandbox, by the kubelet's clock: RFC 3339 in
/// UTC. Published only on the board.
pub const SANDBOX_SINCE_KEY: &str = "sandbox.podgate.io/since";

/// Key of the annotation with the number of patches that release held containers or make the kubelet repeat a probe.
/// A new value makes the kubelet sync the Pod.
pub const RELEASE_COUNT_KEY: &str = "sandbox.podgate.io/releases";

/// Key of the annotation that the kubelet adds to the downward-API file. A new value means a restart of the kubelet.
pub const CONFIG_SEEN_KEY: &str = "kubernetes.io/config.seen";

/// Mount path of the board, the volume `podgate-board`.
pub const BOARD_DIR: &str = "/podgate";
/// Mount path of a container's own directory. At this path, the sidecar mounts the volume with all these directories.
pub const SELF_DIR: &str = "/podgate-self";
/// Mount path of the downward-API volume.
pub const PODINFO_DIR: &str = "/podgate-info";

/// Mount path of the gate files of hold mode, in the sidecar.
pub const HOLD_DIR: &str = "/podgate-hold";
/// Second mount path of the directory [`HOLD_CANARY`], in the sidecar.
pub const HOLD_CANARY_DIR: &str = "/podgate-hold-canary";
/// Name of the directory inside [`HOLD_DIR`] that the kubelet creates. If the sidecar does not find the directory, the
/// sidecar and the kubelet see different volumes.
pub const HOLD_CANARY: &str = ".canary";
/// Name of the environment variable of a held container. The kubelet reads the value from the container's gate file.
pub const HOLD_VARIABLE: &str = "PODGATE_HOLD";
/// Name of the environment variable with the Pod's IP address, for the gates of a Pod without a sidecar.
pub const POD_IP_VARIABLE: &str = "PODGATE_POD_IP";
/// Key in the gate file of an open gate.
pub const GATE_FILE_KEY: &str = "OPEN";
/// Value of [`GATE_FILE_KEY`] in a gate file. The value is also the name of the directory that a held container mounts.
pub const GATE_FILE_VALUE: &str = "yes";

/// Name of the file with the annotations, on the board and in the downward-API volume.
pub const ANNOTATIONS_FILE: &str = "annotations";
/// File name of the bell, a FIFO on the board. The sidecar holds the write end.
pub const BELL_FILE: &str = "bell";
/// Name of the file on the board that the sidecar locks after it has reset and published the board.
pub const CONTROLLER_LOCK_FILE: &str = "controller";
/// Name of the file on the board that contains the epoch. The sidecar's own hook writes this file on success.
pub const SIDECAR_HOOK_SUCCESS_FILE: &str = "hooked";
/// Name of the directory on the board that contains the agent.
pub const BIN_SUBDIR: &str = "bin";
/// File name of the agent.
pub const AGENT_FILE: &str = "podgate";
/// Name of the file with the agent's report, in a container's own directory.
pub const REPORT_FILE: &str = "report";

/// Name of the file in a container's own directory with the ticket of a gate, and the number of failures of the
/// startupProbe behind it that the agent runs.
pub const STARTUP_FAILURES_FILE: &str = "startup-failures";

/// Name of the file in a container's own directory that is locked as long as the container's process runs.
pub const TETHER_FILE: &str = "tether";

/// Kubernetes' default path for a container's termination message (`terminationMessagePath`).
pub const TERMINATION_LOG: &str = "/dev/termination-log";

/// Size limit for reading a file on the board or in a container's directory, in bytes.
pub const BOARD_FILE_MAX: usize = 64 * 1024;
/// Size limit for reading the downward-API file, in bytes: 256 KiB of annotations, times four for quoting, plus slack.
pub const PODINFO_FILE_MAX: usize = 4 * 256 * 1024 + BOARD_FILE_MAX;
/// Size limit for a hook's output, in bytes. The kubelet cannot update a pod's status that contains too much output.
pub const HOOK_OUTPUT_MAX: usize = 1000;

/// Returns true if `name` is a valid container name: an RFC 1123 label
/// (<https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>).
pub fn is_container_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.len() <= 63
        && bytes.iter().all(|b| inner(b) || *b == b'-')
        && bytes.first().is_some_and(inner)
        && bytes.last().is_some_and(inner)
}
