//! Runs the command as a child process, with the duties of an init process, in one thread and one poll loop.

mod child;
mod dependencies;
mod supervise;

use crate::args::{EntrypointArgs, OnError};
use crate::check::{Checks, run_to_end};
use crate::clock::now;
use crate::common::messenger::Messenger;
use crate::common::report::Reporter;
use crate::entrypoint::exec::SIGNAL_BEFORE_EXEC;
use crate::failure::Failure;
use crate::pod_sources::PodSources;
use crate::signals;
use child::Child;
use dependencies::Dependencies;
use podgate::core::argv::Argv;
use podgate::core::exit::Exit;
use podgate::edge::files::replace;
use podgate::edge::lock::Tether;
use podgate::edge::sys::SignalFd;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use supervise::Supervisor;
use tracing::{info, warn};

/// Time limit for writing the post file, because the volume may not answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason why podgate has ended the command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EndReason {
    /// The command ran longer than this time limit.
    TimedOut(Duration),
    /// All containers of `--stop-after` have exited.
    AllExited,
    /// This container, which the gate waited for, was restarted.
    Restarted(String),
}

struct Verdict {
    /// Exit code of the command, or the code for podgate's reason to end the command.
    command_code: u8,
    exit_code: u8,
    /// Message, if podgate has ended the command because of a failure.
    reason: Option<String>,
}

/// Runs the command to its end. Returns an error if the command could not be started.
pub(super) fn run(
    args: EntrypointArgs,
    sources: PodSources,
    mut reporter: Reporter,
    // The tether is kept until this process ends or this function returns.
    _tether: Option<Tether>,
    messenger: &Messenger,
) -> Result<ExitCode, Failure> {
    let signals = SignalFd::block(&signals::for_parent()).map_err(Failure::setup_error("cannot receive signals"))?;
    // Adopt orphans, as the first process of a PID namespace does anyway.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let mut dependencies = Dependencies::new(&args);
    let view = sources.view();
    let done = dependencies.end_reason(&view, now()) == Some(EndReason::AllExited);
    while let Some(signal) = signals.next_signal() {
        if signals::ends_before_start(signal) {
            return Err(Failure::by_signal(signal, SIGNAL_BEFORE_EXEC));
        }
    }
    reporter.report_opened(Some(dependencies.watched_containers()));
    if done {
        info!("{} had already exited; not running the command", args.stop_after.join(", "));
        let verdict = Verdict { command_code: 0, exit_code: 0, reason: None };
        return Ok(finish(&args, &sources, &mut reporter, verdict, messenger));
    }
    let child = Child::spawn_starter(&args.command, args.stop_signal)?;
    let started = now();
    // The checks need the watch too: podgate must report their result again to a restarted sidecar.
    let needs_watch = !dependencies.watched_containers().is_empty() || !args.ready_check.is_empty();
    let mut supervisor = Supervisor {
        watch: (needs_watch && sources.has_source()).then(|| sources.watch()),
        checks: Checks::new(args.ready_check.clone(), args.waits.check_timeout, started)
            .like_probe_sequence(&args.times, started),
        next_read: started,
        has_warned: false,
        args: &args,
        sources: &sources,
        signals: &signals,
        reporter: &mut reporter,
        dependencies,
        child,
        started,
    };
    let ended = supervisor.run();
    let finished = supervisor.finish();
    let (code, why) = finished.inspect_err(|failed| reporter.report_exit(&view, i32::from(failed.0)))?;
    let verdict = match ended {
        Ok(()) => verdict_of(code, why.as_ref(), args.on_error),
        Err(error) => {
            let reason = Some(format!("cannot wait for the command: {error}"));
            Verdict { command_code: Exit::BadSetup.code(), exit_code: Exit::BadSetup.code(), reason }
        }
    };
    Ok(finish(&args, &sources, &mut reporter, verdict, messenger))
}

