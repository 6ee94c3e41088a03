//! `podgate entrypoint`: a gate in front of a container's own command. When the conditions are met, podgate replaces
//! itself with the command. If a flag requires a parent, podgate runs the command as a child instead.

pub(crate) mod exec;
pub(crate) mod parent;

use crate::args::{EntrypointArgs, MessageArgs, TetherMode};
use crate::check::Checks;
use crate::clock::now;
use crate::common::messenger::Messenger;
use crate::common::report::{Reporter, base_report};
use crate::common::wait::Wait;
use crate::failure::Failure;
use crate::pod_sources::PodSources;
use crate::predecessors::Predecessors;
use crate::signals;
use podgate::core::exit::Exit;
use podgate::core::gate::GateKind;
use podgate::core::report::{GateState, Report};
use podgate::edge::lock::Tether;
use podgate::edge::log::Target;
use podgate::edge::process::{identify, random_id};
use podgate::edge::sys::SignalFd;
use std::io;
use std::process::ExitCode;
use tracing::warn;

pub(crate) fn run(args: EntrypointArgs) -> ExitCode {
    let MessageArgs { logs, termination_log } = &args.messages;
    let termination_log = Some(termination_log.clone());
    let messenger =
        Messenger::new("entrypoint", args.container.as_deref(), logs, termination_log, Some(Target::Stderr));
    let post_file = args.post_file.clone();
    run_gate(args, &messenger).unwrap_or_else(|failed| {
        parent::write_never_ran_post_file(post_file.as_deref(), &failed);
        messenger.print_failure(failed)
    })
}

/// Waits until the gate opens, then runs the command. Returns an error if the command never ran.
fn run_gate(mut args: EntrypointArgs, messenger: &Messenger) -> Result<ExitCode, Failure> {
    let since = now();
    // The kernel drops signals to the first process of a PID namespace unless that process handles or blocks them.
    let signals =
        SignalFd::block(&signals::ending_before_start()).map_err(Failure::setup_error("cannot receive signals"))?;
    let sources = PodSources::new(args.waits.volumes.board.clone(), None);
    sources.require_source("--until", !args.waits.until.is_empty())?;
    sources.require_source("--stop-after", !args.stop_after.is_empty())?;
    args.post_file.as_deref().map_or(Ok(()), parent::validate_post_file_name)?;
    let ticket = random_id(4).map_err(Failure::setup_error("cannot read random bytes"))?;
    let report = Report {
        gate: Some(GateState::Waiting),
        ticket: Some(ticket.clone()),
        process: identify(std::process::id()),
        ..base_report(sources.sandbox.clone(), &args.waits.until)
    };
    let mut reporter = Reporter::new(args.waits.volumes.self_dir.clone(), None, report);
    let mut predecessors = None;
    if let Some(ip) = &args.pod_ip {
        if args.needs_parent() {
            let why = "without a sidecar (--pod-ip), podgate cannot remain the command's parent";
            return Err(Failure::new(Exit::Usage, why));
        }
        let asked = Predecessors::new(&args.ask, ip, ticket.clone(), since)?;
        args.waits.until = asked.conditions();
        predecessors = Some(asked);
    } else {
        // Report before taking the tether: a tether would make the report of an earlier incarnation valid.
        reporter.refresh(&sources.view(), false);
    }
    // `podgate opened` waits until this pipe closes, which happens when this process executes the command.
    let _pipe = predecessors.is_some().then(std::io::pipe);
    let tether = match args.tether {
        TetherMode::Exec | TetherMode::Parent if predecessors.is_none() && reporter.error.is_none() => {
            let own = &args.waits.volumes.self_dir;
            // A failure is not fatal: without a tether, the sidecar relies on the kubelet's status.
            let failed = |error: &io::Error| warn!(%error, directory = %own.display(), "cannot take the tether");
            Tether::take_over(own).inspect_err(failed).ok()
        }
        _ => None,
    };
    let checks = Checks::new(std::mem::take(&mut args.waits.check), args.waits.check_timeout, since);
    let none = Checks::new([], args.waits.check_timeout, since);
    let is_alone = predecessors.is_some();
    let (kind, conditions) = (GateKind::Entrypoint(&ticket), args.waits.until.as_slice());
    let wait = Wait { kind, conditions, args: &args.waits, sources: &sources, signals: Some(&signals), since };
    wait.run(predecessors, checks, none, &mut reporter, messenger)?;
    messenger.clear_message();
    if args.needs_parent() {
        drop(signals);
        return parent::run(args, sources, reporter, tether, messenger);
    }
    if !is_alone {
        reporter.report_opened(None);
    }
    exec::exec_words(&args.command, tether.as_ref(), &signals)
}
