//! Help texts of the commands.

pub(super) const POST_START_HELP: &str = "\
Example, in a Pod's spec: `api` follows `db` in the list and starts when `db` is Ready.
  containers:
  - name: db
    lifecycle:
      postStart:
        exec:
          command: [/podgate/bin/podgate, post-start, --container, db, --timeout, 2m]
  - name: api

While a postStart hook runs, the kubelet shows the Pod as ContainerCreating and does not probe this
container. The podgate sidecar probes the containers instead. The time limit includes --then. If the
hook fails or times out, the kubelet kills this container and starts the next one anyway. `kubectl
describe pod` then shows the reason in the container's status and termination message.

The flags of the wait are those of `podgate entrypoint`, and its help lists the forms of a check.

Exit codes:
  0    released: the conditions are met, the Pod has started before or is being deleted, or the time
       limit has passed with --on-timeout continue
  69   the condition cannot be met, or a container before this one has ended
  75   timed out
  78   invalid setup: no board or volume to read from, or unknown container
  If the command of --then fails: its own exit code (128 + N for signal N).";

pub(super) const ENTRYPOINT_HELP: &str = "\
Example, in a Pod's spec: `api` runs its command when `db` is Ready, wherever `api` is in the list.
  containers:
  - name: api
    command: [/podgate/bin/podgate, entrypoint, --until, db, --]
    args: [/usr/bin/api, --port, \"8080\"]
    startupProbe:
      exec:
        command: [/podgate/bin/podgate, opened, --wait]
      periodSeconds: 1
      timeoutSeconds: 305

When the conditions are met, podgate replaces itself with the command (execve): same process, same
environment. With one of these flags it stays as the command's parent: --tether parent, --post-file,
--command-timeout, --on-error continue, --stop-after, --restart-with, --ready-check. As the parent
it forwards signals, reaps orphans and exits with the command's exit code.

With --tether exec the command inherits a file lock. The sidecar detects the command's end by the
release of the lock. With --tether parent, podgate reports the exit code to the sidecar.

Checks: tcp://HOST:PORT, http://HOST:PORT/PATH, exec:[\"COMMAND\",\"ARG\"], file:///PATH,
file:///PATH+content, unix:///PATH (a stream socket) or mount:///PATH (a mount point that answers).
A check of file:///PATH fails for good if PATH.err exists. Without HOST, a check asks the Pod's IP.
Headers may follow PATH: http://:8080/ready [\"Host: shop.example\"].

States of --until: Started, Ready, Completed, Exited. With --fail-fast, the gate fails as soon as a
dependency has ended for good, is in back-off or cannot pull its image. With --on-timeout continue,
no condition or check makes the gate fail early, except an unknown container.

Without a sidecar, --ask has a probe of another container: \"NAME [SETTING=NUMBER...] CHECK\", such as
\"db initialDelaySeconds=5 http://:8080/ready\". The settings are initialDelaySeconds, timeoutSeconds,
periodSeconds and successThreshold. after=NAME,NAME lists the containers that must be Ready first.
The gate probes each once more when all are Ready, and opens if all pass.

Exit codes: those of the command once it runs, otherwise
  64   invalid flag or argument
  69   the condition cannot be met, or --restart-with ended the command
  75   timed out, or --command-timeout ended the command
  78   invalid setup: no board to read from, unknown container, or a file that cannot be written
  126  the command cannot be executed
  127  the command was not found
  143  SIGTERM, or the Pod's deletion, while waiting
  128 + N  another signal N while waiting: one that ends a process by default, or SIGWINCH";

pub(super) const PRE_STOP_HELP: &str = "\
Example, in a Pod's spec: `db` keeps running until `api` has exited.
  containers:
  - name: db
    lifecycle:
      preStop:
        exec:
          command: [/podgate/bin/podgate, pre-stop, --until, api, --grace, 25s]
  - name: api
    lifecycle:
      preStop:
        exec:
          command: [/podgate/bin/podgate, pre-stop]

When a Pod stops, the kubelet runs all preStop hooks at once. It stops each container after the
container's hook has returned, so this hook keeps the container until those that depend on it have
exited, as their tethers show (`podgate entrypoint`, or --tether in a hook). If the kubelet restarts
only this container, no other hook starts, and this hook returns after at most 3 s.

Exit codes:
  0    all have exited, or only this container is restarted
  75   timed out; the kubelet stops the container anyway
  If the command of --then fails: its own exit code (128 + N for signal N).";

pub(super) const OPENED_HELP: &str = "\
Example, in the spec of a container with a gate: the kubelet delays the other probes until the gate
has opened and the container's own startupProbe has passed. For an exec probe, use --check instead
of --sidecar-check. timeoutSeconds must be longer than the gate's time limit (here 300 s) and the
startupProbe together.
  startupProbe:
    exec:
      command: [/podgate/bin/podgate, opened, --wait, --sidecar-check]
    periodSeconds: 1
    timeoutSeconds: 368

In a Pod without a sidecar, --pod-ip makes the probe watch process 1: the gate has opened when
process 1 is no longer podgate. Use failureThreshold 1, because this probe counts no failures across
its own runs.

After a kubelet restart, Kubernetes may treat a startupProbe as passed although the probe never
passed (kubernetes#142305). If you use `podgate opened` as a livenessProbe, add --or-waiting.

Exit codes:
  0    the gate has opened, and the checks pass
  69   the gate is still closed, or a check or the startupProbe has failed
  78   no gate has reported: this container's own directory is not mounted";

pub(super) const PROBE_HELP: &str = "\
Example, in the spec of a container that others wait for. Its own probe is pg_isready:
  readinessProbe:
    exec:
      command: [/podgate/bin/podgate, probe, --container, db, --, pg_isready, -U, app]
    periodSeconds: 10
    timeoutSeconds: 306

One process repeats the command until it passes, and then tells the sidecar at once. The pause
between two runs is the longest of 50 ms, ten times the last run and 2.5 % of the time waited, at
most 10 s. After that, each probe runs the command once, as without podgate. timeoutSeconds must be
longer than --limit and --check-timeout together.

Exit codes:
  0    the command has passed
  69   the command has failed, or has not passed within --limit";
