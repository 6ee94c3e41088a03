//! The commands that wait: what each can be told.

use super::values::{
    ExitCodeSource, OnFailure, OnProviderRestart, TetherMode, boolean, container_name, duration, exit_condition,
    interval,
};
use clap::Args as ClapArgs;
use podgate::core::argv::{Argv, Check};
use podgate::core::names;
use podgate::core::until::WaitCondition;
use podgate::edge::log::Format;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const POST_START_HELP: &str = "\
Example, in a Pod's spec: `api`, which stands after `db`, starts when `db` is Ready.
  containers:
  - name: db
    lifecycle:
      postStart:
        exec:
          command: [/podgate/bin/podgate, post-start, --container, db, --timeout, 2m]
  - name: api

While a postStart hook runs, the kubelet shows the whole Pod as ContainerCreating and runs none of its
probes; the podgate sidecar judges readiness meanwhile. A hook that fails, a time-out included, makes the
kubelet kill this container and start the next one anyway: the reason then stands in the container's
status and in its termination message (kubectl describe pod).

Exit codes:
  0    released: the conditions hold; or the Pod has started before or is being deleted; or it timed
       out with --on-timeout continue
  64   wrong flag or argument
  69   the condition can never be met, or a container before this one has ended
  75   timed out
  78   the set-up is wrong: nothing to read from, no such container
  Where the command of --then fails, its own exit code (128 + N for signal N).";

