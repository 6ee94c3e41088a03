//! `podgate pre-stop`: a container's preStop hook, which stays until those who use the container are gone.

mod stop_reporter;

use crate::args::PreStop;
use crate::check::Checks;
use crate::clock::now;
use crate::failure::Failure;
use crate::gate::hook_command;
use crate::gate::messenger::Messenger;
use crate::gate::pod_sources::PodSources;
use podgate::core::exit::Exit;
use podgate::core::pre_stop::{self, Decision, STOP_SIGN_TIMEOUT};
use podgate::core::sources::PodView;
use podgate::core::until::WaitCondition;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stop_reporter::StopReporter;
use tracing::{info, warn};

pub(crate) fn run(args: PreStop) -> ExitCode {
    let voice = Messenger::new("pre-stop", args.container.as_deref(), &args.logs, None, None);
    match run_hook(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => voice.report_failure(failed),
    }
}

fn run_hook(args: PreStop) -> Result<(), Failure> {
    let since = now();
    if args.until.is_empty() && args.check_closed.is_empty() && args.then.is_none() {
        return Err(Failure::new(Exit::Usage, "nothing to stay for; give --until CONTAINER, --check-closed or --then"));
    }
    let kept = if args.then.is_some() { args.then_timeout } else { Duration::ZERO };
    let limit = args.grace.saturating_sub(kept);
    // The board alone counts: the downward-API volume is frozen while a pod ends.
    let place = PodSources::new(args.board, None, args.poll_interval);
    let mut stopper = StopReporter::new(args.self_dir, place.sandbox.clone());
    let ports = Checks::for_closed_ports(args.check_closed, since);
    let stayed = wait_for_others(&place, &args.until, ports, &mut stopper, since, limit);
    let ended = args.then.as_ref().map_or(Ok(()), |command| hook_command::run("preStop", command, since + args.grace));
    stopper.report_stopped();
    match (stayed, ended) {
        (stayed, Ok(())) => stayed,
        (Ok(()), failed) => failed,
        (Err(Failure(_, before)), Err(Failure(code, why))) => {
            Err(Failure(code, format!("{why}; before that, {before}")))
        }
    }
}

/// Returns when the container may end; an error says that others are still there, or that the kernel would not let it wait.
fn wait_for_others(
    place: &PodSources,
    untils: &[WaitCondition],
    mut ports: Checks,
    stopper: &mut StopReporter,
    since: Instant,
    limit: Duration,
) -> Result<(), Failure> {
    let deadline = since + limit;
    let mut watch = place.watch();
    let mut reason = Vec::new();
    let mut pod_stops = false;
    loop {
        let view = watch.read(|| place.view());
        stopper.report_stopping(&view);

        if !pod_stops && pre_stop::is_pod_stopping(&view, untils) {
            pod_stops = true;
            info!(by = watch.method().as_str(), "the whole pod stops");
        }
        let waited = now().saturating_duration_since(since);
        let decide = |ports: &[String], pod_stops| pre_stop::decide(&view, untils, ports, pod_stops, waited);
        // Nobody is knocked at for nothing: at the restart of one container those who use it stay.
        let knocks = pod_stops || matches!(decide(&[], pod_stops), Decision::Release(pre_stop::ReleaseReason::AllGone));
        if knocks {
            ports.run_due(now(), deadline);
        }
        match decide(&ports.pending(), pod_stops) {
            Decision::Release(why) => {
                if why == pre_stop::ReleaseReason::OnlyThisContainer && matches!(view, PodView::NoSnapshot { .. }) {
                    warn!(board = %place.board.display(), "no word from the sidecar: stays for nobody");
                }
                let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                info!(waited_ms, "lets go: {why}");
                return Ok(());
            }
            Decision::Wait(staying) if staying != reason => {
                info!("stays for {}", staying.join("; "));
                reason = staying;
            }
            Decision::Wait(_) | Decision::Undecided => {}
        }
        let here = now();
        let left = deadline.saturating_duration_since(here);
        if left.is_zero() {
            let staying = match decide(&ports.pending(), true) {
                Decision::Wait(staying) => staying,
                Decision::Release(_) | Decision::Undecided => reason,
            };
            let limit = humantime::format_duration(limit);
            return Err(Failure::new(Exit::TimedOut, format!("still there after {limit}: {}", staying.join("; "))));
        }
        let sign = if pod_stops { None } else { Some(since + STOP_SIGN_TIMEOUT) };
        let knock = if knocks { ports.next_due() } else { None };
        let next = sign.into_iter().chain(knock).min();
        let pause = next.map_or(left, |at| at.saturating_duration_since(here).min(left));
        let others = ports.poll_fd().into_iter().collect();
        watch.wait(pause, others).map_err(Failure::setup_error("can't wait"))?;
    }
}
