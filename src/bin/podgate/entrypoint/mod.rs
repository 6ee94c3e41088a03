//! `podgate entrypoint`: a gate in front of a container's own command. When the conditions hold it becomes the command, or, where
//! something is left to do, runs it as its parent.

mod exec;
mod parent;

use crate::args::{Entrypoint, Messages, Tethering};
use crate::check::Checks;
use crate::clock::now;
use crate::failed::Failed;
use crate::gate::place::Place;
use crate::gate::report::Reporter;
use crate::gate::voice::Voice;
use crate::gate::wait::Wait;
use podgate::core::argv::Check;
use podgate::core::gate::{Kind, Terms};
use podgate::edge::log::Target;
use podgate::edge::process::random_id;
use podgate::edge::sys::Signals;
use podgate::edge::tether::Tether;
use std::process::ExitCode;
use tracing::warn;

pub(crate) fn run(args: Entrypoint) -> ExitCode {
    let Messages { logs, termination_log } = &args.messages;
    let termination_log = Some(termination_log.clone());
    let voice = Voice::new("entrypoint", args.container.as_deref(), logs, termination_log, Some(Target::Stderr));
    let post_file = args.post_file.clone();
    gate(args, &voice).unwrap_or_else(|failed| {
        parent::never_ran(post_file.as_deref(), &failed);
        voice.fails(failed)
    })
}

/// Returns an error where the command never ran.
fn gate(mut args: Entrypoint, voice: &Voice) -> Result<ExitCode, Failed> {
    let since = now();
    // The first process of a container is told to end by signals that it has to ask for.
    let signals = Signals::block(&[libc::SIGTERM, libc::SIGINT]).map_err(Failed::set_up("can't take signals"))?;
    let place = Place::new(args.waits.board.clone(), Some(args.waits.podinfo.clone()), args.waits.poll_interval);
    place.must_serve_conditions(&args.waits.until)?;
    parent::vet(&args, &place)?;
    // With `--tether parent`, commands look at this container itself, once it runs; all else is waited for.
    let is_own = |check: &Check| args.tether == Tethering::Parent && matches!(check, Check::Exec(_));
    let (own_checks, checks): (Vec<_>, Vec<_>) = std::mem::take(&mut args.waits.check).into_iter().partition(is_own);
    // Tells this start of the gate from all others.
    let ticket = random_id(4).map_err(Failed::set_up("no randomness"))?;
    let mut reporter = Reporter::of_gate(args.waits.own.clone(), place.sandbox.clone(), &args.waits.until, &ticket);
    // Before the tether is taken: a tether that is held makes an earlier incarnation's report count.
    reporter.begin(&place.view());
    let tether = match args.tether {
        Tethering::Exec | Tethering::Parent if reporter.error.is_none() => Tether::take(&args.waits.own)
            // The sidecar then goes by what the kubelet says.
            .inspect_err(|error| warn!(%error, folder = %args.waits.own.display(), "no tether"))
            .ok(),
        _ => None,
    };
    let wait = Wait {
        terms: Terms { kind: Kind::Entrypoint(&ticket), untils: &args.waits.until, fail_fast: args.waits.fail_fast },
        place: &place,
        signals: Some(&signals),
        since,
        timeout: args.waits.timeout,
        on_timeout: args.waits.on_timeout,
    };
    let checks = Checks::new(checks, args.waits.check_timeout, since);
    let none = Checks::new([], args.waits.check_timeout, since);
    wait.run(checks, none, &mut reporter, voice)?;
    voice.is_done();
    if args.needs_parent() {
        drop(signals);
        return parent::run(args, own_checks, place, reporter, tether, voice);
    }
    reporter.opened(Vec::new());
    exec::become_the(&args.command, tether.as_ref(), &signals)
}
