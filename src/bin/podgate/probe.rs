//! `podgate probe`: a readinessProbe that repeats the container's own command until it passes, and tells the sidecar.

use crate::args::ProbeArgs;
use crate::check::{self, Checks};
use crate::clock::now;
use crate::common::report::{Reporter, base_report, read_report};
use crate::failure::Failure;
use crate::pod_sources::PodSources;
use podgate::core::argv::{Argv, Check};
use podgate::core::exit::Exit;
use podgate::core::report::Report;
use podgate::core::sources::PodView;
use podgate::core::state::State;
use podgate::edge::process;
use std::time::Duration;

/// Longest wait for the sidecar after the command has passed. The kubelet syncs the Pod when the probe passes, and
/// creates each held container whose gate is already open.
const SIDECAR_TIMEOUT: Duration = Duration::from_millis(100);

pub(crate) fn run(args: ProbeArgs) -> Result<(), Failure> {
    let check = Argv::new(args.command).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let check = Check::Exec(check);
    let sources = PodSources::new(args.volumes.board, None);
    // Each start of the container has a new process 1, unless the containers share their process namespace.
    let process = process::identify(1);
    let state = |view: &PodView| view.chosen_snapshot()?.states.get(&args.container).copied();
    let is_ready = |view: &PodView| state(view) == Some(State::Ready);
    let is_of_this_run = |report: &Report| report.is_from_sandbox(&sources.sandbox) && report.process == process;
    let found = read_report(&args.volumes.self_dir).ok().filter(is_of_this_run);
    // A gate that has become this container's command cannot report any more, so the probe adds its result.
    let gate = found.clone().filter(|report| report.ticket.is_some());
    if gate.as_ref().is_some_and(|report| !report.has_gate_opened()) {
        return Err(Failure::new(Exit::NeverMet, "the gate has not opened"));
    }
    // If the probe has passed before in this run of the container, the kubelet may show the container as ready. The
    // kubelet and the sidecar must then learn of a failure at once.
    let before = found.filter(|report| report.check_passed || report.check_fails);
    let view = sources.view();
    // Without a sidecar, no container waits for this container's report.
    let is_alone = view.chosen_snapshot().is_none();
    if is_alone || before.is_some() {
        // The child process prints the reason for a failure.
        let passes = check::run_once(&check, args.check_timeout, true, &|| sources.view()).is_ok();
        if !passes {
            if let Some(report) = before {
                let report = Report { check_fails: true, ..report };
                Reporter::new(args.volumes.self_dir, Some(args.container), report).refresh(&view, false);
            }
            return Err(Failure::new(Exit::NeverMet, ""));
        }
        if is_alone || is_ready(&view) {
            return Ok(());
        }
    }

    let since = now();
    let deadline = since + args.limit + args.times.passing_for;
    let start = since.checked_sub(process.map_or(Duration::ZERO, process::age)).unwrap_or(since);
    let mut checks = Checks::new([check], args.check_timeout, since).like_probe_sequence(&args.times, start);
    let own = || Report { started: true, process, ..base_report(sources.sandbox.clone(), &[]) };
    let report = gate.map_or_else(own, |report| Report { check_fails: false, ..report });
    let mut reporter = Reporter::new(args.volumes.self_dir, Some(args.container.clone()), report);
    let mut watch = sources.watch();
    let mut answer_due = None;
    loop {
        let view = watch.read(|| sources.view());
        let at = now();
        checks.run_due(at, &|| view.pod_ip());
        let pending = checks.describe_pending();
        if view.chosen_snapshot().is_some() {
            reporter.refresh(&view, pending.is_empty());
        }
        let due = match checks.next_due() {
            Some(_) if at >= deadline => {
                let limit = humantime::format_duration(args.limit);
                return Err(Failure::new(Exit::NeverMet, format!("{} within {limit}", pending.join("; "))));
            }
            Some(due) => due.min(deadline),
            None => {
                let due = *answer_due.get_or_insert(at + SIDECAR_TIMEOUT);
                if is_ready(&view) || at >= due {
                    return Ok(());
                }
                due
            }
        };
        let pause = due.saturating_duration_since(now());
        watch.wait(pause, checks.poll_fds().collect()).map_err(Failure::setup_error("cannot wait"))?;
    }
}
