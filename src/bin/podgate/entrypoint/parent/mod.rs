//! Staying as the command's parent: a good init for it, in one thread and one poll loop.

mod breakpoint;
mod child;
mod follow;
mod post_file;
mod supervise;
mod tee;
mod verdict;

use crate::args::Entrypoint;
use crate::clock::now;
use crate::entrypoint::exec::JUST_BEFORE;
use crate::failed::Failed;
use crate::gate::place::Place;
use crate::gate::report::Reporter;
use crate::gate::voice::Voice;
use child::Child;
use follow::Follow;
use podgate::core::argv::Check;
use podgate::core::exit::Exit;
use podgate::edge::sys::Signals;
use podgate::edge::tether::Tether;
use rustix::stdio;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use supervise::Supervisor;
use tee::Tee;
use tracing::{info, warn};
use verdict::{Verdict, Why};

/// What can be found wrong before the wait.
pub(super) fn vet(args: &Entrypoint, place: &Place) -> Result<(), Failed> {
    args.post_file.as_deref().map_or(Ok(()), post_file::vet)?;
    if args.stop_after.is_empty() {
        return Ok(());
    }
    place.must_serve("nothing says when --stop-after's container has exited", "")
}

/// Runs the command to its end; `own_checks` are those of this container itself. Returns an error where it could not be started.
pub(super) fn run(
    args: Entrypoint,
    own_checks: Vec<Check>,
    place: Place,
    mut reporter: Reporter,
    // Let go of by this process's end, or on an early return.
    _tether: Option<Tether>,
    voice: &Voice,
) -> Result<ExitCode, Failed> {
    let signals = Signals::block(&child::forwarded()).map_err(Failed::set_up("can't take signals"))?;
    // The first process of a PID namespace gets all orphans anyway.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let (out, stdout) = copied(args.stdout.as_deref(), stdio::stdout())?;
    let (err, stderr) = copied(args.stderr.as_deref(), stdio::stderr())?;

    let mut follow = Follow::new(&args);
    let view = place.view();
    let done = follow.look(&view, now()) == Some(Why::Done);
    while let Some(signal) = signals.next() {
        if child::tells_to_end(signal) {
            return Err(Failed::by_signal(signal, JUST_BEFORE));
        }
    }
    reporter.opened(follow.watched());
    if done {
        info!("{} had exited before; the command is not run", args.stop_after.join(", "));
        let verdict = Verdict { code: 0, exit: 0, reason: None, failed: false };
        return Ok(finish(&args, &place, &mut reporter, verdict, voice));
    }
    let child =
        Child::start(&args.command, stdout, stderr).inspect_err(|failed| reporter.ended(&view, i32::from(failed.0)))?;
    let tees = [out, err].into_iter().flatten().collect();
    let mut supervisor = Supervisor::new(&args, &place, &signals, &mut reporter, follow, child, tees, own_checks);
    let ended = supervisor.run();
    let (code, why, was_told) = supervisor.finish();
    let verdict = match ended {
        Ok(()) => verdict::judge(code, why.as_ref(), args.exit_code, args.on_error),
        Err(error) => {
            let reason = Some(format!("can't wait for the command: {error}"));
            Verdict { code: Exit::SetUp.code(), exit: Exit::SetUp.code(), reason, failed: false }
        }
    };
    // A container that is told to end is not held: the kubelet would wait in vain, and kill it.
    if let Some(file) = args.breakpoint.as_deref().filter(|_| verdict.failed && !was_told) {
        breakpoint::hold(file, verdict.code, &signals);
    }
    Ok(finish(&args, &place, &mut reporter, verdict, voice))
}

/// The command's side of one stream: a pipe where it is copied, else the container's own.
fn copied(file: Option<&Path>, own: BorrowedFd<'static>) -> Result<(Option<Tee>, Stdio), Failed> {
    match file {
        Some(file) => Tee::new(own, file).map(|(tee, into)| (Some(tee), into.into())),
        None => Ok((None, Stdio::inherit())),
    }
}

/// Tells all who want to know, and ends as the command ended.
fn finish(args: &Entrypoint, place: &Place, reporter: &mut Reporter, verdict: Verdict, voice: &Voice) -> ExitCode {
    let Verdict { code, mut exit, mut reason, failed: _ } = verdict;
    if code != exit {
        warn!("{}", reason.take().unwrap_or_else(|| format!("the command exited with {code}")));
        warn!("exits with 0 all the same, as --on-error continue says");
    }
    if let Some(path) = &args.post_file
        && let Err(error) = post_file::write(path, exit == 0, code)
    {
        let why = format!("can't write the post file {}: {error}; those that wait for it wait in vain", path.display());
        if exit == 0 {
            (exit, reason) = (Exit::SetUp.code(), Some(why));
        } else {
            warn!("{why}");
        }
    }
    reporter.ended(&place.view(), i32::from(exit));
    match reason {
        Some(reason) => voice.fails(Failed(exit, reason)),
        None => {
            info!(code = exit, "the command has ended");
            exit.into()
        }
    }
}

/// The command will not run: those that wait for its post file are told. Of what can be no post file there are none.
pub(super) fn never_ran(post_file: Option<&Path>, failed: &Failed) {
    if let Some(path) = post_file.filter(|path| post_file::vet(path).is_ok())
        && let Err(error) = post_file::write(path, false, failed.0)
    {
        warn!(%error, file = %path.display(), "can't write the post file");
    }
}