pub(super) const ENTRYPOINT_HELP: &str = "\
Example, in a Pod's spec: `api` runs its command when `db` is Ready, wherever it stands in the list.
  containers:
  - name: api
    command: [/podgate/bin/podgate, entrypoint, --until, db, --]
    args: [/usr/bin/api, --port, \"8080\"]
    startupProbe:
      exec:
        command: [/podgate/bin/podgate, opened, --check, \"http://127.0.0.1:8080/\"]
      periodSeconds: 1
      failureThreshold: 300

When the conditions hold, podgate becomes the command: same process, same environment, nothing left
behind. It stays as the command's parent only where one is needed: --tether parent, --post-file,
--command-timeout, --on-error continue, --stdout, --stderr, --breakpoint, --stop-after,
--on-provider-restart restart. Then it forwards signals, reaps orphans, and ends as the command ended.

A container that waits runs already for the kubelet: `podgate opened` as its startupProbe holds its other
probes back until the command runs.

Exit codes: those of the command, once it runs; before that
  64   wrong flag or argument
  69   the condition can never be met; later, a container waited for was restarted (--on-provider-restart)
  75   timed out; later, the command was ended by --command-timeout
  78   the set-up is wrong: nothing to read from, no such container, a file that can't be written
  126  the command can't be executed
  127  the command was not found
  130  INT while waiting
  143  TERM, or the Pod's deletion, while waiting";

pub(super) const PRE_STOP_HELP: &str = "\
Example, in a Pod's spec: `db` stays until `api` is gone.
  containers:
  - name: db
    lifecycle:
      preStop:
        exec:
          command: [/podgate/bin/podgate, pre-stop, --until, api, --grace, 25s]

When a Pod is deleted, the kubelet runs all preStop hooks at once, and tells each container to end when its
own hook has returned: the one that others use waits there for them. When only this container is
restarted, its preStop hook runs too; then it waits for nobody (after at most 1 s of looking for a sign
that the whole Pod stops). Whether a container is gone is seen by its tether (`podgate entrypoint`, or
`podgate post-start --tether`) or by its port (--check-closed): Kubernetes says nothing of it in time.

Exit codes:
  0    all are gone, or only this container is restarted
  64   wrong flag or argument
  75   the grace period was over before all were gone; the container is ended all the same
  Where the command of --then fails, its own exit code (128 + N for signal N).";

pub(super) const OPENED_HELP: &str = "\
Example, in the spec of a container with a gate: a startupProbe behind which the kubelet holds the other
probes back, for as long as the gate may wait (here 300 s), and then until the program answers.
  startupProbe:
    exec:
      command: [/podgate/bin/podgate, opened, --check, \"tcp://127.0.0.1:8080\"]
    periodSeconds: 1
    failureThreshold: 300

After a restart of the kubelet, Kubernetes may take a startupProbe for passed that never was
(kubernetes#142305): a livenessProbe that must survive this too is written with --or-waiting.

Exit codes:
  0    the gate has opened, and the checks pass
  64   wrong flag or argument
  69   not so
  78   no gate has reported here: this container's own folder is not mounted";

/// What is waited for, where it is read, and for how long.
#[derive(Debug, ClapArgs)]
pub(crate) struct WaitArgs {
    /// Wait until CONTAINER is in STATE (Started, Ready, Completed, Exited; Ready if left out); repeatable
    #[arg(long, value_name = "CONTAINER[=STATE]", env = "PODGATE_UNTIL", value_delimiter = ',')]
    pub(crate) until: Vec<WaitCondition>,
    /// Wait until this passes too: tcp://HOST:PORT, http://HOST:PORT/PATH, exec:["COMMAND","ARG"],
    /// file:///PATH, file:///PATH+content; repeatable. A file PATH.err in the place of PATH ends the wait
    #[arg(long, value_name = "URL", env = "PODGATE_CHECK")]
    pub(crate) check: Vec<Check>,
    /// How long one check may take
    #[arg(long, value_name = "DURATION", env = "PODGATE_CHECK_TIMEOUT", default_value = "5s", value_parser = duration)]
    pub(crate) check_timeout: Duration,
    /// The downward-API volume with the Pod's annotations
    #[arg(long, value_name = "DIR", env = "PODGATE_PODINFO", default_value = names::PODINFO_DIR)]
    pub(crate) podinfo: PathBuf,
    /// The board: the volume that the sidecar writes and nobody else
    #[arg(long, value_name = "DIR", env = "PODGATE_BOARD", default_value = names::BOARD_DIR)]
    pub(crate) board: PathBuf,
    /// This container's own folder, for its report and its tether
    #[arg(long = "self", value_name = "DIR", env = "PODGATE_SELF", default_value = names::SELF_DIR)]
    pub(crate) self_dir: PathBuf,
    /// How long to wait; in a hook, the command of --then included
    #[arg(long, value_name = "DURATION", env = "PODGATE_TIMEOUT", default_value = "5m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// What a time-out does: fail (exit code 75) or continue, as if the conditions held
    #[arg(long, value_name = "ACTION", env = "PODGATE_ON_TIMEOUT", default_value = "fail")]
    pub(crate) on_timeout: OnFailure,
    /// How often to look where neither the bell nor inotify serves
    #[arg(long, value_name = "DURATION", env = "PODGATE_POLL_INTERVAL", default_value = "100ms", value_parser = interval)]
    pub(crate) poll_interval: Duration,
    /// Give up (69) as soon as a container waited for has ended for good, is in back-off, or its image can't be pulled
    #[arg(long, env = "PODGATE_FAIL_FAST", value_parser = boolean)]
    pub(crate) fail_fast: bool,
}

/// Where it logs.
#[derive(Debug, ClapArgs)]
pub(crate) struct LogArgs {
    /// How log lines are written: text or json
    #[arg(long, value_name = "FORMAT", env = "PODGATE_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: Format,
    /// Append a log here; a hook's own output is thrown away by Kubernetes, /proc/1/fd/2 is the container's log
    #[arg(long, value_name = "FILE", env = "PODGATE_LOG_TO")]
    pub(crate) log_to: Option<PathBuf>,
}

/// Where it says why it waits or fails.
#[derive(Debug, ClapArgs)]
pub(crate) struct MessageArgs {
    #[command(flatten)]
    pub(crate) logs: LogArgs,
    /// Where the reason for waiting or failing goes: the container's terminationMessagePath
    #[arg(long, value_name = "FILE", env = "PODGATE_TERMINATION_LOG", default_value = names::TERMINATION_LOG)]
    pub(crate) termination_log: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PostStart {
    /// The container whose hook this is; by default it waits for this one itself, until it is Ready
    #[arg(long, value_name = "NAME", env = "PODGATE_CONTAINER", value_parser = container_name)]
    pub(crate) container: String,
    #[command(flatten)]
    pub(crate) waits: WaitArgs,
    /// Judge by this check if the sidecar dies while the hook runs
    #[arg(long, value_name = "URL", env = "PODGATE_FALLBACK_CHECK")]
    pub(crate) fallback_check: Option<Check>,
    /// The container's own postStart command, run first; if it fails, so does the hook
    #[arg(long, value_name = "[\"COMMAND\",\"ARG\"]", env = "PODGATE_THEN")]
    pub(crate) then: Option<Argv>,
    /// Leave a tiny process behind, by which the sidecar knows at once when this container is gone
    #[arg(long, env = "PODGATE_LEAVE_TETHER", value_parser = boolean)]
    pub(crate) tether: bool,
    #[command(flatten)]
    pub(crate) messages: MessageArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Entrypoint {
    /// The container whose gate this is, for messages
    #[arg(long, value_name = "NAME", env = "PODGATE_CONTAINER", value_parser = container_name)]
    pub(crate) container: Option<String>,
    #[command(flatten)]
    pub(crate) waits: WaitArgs,
    /// How the sidecar knows when this container is gone: exec (a lock that the command inherits), parent (podgate stays
    /// as the parent, reports the exit code, and runs each exec: check once the command runs, to tell when it is
    /// Ready) or none
    #[arg(long, value_name = "HOW", env = "PODGATE_TETHER", default_value = "exec")]
    pub(crate) tether: TetherMode,
    /// End the command after this long: TERM, then KILL after --grace; exit code 75
    #[arg(long, value_name = "DURATION", env = "PODGATE_COMMAND_TIMEOUT", value_parser = duration)]
    pub(crate) command_timeout: Option<Duration>,
    /// How long a command that podgate ends may take, before it is killed
    #[arg(long, value_name = "DURATION", env = "PODGATE_GRACE", default_value = "30s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// What a command that fails does: fail (its exit code) or continue (0; --post-file is written as if it had succeeded)
    #[arg(long, value_name = "ACTION", env = "PODGATE_ON_ERROR", default_value = "fail")]
    pub(crate) on_error: OnFailure,
    /// Write this file when the command has ended: its exit code; if it failed, or never ran, into FILE.err instead
    #[arg(long, value_name = "FILE", env = "PODGATE_POST_FILE")]
    pub(crate) post_file: Option<PathBuf>,
    /// Copy the command's standard output to this file
    #[arg(long, value_name = "FILE", env = "PODGATE_STDOUT")]
    pub(crate) stdout: Option<PathBuf>,
    /// Copy the command's standard error to this file
    #[arg(long, value_name = "FILE", env = "PODGATE_STDERR")]
    pub(crate) stderr: Option<PathBuf>,
    /// When the command has failed, hold the container until this file is there
    #[arg(long, value_name = "FILE", env = "PODGATE_BREAKPOINT")]
    pub(crate) breakpoint: Option<PathBuf>,
    /// End the command when CONTAINER has exited, so that a Job's Pod completes; repeatable: when all have
    #[arg(long, value_name = "CONTAINER", env = "PODGATE_STOP_AFTER", value_delimiter = ',', value_parser = container_name)]
    pub(crate) stop_after: Vec<String>,
    /// Exit code of a command that --stop-after has ended: 0, or child for its own
    #[arg(long, value_name = "CODE", env = "PODGATE_EXIT_CODE", default_value = "0")]
    pub(crate) exit_code: ExitCodeSource,
    /// When a container of --until restarts later: ignore it, or restart, that is end the command (exit code 69) for the
    /// kubelet to start this container again
    #[arg(long, value_name = "ACTION", env = "PODGATE_ON_PROVIDER_RESTART", default_value = "ignore")]
    pub(crate) on_provider_restart: OnProviderRestart,
    #[command(flatten)]
    pub(crate) messages: MessageArgs,
    /// The container's own command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PreStop {
    /// The container whose hook this is, for messages
    #[arg(long, value_name = "NAME", env = "PODGATE_CONTAINER", value_parser = container_name)]
    pub(crate) container: Option<String>,
    /// Stay until CONTAINER has Exited; repeatable
    #[arg(long, value_name = "CONTAINER[=Exited]", env = "PODGATE_STOP_UNTIL", value_delimiter = ',', value_parser = exit_condition)]
    pub(crate) until: Vec<WaitCondition>,
    /// Stay until nothing accepts connections here any more: tcp://HOST:PORT; repeatable
    #[arg(long, value_name = "URL", env = "PODGATE_STOP_CHECK_CLOSED", value_parser = super::values::port_check)]
    pub(crate) check_closed: Vec<Check>,
    /// How long to stay at most, the command of --then included: less than the Pod's terminationGracePeriodSeconds
    #[arg(long, value_name = "DURATION", env = "PODGATE_STOP_GRACE", default_value = "25s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// The container's own preStop command, run when the others are gone; if it fails, so does the hook
    #[arg(long, value_name = "[\"COMMAND\",\"ARG\"]", env = "PODGATE_STOP_THEN")]
    pub(crate) then: Option<Argv>,
    /// How much of --grace is kept for --then
    #[arg(long, value_name = "DURATION", env = "PODGATE_STOP_THEN_TIMEOUT", default_value = "5s", value_parser = duration)]
    pub(crate) then_timeout: Duration,
    /// The board: the volume that the sidecar writes and nobody else
    #[arg(long, value_name = "DIR", env = "PODGATE_BOARD", default_value = names::BOARD_DIR)]
    pub(crate) board: PathBuf,
    /// This container's own folder, for its report
    #[arg(long = "self", value_name = "DIR", env = "PODGATE_SELF", default_value = names::SELF_DIR)]
    pub(crate) self_dir: PathBuf,
    /// How often to look where neither the bell nor inotify serves
    #[arg(long, value_name = "DURATION", env = "PODGATE_POLL_INTERVAL", default_value = "100ms", value_parser = interval)]
    pub(crate) poll_interval: Duration,
    #[command(flatten)]
    pub(crate) logs: LogArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Opened {
    /// Look at this too, once the gate has opened: tcp://HOST:PORT, http://HOST:PORT/PATH, exec:["COMMAND","ARG"],
    /// file:///PATH[+content]; repeatable
    #[arg(long, value_name = "URL", env = "PODGATE_OPENED_CHECK")]
    pub(crate) check: Vec<Check>,
    /// How long one check may take
    #[arg(long, value_name = "DURATION", env = "PODGATE_OPENED_CHECK_TIMEOUT", default_value = "1s", value_parser = duration)]
    pub(crate) check_timeout: Duration,
    /// Pass while the gate still waits, too: for a livenessProbe
    #[arg(long, env = "PODGATE_OPENED_OR_WAITING", value_parser = boolean)]
    pub(crate) or_waiting: bool,
    /// This container's own folder, with its report
    #[arg(long = "self", value_name = "DIR", env = "PODGATE_SELF", default_value = names::SELF_DIR)]
    pub(crate) self_dir: PathBuf,
}

impl Entrypoint {
    /// Whether podgate has to stay as the command's parent.
    pub(crate) fn needs_parent(&self) -> bool {
        self.tether == TetherMode::Parent
            || self.command_timeout.is_some()
            || self.on_error == OnFailure::Continue
            || self.post_file.is_some()
            || self.stdout.is_some()
            || self.stderr.is_some()
            || self.breakpoint.is_some()
            || !self.stop_after.is_empty()
            || self.on_provider_restart == OnProviderRestart::Restart
    }
}
