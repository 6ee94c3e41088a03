//! `podgate pre-stop`: a container's preStop hook, which stays until those who use the container are gone.

mod stopper;

use crate::args::PreStop;
use crate::check::Checks;
use crate::clock::now;
use crate::gate::then;
use crate::gate::voice::{ByDefault, Failed, Voice};
use crate::gate::wait::REARMS_MAX;
use podgate::core::exit::Exit;
use podgate::core::sandbox::SandboxId;
use podgate::core::snapshot::NoWord;
use podgate::core::sources::{View, choose};
use podgate::core::stop::{self, Decision, SIGN};
use podgate::core::until::Until;
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::source;
use podgate::edge::wake::Wake;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stopper::Stopper;
use tracing::{info, warn};

pub(crate) fn run(args: PreStop) -> ExitCode {
    let voice = Voice::without_last_words("pre-stop", args.container.as_deref(), &args.logs, ByDefault::Nowhere);
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
    let sandbox = sandbox_id();
    let mut stopper = Stopper::new(args.own, sandbox.clone());
    let mut stay = Stay {
        sandbox,
        board: args.board,
        poll_interval: args.poll_interval,
        untils: &args.until,
        ports: Checks::closed(args.check_closed, since),
        since,
        deadline: since + limit,
    };
    let stayed = judge(stay.run(&mut stopper), limit);
    let ended = args.then.as_ref().map_or(Ok(()), |command| {
        then::run(command, since + args.grace)
            .map_err(|failure| failure.explain(&format!("the container's own preStop command {command}")))
    });
    stopper.over();
    match (stayed, ended) {
        (stayed, Ok(())) => stayed,
        (Ok(()), failed) => failed,
        (Err(Failed(_, before)), Err(Failed(code, why))) => Err(Failed(code, format!("{why}; before that, {before}"))),
    }
}

/// How a stay ended.
#[derive(Debug)]
enum Stayed {
    /// The container may end.
    Enough,
    /// The deadline passed while these were still there.
    TimedOut(Vec<String>),
    /// The kernel would not let it wait.
    Broken(std::io::Error),
}

fn judge(stayed: Stayed, limit: Duration) -> Result<(), Failed> {
    match stayed {
        Stayed::Enough => Ok(()),
        Stayed::TimedOut(reason) => {
            let limit = humantime::format_duration(limit);
            Err(Failed::new(Exit::TimedOut, format!("still there after {limit}: {}", reason.join("; "))))
        }
        Stayed::Broken(error) => Err(Failed::new(Exit::SetUp, format!("can't wait: {error}"))),
    }
}

/// What one stay works with. The board alone counts: the downward-API volume is frozen while a pod ends.
#[derive(Debug)]
struct Stay<'a> {
    sandbox: SandboxId,
    board: PathBuf,
    poll_interval: Duration,
    untils: &'a [Until],
    ports: Checks,
    since: Instant,
    deadline: Instant,
}

impl Stay<'_> {
    fn run(&mut self, stopper: &mut Stopper) -> Stayed {
        let mut wake = Wake::new(self.board.clone(), self.board.clone(), self.poll_interval);
        let mut reason = Vec::new();
        let mut pod_stops = false;
        let mut has_word = true;
        let mut rearms = 0;
        loop {
            let armed_for_word = has_word;
            let rung = wake.arm(has_word);
            let view = choose(&self.sandbox, source::board(&self.board), Err(NoWord::Missing));
            has_word = matches!(view, View::Word(..));
            stopper.begun(&view);

            if !pod_stops && stop::stops(&view, self.untils) {
                pod_stops = true;
                info!(by = rung.as_str(), "the whole pod stops");
            }
            let waited = now().saturating_duration_since(self.since);
            let decide = |ports: &[String], pod_stops| stop::decide(&view, self.untils, ports, pod_stops, waited);
            // Nobody is knocked at for nothing: at the restart of one container those who use it stay.
            let knocks = pod_stops || matches!(decide(&[], pod_stops), Decision::Go(stop::Why::AllGone));
            if knocks {
                self.ports.run_due(now(), self.deadline);
            }
            match decide(&self.ports.pending(), pod_stops) {
                Decision::Go(why) => {
                    if why == stop::Why::Restart && !has_word {
                        warn!(board = %self.board.display(), "no word from the sidecar: stays for nobody");
                    }
                    let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                    info!(waited_ms, "lets go: {why}");
                    return Stayed::Enough;
                }
                Decision::Wait(staying) if staying != reason => {
                    info!("stays for {}", staying.join("; "));
                    reason = staying;
                }
                Decision::Wait(_) | Decision::Undecided => {}
            }
            let here = now();
            let left = self.deadline.saturating_duration_since(here);
            if left.is_zero() {
                return Stayed::TimedOut(match decide(&self.ports.pending(), true) {
                    Decision::Wait(staying) => staying,
                    Decision::Go(_) | Decision::Undecided => reason,
                });
            }
            // What was armed must be what was read: the bell of a board that speaks, and is still the one there.
            let stale = armed_for_word != has_word || !wake.still_armed();
            if stale && rearms < REARMS_MAX {
                rearms += 1;
                continue;
            }
            rearms = 0;
            let sign = if pod_stops { None } else { Some(self.since + SIGN) };
            let knock = if knocks { self.ports.next() } else { None };
            let next = sign.into_iter().chain(knock).min();
            let pause = next.map_or(left, |at| at.saturating_duration_since(here).min(left));
            let others = self.ports.descriptor().into_iter().collect::<Vec<_>>();
            if let Err(error) = wake.wait(pause, &others) {
                return Stayed::Broken(error);
            }
        }
    }
}