/// Derives podgate's exit code from the command's end and the flags.
fn verdict_of(code: u8, why: Option<&EndReason>, on_error: OnError) -> Verdict {
    let (code, reason) = match why {
        Some(EndReason::TimedOut(limit)) => {
            let limit = humantime::format_duration(*limit);
            (Exit::TimedOut.code(), Some(format!("--command-timeout: the command timed out after {limit}")))
        }
        Some(EndReason::AllExited) => (0, None),
        Some(EndReason::Restarted(container)) => (
            Exit::NeverMet.code(),
            Some(format!("{container} was restarted; ended the command so that this container restarts too")),
        ),
        None => (code, None),
    };
    // --on-error does not apply to a restart: the kubelet restarts this container only after a failure.
    let is_ignored = on_error == OnError::Continue && !matches!(why, Some(EndReason::Restarted(_)));
    Verdict { command_code: code, exit_code: if is_ignored { 0 } else { code }, reason }
}

/// Writes the post file, the report and the messages, and returns the exit code.
fn finish(
    args: &EntrypointArgs,
    sources: &PodSources,
    reporter: &mut Reporter,
    verdict: Verdict,
    messenger: &Messenger,
) -> ExitCode {
    let Verdict { command_code: code, exit_code: mut exit, mut reason } = verdict;
    if code != exit {
        warn!("{}", reason.take().unwrap_or_else(|| format!("the command exited with {code}")));
        warn!("exiting with 0 (--on-error=continue)");
    }
    if let Some(path) = &args.post_file
        && let Err(error) = write_post_file_in_child(path, exit == 0, code)
    {
        let why = format!(
            "cannot write the post file {}: {error}; containers that wait for it are not released",
            path.display()
        );
        if exit == 0 {
            (exit, reason) = (Exit::BadSetup.code(), Some(why));
        } else {
            warn!("{why}");
        }
    }
    reporter.report_exit(&sources.view(), i32::from(exit));
    match reason {
        Some(reason) => messenger.print_failure(Failure(exit, reason)),
        None => {
            info!(code = exit, "the command has exited");
            exit.into()
        }
    }
}

/// Writes the post file of a command that never ran, if its path is valid.
pub(super) fn write_never_ran_post_file(post_file: Option<&Path>, failed: &Failure) {
    if let Some(path) = post_file.filter(|path| validate_post_file_name(path).is_ok())
        && let Err(error) = write_post_file_in_child(path, false, failed.0)
    {
        warn!(%error, file = %path.display(), "cannot write the post file");
    }
}

/// Rejects an invalid path of `--post-file`, to which podgate writes the command's exit code, before the command runs.
pub(super) fn validate_post_file_name(path: &Path) -> Result<(), Failure> {
    match path.file_name().and(path.to_str()) {
        Some(text) if !text.ends_with('/') => Ok(()),
        _ => Err(Failure::new(Exit::BadSetup, format!("--post-file {}: not a file name", path.display()))),
    }
}

/// Writes the post file in a child process, because the volume may not answer. The error is a short description.
fn write_post_file_in_child(success_path: &Path, success: bool, command_code: u8) -> Result<(), String> {
    let (path, code) = (success_path.display().to_string(), command_code.to_string());
    let words = [crate::OWN_PROGRAM, "post-file"].into_iter().chain(success.then_some("--success"));
    let words = words.chain(["--", &path, &code]).map(str::to_owned);
    let argv = Argv::new(words.collect()).map_err(|error| error.to_string())?;
    run_to_end(&argv, WRITE_TIMEOUT, false)
}

/// Writes the post file, from which containers with `--check file://` learn how a command has ended: `command_code`,
/// atomically to `success_path`, or to `success_path.err` on failure. Then removes the other file, if one is left.
pub(crate) fn write_post_file(success_path: &Path, success: bool, command_code: u8) -> Result<(), Failure> {
    let failed = success_path.with_added_extension("err");
    let (this, other) = if success { (success_path, failed.as_path()) } else { (failed.as_path(), success_path) };
    let written = || -> io::Result<()> {
        let name = this.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidFilename)?;
        let directory = this.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        replace(directory, name, format!("{command_code}\n").as_bytes(), 0o644).map(drop)
    };
    written().map_err(|error| Failure::new(Exit::BadSetup, error.to_string()))?;
    let _ = std::fs::remove_file(other);
    Ok(())
}
