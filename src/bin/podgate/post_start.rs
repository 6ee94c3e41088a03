//! `podgate post-start`: a container's postStart hook, which returns when the container is Ready.

use crate::args::{OnTimeout, PostStart};
use crate::check::Checks;
use crate::clock::now;
use crate::explain;
use crate::report::Reporter;
use crate::then::{self, Failure};
use crate::wait::{Outcome, Wait};
use podgate::core::exit::Exit;
use podgate::core::gate::{Ending, Terms};
use podgate::core::sources::{View, choose};
use podgate::core::until::{Until, Want};
use podgate::edge::log::{self, Target};
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::source;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// Why the hook fails: its exit code, and what to say.
struct Failed(u8, String);

pub(crate) fn run(args: PostStart) -> ExitCode {
    let (container, termination_log) = (args.container.clone(), args.termination_log.clone());
    let log_error = start_log(&args);
    match hook(args) {
        Ok(()) => {
            explain::clear_termination_message(&termination_log);
            ExitCode::SUCCESS
        }
        Err(Failed(code, why)) => {
            let note = log_error.map(|error| format!(" (no log: {error})")).unwrap_or_default();
            let line = explain::one_line(&format!("podgate post-start: {container}: {why}{note}"));
            error!(code, "{line}");
            explain::termination_message(&termination_log, &line);
            explain::say(&line);
            code.into()
        }
    }
}

fn hook(args: PostStart) -> Result<(), Failed> {
    let PostStart {
        container,
        until,
        check,
        fallback_check,
        check_timeout,
        podinfo,
        board,
        own,
        timeout,
        on_timeout,
        poll_interval,
        fail_fast,
        then,
        termination_log,
        log_format: _,
        log_to: _,
    } = args;
    let since = now();
    let deadline = since + timeout;
    let sandbox = sandbox_id();
    let has_source = board.is_dir() || podinfo.is_dir();
    let untils = conditions(&container, until, check.is_empty() || has_source);
    if !untils.is_empty() && !has_source {
        let (board, podinfo) = (board.display(), podinfo.display());
        return Err(Failed(
            Exit::SetUp.code(),
            format!(
                "nothing to read from: neither the board {board} nor the downward-API volume {podinfo} is there; mount them, or give --check"
            ),
        ));
    }
    for other in untils.iter().filter(|until| until.container != container) {
        warn!(until = %other, "waits for another container, though this one runs already: its hook holds back only what comes after it");
    }

    let wait = Wait {
        terms: Terms { hook_of: Some(&container), untils: &untils, fail_fast },
        sandbox: &sandbox,
        board: &board,
        podinfo: &podinfo,
        poll_interval,
        since,
        deadline,
    };
    let mut reporter = Reporter::new(own, &container, sandbox.clone(), &untils);
    if let Some(command) = &then {
        // The container runs, whatever time its own command takes.
        if let View::Word(snapshot, _) = choose(&sandbox, source::board(&board), source::volume(&podinfo)) {
            reporter.tell(&snapshot, false);
        }
        run_then(command, deadline)?;
    }
    let checks = Checks::new(check, check_timeout, since);
    let fallback = Checks::new(fallback_check, check_timeout, since);
    let outcome = wait.run(checks, fallback, &mut reporter, |reason| {
        let line = format!("podgate post-start: {container}: waits for {}", reason.join("; "));
        info!("{line}");
        explain::termination_message(&termination_log, &explain::one_line(&line));
    });
    finish(outcome, on_timeout, timeout, since)
}

/// By default the container itself, unless checks alone are to decide.
fn conditions(container: &str, given: Vec<Until>, by_default: bool) -> Vec<Until> {
    if given.is_empty() && by_default {
        vec![Until { container: container.to_owned(), want: Want::Ready }]
    } else {
        given
    }
}

fn run_then(command: &podgate::core::argv::Argv, deadline: Instant) -> Result<(), Failed> {
    let (code, why) = match then::run(command, deadline) {
        Ok(()) => return Ok(()),
        Err(Failure::Start(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            (Exit::NotFound.code(), format!("was not found: {error}"))
        }
        Err(Failure::Start(error)) => (Exit::CannotExecute.code(), format!("can't be executed: {error}")),
        Err(Failure::Late) => (Exit::TimedOut.code(), "was still running at the time limit, and was ended".to_owned()),
        Err(Failure::Exit(code, output)) => (code, format!("exited with {code}: {output}")),
    };
    Err(Failed(code, format!("the container's own postStart command {command} {why}")))
}

fn finish(outcome: Outcome, on_timeout: OnTimeout, timeout: Duration, since: Instant) -> Result<(), Failed> {
    let waited = now().saturating_duration_since(since);
    let (exit, why) = match outcome {
        Outcome::Open(opening) => {
            info!(waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX), "released: {opening}");
            return Ok(());
        }
        Outcome::TimedOut(reason) => {
            let limit = humantime::format_duration(timeout);
            (Exit::TimedOut, format!("timed out after {limit}, still waiting for {}", reason.join("; ")))
        }
        Outcome::Over(ending @ Ending::NoSuchContainer(_)) => (Exit::SetUp, ending.to_string()),
        Outcome::Over(ending) => (Exit::Never, ending.to_string()),
        Outcome::Broken(error) => (Exit::SetUp, format!("can't wait: {error}")),
    };
    // What the user said of a time-out holds for every end of the wait that is not a mistake in the set-up.
    if on_timeout == OnTimeout::Continue && exit != Exit::SetUp {
        warn!("{why}; goes on, as --on-timeout continue says");
        return Ok(());
    }
    Err(Failed(exit.code(), why))
}

/// Starts logging, if a place for it is named. A log that can't be opened is no reason not to wait.
fn start_log(args: &PostStart) -> Option<String> {
    let path = args.log_to.as_deref()?;
    match open_log(path) {
        Ok(file) => {
            log::init(args.log_format, tracing::Level::INFO, Target::File(file));
            None
        }
        Err(error) => Some(format!("{}: {error}", path.display())),
    }
}

fn open_log(path: &Path) -> std::io::Result<File> {
    // Non-blocking: nobody may be reading the other end.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?.into())
}
