//! Staying as the command's parent: a good init for it, in one thread and one poll loop.

mod breakpoint;
mod child;
mod dependencies;
mod post_file;
mod supervise;
mod tee;
mod verdict;

use crate::args::Entrypoint;
use crate::clock::now;
use crate::entrypoint::exec::SIGNAL_BEFORE_EXEC;
use crate::failure::Failure;
use crate::gate::messenger::Messenger;
use crate::gate::pod_sources::PodSources;
use crate::gate::report::Reporter;
use child::Child;
use dependencies::Dependencies;
use podgate::core::argv::Check;
use podgate::core::exit::Exit;
use podgate::edge::sys::SignalFd;
use podgate::edge::tether::Tether;
use rustix::stdio;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use supervise::Supervisor;
use tee::Tee;
use tracing::{info, warn};
use verdict::{EndReason, Verdict};

/// What can be found wrong before the wait.
pub(super) fn validate(args: &Entrypoint, place: &PodSources) -> Result<(), Failure> {
    args.post_file.as_deref().map_or(Ok(()), post_file::validate_path)?;
    if args.stop_after.is_empty() {
        return Ok(());
    }
    place.require_source("nothing says when --stop-after's container has exited", "")
}

/// Runs the command to its end; `own_checks` are those of this container itself. Returns an error where it could not be started.
pub(super) fn run(
    args: Entrypoint,
    own_checks: Vec<Check>,
    place: PodSources,
    mut reporter: Reporter,
    // Let go of by this process's end, or on an early return.
    _tether: Option<Tether>,
    voice: &Messenger,
) -> Result<ExitCode, Failure> {
    let signals = SignalFd::block(&child::forwarded_signals()).map_err(Failure::setup_error("can't take signals"))?;
    // The first process of a PID namespace gets all orphans anyway.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let (out, stdout) = child_output(args.stdout.as_deref(), stdio::stdout())?;
    let (err, stderr) = child_output(args.stderr.as_deref(), stdio::stderr())?;

    let mut follow = Dependencies::new(&args);
    let view = place.view();
    let done = follow.end_reason(&view, now()) == Some(EndReason::AllExited);
    while let Some(signal) = signals.next_signal() {
        if child::is_stop_signal(signal) {
            return Err(Failure::by_signal(signal, SIGNAL_BEFORE_EXEC));
        }
    }
    reporter.report_opened(follow.watched_containers());
    if done {
        info!("{} had exited before; the command is not run", args.stop_after.join(", "));
        let verdict = Verdict { command_code: 0, exit_code: 0, reason: None, has_failed: false };
        return Ok(finish(&args, &place, &mut reporter, verdict, voice));
    }
    let child = Child::start(&args.command, stdout, stderr)
        .inspect_err(|failed| reporter.report_exit(&view, i32::from(failed.0)))?;
    let tees = [out, err].into_iter().flatten().collect();
    let mut supervisor = Supervisor::new(&args, &place, &signals, &mut reporter, follow, child, tees, own_checks);
    let ended = supervisor.run();
    let (code, why, was_told) = supervisor.finish();
    let verdict = match ended {
        Ok(()) => verdict::decide(code, why.as_ref(), args.exit_code, args.on_error),
        Err(error) => {
            let reason = Some(format!("can't wait for the command: {error}"));
            Verdict { command_code: Exit::BadSetup.code(), exit_code: Exit::BadSetup.code(), reason, has_failed: false }
        }
    };
    // A container that is told to end is not held: the kubelet would wait in vain, and kill it.
    if let Some(file) = args.breakpoint.as_deref().filter(|_| verdict.has_failed && !was_told) {
        breakpoint::wait_for_release(file, verdict.command_code, &signals);
    }
    Ok(finish(&args, &place, &mut reporter, verdict, voice))
}

/// The command's side of one stream: a pipe where it is copied, else the container's own.
fn child_output(file: Option<&Path>, own: BorrowedFd<'static>) -> Result<(Option<Tee>, Stdio), Failure> {
    match file {
        Some(file) => Tee::new(own, file).map(|(tee, into)| (Some(tee), into.into())),
        None => Ok((None, Stdio::inherit())),
    }
}

/// Tells all who want to know, and ends as the command ended.
fn finish(
    args: &Entrypoint,
    place: &PodSources,
    reporter: &mut Reporter,
    verdict: Verdict,
    voice: &Messenger,
) -> ExitCode {
    let Verdict { command_code: code, exit_code: mut exit, mut reason, has_failed: _ } = verdict;
    if code != exit {
        warn!("{}", reason.take().unwrap_or_else(|| format!("the command exited with {code}")));
        warn!("exits with 0 all the same, as --on-error continue says");
    }
    if let Some(path) = &args.post_file
        && let Err(error) = post_file::write(path, exit == 0, code)
    {
        let why = format!("can't write the post file {}: {error}; those that wait for it wait in vain", path.display());
        if exit == 0 {
            (exit, reason) = (Exit::BadSetup.code(), Some(why));
        } else {
            warn!("{why}");
        }
    }
    reporter.report_exit(&place.view(), i32::from(exit));
    match reason {
        Some(reason) => voice.report_failure(Failure(exit, reason)),
        None => {
            info!(code = exit, "the command has ended");
            exit.into()
        }
    }
}

/// The command will not run: those that wait for its post file are told. Of what can be no post file there are none.
pub(super) fn report_never_ran(post_file: Option<&Path>, failed: &Failure) {
    if let Some(path) = post_file.filter(|path| post_file::validate_path(path).is_ok())
        && let Err(error) = post_file::write(path, false, failed.0)
    {
        warn!(%error, file = %path.display(), "can't write the post file");
    }
}
