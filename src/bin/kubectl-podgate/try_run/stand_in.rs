//! `kubectl podgate stand-in`: plays a container. It opens ports, answers probes, and exits as its flags say.

use super::args::StandIn;
use super::{guard, now_ms};
use crate::output::fail;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// First character of a line that the stand-in writes for `try`, followed by an event and its time.
pub(super) const EVENT_MARK: char = '\u{1f}';
const STARTED: &str = "started";
const READY: &str = "ready";

/// An event that a stand-in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandInEvent {
    /// The container's own command starts. Time in milliseconds since 1970.
    Started(i64),
    /// The stand-in begins to pass its probes.
    Ready(i64),
}

pub(super) fn parse_event(line: &str) -> Option<StandInEvent> {
    let (word, at) = line.strip_prefix(EVENT_MARK)?.split_once(' ')?;
    let at = at.trim().parse().ok()?;
    match word {
        STARTED => Some(StandInEvent::Started(at)),
        READY => Some(StandInEvent::Ready(at)),
        _ => None,
    }
}

fn write_event(word: &str) {
    // A failed write means that `try` has gone. Its guard then kills this process.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{EVENT_MARK}{word} {}", now_ms()).and_then(|()| out.flush());
}

pub(super) fn run(args: &StandIn) -> ExitCode {
    if let Some(scratch) = &args.guard {
        return guard::run(scratch);
    }
    // The setting survives the start of the container's own command below.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    write_event(STARTED);
    if let Some((program, arguments)) = args.command.split_first() {
        let error = Command::new(program).args(arguments).exec();
        fail(&format!("{}: {error}", program.display()));
        let is_missing = error.kind() == std::io::ErrorKind::NotFound;
        return ExitCode::from(if is_missing { 127 } else { 126 });
    }
    if let Some(ms) = args.crash_ms {
        std::thread::spawn(move || {
            sleep(ms);
            crash(&format!("exits with 1 after {ms} ms, as --break says"));
        });
    }
    let is_ready = Arc::new(AtomicBool::new(false));
    if let Some(file) = &args.ready_file {
        let _ = std::fs::remove_file(file);
    }
    for port in &args.http {
        listen(*port, &is_ready, true);
    }
    let Some(ms) = args.ready_ms else { wait_forever() };
    sleep(ms);
    // The event precedes the first probe that can succeed, so that no container can start between the two.
    write_event(READY);
    is_ready.store(true, Ordering::SeqCst);
    for port in &args.port {
        listen(*port, &is_ready, false);
    }
    if let Some(file) = &args.ready_file
        && let Err(error) = std::fs::write(file, "")
    {
        return fail(&format!("{}: {error}", file.display()));
    }
    let Some(ms) = args.exit_ms else { wait_forever() };
    sleep(ms);
    ExitCode::SUCCESS
}

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn wait_forever() -> ! {
    loop {
        std::thread::park();
    }
}

/// Prints a message, and ends the process with exit code 1 from any thread.
#[allow(clippy::disallowed_methods, reason = "only exit ends the process from a thread")]
fn crash(message: &str) -> ! {
    fail(message);
    std::process::exit(1)
}

/// Listens on a local port in a thread of its own.
fn listen(port: u16, is_ready: &Arc<AtomicBool>, is_http: bool) {
    let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(listener) => listener,
        Err(error) => crash(&format!("port {port}: {error}")),
    };
    let is_ready = Arc::clone(is_ready);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if is_http {
                let _ = answer(stream, is_ready.load(Ordering::SeqCst));
            }
        }
    });
}

/// Answers one HTTP request: 200 if the container is Ready, otherwise 503.
fn answer(mut stream: TcpStream, is_ready: bool) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") && request.len() < 64 * 1024 {
        match stream.read(&mut part)? {
            0 => break,
            length => request.extend_from_slice(&part[..length]),
        }
    }
    let status = if is_ready { "200 OK" } else { "503 Service Unavailable" };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed() {
        assert_eq!(parse_event("\u{1f}started 17\n"), Some(StandInEvent::Started(17)));
        assert_eq!(parse_event("\u{1f}ready 18"), Some(StandInEvent::Ready(18)));
        for line in ["started 17", "\u{1f}started", "\u{1f}started x", "\u{1f}over 1", ""] {
            assert_eq!(parse_event(line), None, "{line:?}");
        }
    }
}
