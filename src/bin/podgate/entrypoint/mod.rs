//! `podgate entrypoint`: a gate in front of a container's own command. When the conditions hold it becomes the command, or, where
//! something is left to do, runs it as its parent.

mod exec;
mod parent;

use crate::args::{Entrypoint, MessageArgs, TetherMode};
use crate::check::Checks;
use crate::clock::now;
use crate::failure::Failure;
use crate::gate::messenger::Messenger;
use crate::gate::pod_sources::PodSources;
use crate::gate::report::Reporter;
use crate::gate::wait::Wait;
use podgate::core::argv::Check;
use podgate::core::gate::{GateKind, GateSpec};
use podgate::edge::log::Target;
use podgate::edge::process::random_id;
use podgate::edge::sys::SignalFd;
use podgate::edge::tether::Tether;
use std::process::ExitCode;
use tracing::warn;

pub(crate) fn run(args: Entrypoint) -> ExitCode {
    let MessageArgs { logs, termination_log } = &args.messages;
    let termination_log = Some(termination_log.clone());
    let voice = Messenger::new("entrypoint", args.container.as_deref(), logs, termination_log, Some(Target::Stderr));
    let post_file = args.post_file.clone();
    run_gate(args, &voice).unwrap_or_else(|failed| {
        parent::report_never_ran(post_file.as_deref(), &failed);
        voice.report_failure(failed)
    })
}

/// Returns an error where the command never ran.
fn run_gate(mut args: Entrypoint, voice: &Messenger) -> Result<ExitCode, Failure> {
    let since = now();
    // The first process of a container is told to end by signals that it has to ask for.
    let signals =
        SignalFd::block(&[libc::SIGTERM, libc::SIGINT]).map_err(Failure::setup_error("can't take signals"))?;
    let place = PodSources::new(args.waits.board.clone(), Some(args.waits.podinfo.clone()), args.waits.poll_interval);
    place.require_source_for(&args.waits.until)?;
    parent::validate(&args, &place)?;
    // With `--tether parent`, commands look at this container itself, once it runs; all else is waited for.
    let is_own = |check: &Check| args.tether == TetherMode::Parent && matches!(check, Check::Exec(_));
    let (own_checks, checks): (Vec<_>, Vec<_>) = std::mem::take(&mut args.waits.check).into_iter().partition(is_own);
    // Tells this start of the gate from all others.
    let ticket = random_id(4).map_err(Failure::setup_error("no randomness"))?;
    let mut reporter =
        Reporter::for_gate(args.waits.self_dir.clone(), place.sandbox.clone(), &args.waits.until, &ticket);
    // Before the tether is taken: a tether that is held makes an earlier incarnation's report count.
    reporter.report_closed(&place.view());
    let tether = match args.tether {
        TetherMode::Exec | TetherMode::Parent if reporter.error.is_none() => Tether::take(&args.waits.self_dir)
            // The sidecar then goes by what the kubelet says.
            .inspect_err(|error| warn!(%error, folder = %args.waits.self_dir.display(), "no tether"))
            .ok(),
        _ => None,
    };
    let wait = Wait {
        terms: GateSpec {
            kind: GateKind::Entrypoint(&ticket),
            conditions: &args.waits.until,
            fail_fast: args.waits.fail_fast,
        },
        sources: &place,
        signals: Some(&signals),
        since,
        timeout: args.waits.timeout,
        on_timeout: args.waits.on_timeout,
    };
    let checks = Checks::new(checks, args.waits.check_timeout, since);
    let none = Checks::new([], args.waits.check_timeout, since);
    wait.run(checks, none, &mut reporter, voice)?;
    voice.clear_message();
    if args.needs_parent() {
        drop(signals);
        return parent::run(args, own_checks, place, reporter, tether, voice);
    }
    reporter.report_opened(Vec::new());
    exec::exec_command(&args.command, tether.as_ref(), &signals)
}
