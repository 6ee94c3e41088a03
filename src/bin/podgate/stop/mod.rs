//! `podgate pre-stop`: a container's preStop hook, which stays until those who use the container are gone.

mod stopper;

use crate::args::PreStop;
use crate::check::Checks;
use crate::clock::now;
use crate::failed::Failed;
use crate::gate::place::Place;
use crate::gate::then;
use crate::gate::voice::Voice;
use podgate::core::exit::Exit;
use podgate::core::sources::View;
use podgate::core::stop::{self, Decision, SIGN};
use podgate::core::until::Until;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stopper::Stopper;
use tracing::{info, warn};

pub(crate) fn run(args: PreStop) -> ExitCode {
    let voice = Voice::new("pre-stop", args.container.as_deref(), &args.logs, None, None);
    match hook(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => voice.fails(failed),
    }
}

fn hook(args: PreStop) -> Result<(), Failed> {
    let since = now();
    if args.until.is_empty() && args.check_closed.is_empty() && args.then.is_none() {
        return Err(Failed::new(Exit::Usage, "nothing to stay for; give --until CONTAINER, --check-closed or --then"));
    }
    let kept = if args.then.is_some() { args.then_timeout } else { Duration::ZERO };
    let limit = args.grace.saturating_sub(kept);
    // The board alone counts: the downward-API volume is frozen while a pod ends.
    let place = Place::new(args.board, None, args.poll_interval);
    let mut stopper = Stopper::new(args.own, place.sandbox.clone());
    let ports = Checks::closed(args.check_closed, since);
    let stayed = stay(&place, &args.until, ports, &mut stopper, since, limit);
    let ended = args.then.as_ref().map_or(Ok(()), |command| then::run("preStop", command, since + args.grace));
    stopper.over();
    match (stayed, ended) {
        (stayed, Ok(())) => stayed,
        (Ok(()), failed) => failed,
        (Err(Failed(_, before)), Err(Failed(code, why))) => Err(Failed(code, format!("{why}; before that, {before}"))),
    }
}

/// Returns when the container may end; an error says that others are still there, or that the kernel would not let it wait.
fn stay(
    place: &Place,
    untils: &[Until],
    mut ports: Checks,
    stopper: &mut Stopper,
    since: Instant,
    limit: Duration,
) -> Result<(), Failed> {
    let deadline = since + limit;
    let mut watch = place.watch();
    let mut reason = Vec::new();
    let mut pod_stops = false;
    loop {
        let view = watch.read(|| place.view());
        stopper.begun(&view);

        if !pod_stops && stop::stops(&view, untils) {
            pod_stops = true;
            info!(by = watch.rung().as_str(), "the whole pod stops");
        }
        let waited = now().saturating_duration_since(since);
        let decide = |ports: &[String], pod_stops| stop::decide(&view, untils, ports, pod_stops, waited);
        // Nobody is knocked at for nothing: at the restart of one container those who use it stay.
        let knocks = pod_stops || matches!(decide(&[], pod_stops), Decision::Go(stop::Why::AllGone));
        if knocks {
            ports.run_due(now(), deadline);
        }
        match decide(&ports.pending(), pod_stops) {
            Decision::Go(why) => {
                if why == stop::Why::Restart && matches!(view, View::None { .. }) {
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
                Decision::Go(_) | Decision::Undecided => reason,
            };
            let limit = humantime::format_duration(limit);
            return Err(Failed::new(Exit::TimedOut, format!("still there after {limit}: {}", staying.join("; "))));
        }
        let sign = if pod_stops { None } else { Some(since + SIGN) };
        let knock = if knocks { ports.next() } else { None };
        let next = sign.into_iter().chain(knock).min();
        let pause = next.map_or(left, |at| at.saturating_duration_since(here).min(left));
        let others = ports.descriptor().into_iter().collect();
        watch.wait(pause, others).map_err(Failed::set_up("can't wait"))?;
    }
}
