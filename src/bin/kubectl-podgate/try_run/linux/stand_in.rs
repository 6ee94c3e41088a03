//! `kubectl podgate stand-in`: plays a container. The stand-in answers probes, and exits as its role says.

use super::now_ms;
use crate::error::CommandResult;
use crate::output::print_error;
use crate::try_run::StandInArgs;
use podgate::core::exit::Exit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Part that a stand-in plays, passed as JSON. Times are in milliseconds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct StandInBehavior {
    /// Command of podgate that this process runs instead: a gate, a hook or the sidecar. Like a stand-in, the command
    /// ends with the process that started it.
    pub(super) command: Vec<String>,
    /// Port on which the stand-in answers HTTP requests: 503 until Ready, then 200.
    pub(super) port: Option<u16>,
    /// Time until Ready; `None` for never.
    pub(super) ready_ms: Option<u64>,
    /// Time until the stand-in exits with [`CRASH_EXIT_CODE`].
    pub(super) crash_ms: Option<u64>,
    /// Time between Ready and the stand-in's exit with 0.
    pub(super) exit_ms: Option<u64>,
}

/// Exit code after the fault `crash`. Neither a gate nor another fault has this code.
pub(super) const CRASH_EXIT_CODE: u8 = 1;
const PORT_CODE: u8 = 71;

/// First character of a line that the stand-in writes for `try`, followed by an event and its time.
const EVENT_MARK: char = '\u{1f}';

/// What a stand-in reports to `try`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandInEvent {
    /// The command has started.
    Starts,
    /// The stand-in begins to pass its probes.
    Passes,
}

/// Returns the event in a stand-in's line, and the event's time.
pub(super) fn parse_event(line: &str) -> Option<(StandInEvent, i64)> {
    let (word, at) = line.strip_prefix(EVENT_MARK)?.split_once(' ')?;
    Some((if word == "ready" { StandInEvent::Passes } else { StandInEvent::Starts }, at.parse().ok()?))
}

fn write_event(word: &str) {
    // Ignore an error: a failed write means that `try` has ended. The kernel then kills this process.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{EVENT_MARK}{word} {}", now_ms()).and_then(|()| out.flush());
}

/// Makes the kernel kill this process when the main thread of `try`, which has started this process, ends. Returns
/// false if `try` ended before this call. The kernel then sends no signal, so the function checks whether standard
/// output still has a reader.
fn end_with_parent() -> bool {
    let is_set = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    let out = std::io::stdout();
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    let is_known = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok();
    is_set && is_known && !polled[0].revents().contains(PollFlags::ERR)
}

pub(crate) fn run(args: &StandInArgs) -> CommandResult {
    let role: StandInBehavior = serde_json::from_str(&args.part)
        .map_err(|error| format!("stand-in is an internal command of `try`: {error}"))?;
    // `exec` keeps this setting, so when `try` ends, the kernel also kills the command below.
    if !end_with_parent() {
        return Err("stand-in is an internal command of kubectl podgate try, which has ended".into());
    }
    if let Some((program, arguments)) = role.command.split_first() {
        let error = Command::new(program).args(arguments).exec();
        print_error(&format!("{program}: {error}").into());
        return Ok(Exit::CannotExecute.into());
    }
    write_event("started");
    if role.crash_ms.is_some() {
        std::thread::spawn(move || {
            sleep(role.crash_ms);
            crash(CRASH_EXIT_CODE, "exiting with 1 (--break)");
        });
    }
    let is_ready = Arc::new(AtomicBool::new(false));
    role.port.into_iter().for_each(|port| listen(port, &is_ready));
    sleep(role.ready_ms);
    // Write the event before a probe can succeed, because containers that wait for this one must start after it.
    write_event("ready");
    is_ready.store(true, Ordering::SeqCst);
    sleep(role.exit_ms);
    Ok(ExitCode::SUCCESS)
}

/// Sleeps for this many milliseconds, or forever.
fn sleep(ms: Option<u64>) {
    std::thread::sleep(ms.map_or(Duration::MAX, Duration::from_millis));
}

/// Prints a message, and ends the process from any thread.
#[expect(clippy::disallowed_methods, reason = "only exit ends the process from a thread")]
fn crash(code: u8, message: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "stand-in: {message}");
    std::process::exit(code.into())
}

/// Listens on a local port in a thread of its own.
fn listen(port: u16, is_ready: &Arc<AtomicBool>) {
    let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(listener) => listener,
        Err(error) => crash(PORT_CODE, &format!("port {port}: {error}")),
    };
    let is_ready = Arc::clone(is_ready);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, is_ready.load(Ordering::SeqCst));
        }
    });
}

/// Answers one HTTP request: 200 if the container is Ready, otherwise 503.
fn answer(mut stream: TcpStream, is_ready: bool) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    // A probe's request fits into one read.
    let _ = stream.read(&mut [0; 4096])?;
    let status = if is_ready { "200 OK" } else { "503 Service Unavailable" };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
