//! `podgate pre-stop`: a preStop hook that waits until the containers that depend on this container have exited.

mod stop_reporter;

use crate::args::PreStopArgs;
use crate::clock::now;
use crate::common::hook_command;
use crate::common::messenger::Messenger;
use crate::failure::Failure;
use crate::pod_sources::PodSources;
use crate::tether_process;
use podgate::core::exit::Exit;
use podgate::core::pre_stop::{self, Decision, POD_STOP_DETECTION_TIMEOUT};
use podgate::core::until::WaitCondition;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stop_reporter::StopReporter;
use tracing::{info, warn};

pub(crate) fn run(args: PreStopArgs) -> ExitCode {
    let messenger = Messenger::new("pre-stop", args.container.as_deref(), &args.logs, None, None);
    match run_hook(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => messenger.print_failure(failed),
    }
}

fn run_hook(args: PreStopArgs) -> Result<(), Failure> {
    let since = now();
    if args.tether {
        tether_process::spawn_or_warn(&args.volumes.self_dir);
    }
    let kept = if args.then.is_some() { args.then_timeout } else { Duration::ZERO };
    let limit = args.grace.saturating_sub(kept);
    // Use only the board: the kubelet does not update the downward-API volume while a pod terminates.
    let sources = PodSources::new(args.volumes.board, None);
    let mut reporter = StopReporter::new(args.volumes.self_dir, sources.sandbox.clone());
    let waited = wait_for_others(&sources, &args.until, &mut reporter, since, limit);
    let ended = args.then.as_ref().map_or(Ok(()), |command| hook_command::run("preStop", command, since + args.grace));
    reporter.report_stopped();
    match (waited, ended) {
        (waited, Ok(())) => waited,
        (Ok(()), failed) => failed,
        (Err(Failure(_, before)), Err(Failure(code, why))) => {
            Err(Failure(code, format!("{why}; before that, {before}")))
        }
    }
}

/// Waits until the container may end. Returns an error after a timeout, or if `poll` fails.
fn wait_for_others(
    sources: &PodSources,
    conditions: &[WaitCondition],
    reporter: &mut StopReporter,
    since: Instant,
    limit: Duration,
) -> Result<(), Failure> {
    let deadline = since + limit;
    let mut watch = sources.watch();
    let mut reason = Vec::new();
    let mut pod_stops = false;
    loop {
        let view = watch.read(|| sources.view());
        reporter.report_stopping(&view);

        if !pod_stops && pre_stop::is_pod_stopping(&view, conditions) {
            pod_stops = true;
            info!(by = watch.method.as_str(), "the whole pod is stopping");
        }
        let waited = now().saturating_duration_since(since);
        match pre_stop::decide(&view, conditions, pod_stops, waited) {
            Decision::Release(why) => {
                if view.chosen_snapshot().is_none() && !conditions.is_empty() {
                    warn!(board = %sources.board.display(), "no state from the sidecar; not waiting");
                }
                let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                info!(waited_ms, "released: {why}");
                return Ok(());
            }
            Decision::Wait(remaining) if remaining != reason => {
                info!("waiting for {}", remaining.join("; "));
                reason = remaining;
            }
            Decision::Wait(_) | Decision::Undecided => {}
        }
        let at = now();
        let left = deadline.saturating_duration_since(at);
        if left.is_zero() {
            let remaining = match pre_stop::decide(&view, conditions, true, waited) {
                Decision::Wait(remaining) => remaining,
                Decision::Release(_) | Decision::Undecided => reason,
            };
            let limit = humantime::format_duration(limit);
            let why = format!("timed out after {limit}, still waiting for {}", remaining.join("; "));
            return Err(Failure::new(Exit::TimedOut, why));
        }
        let sign_timeout = if pod_stops { None } else { Some(since + POD_STOP_DETECTION_TIMEOUT) };
        let pause = sign_timeout.map_or(left, |due| due.saturating_duration_since(at).min(left));
        watch.wait(pause, Vec::new()).map_err(Failure::setup_error("cannot wait"))?;
    }
}
