//! The program in the containers of podgate's tests: a server that listens and becomes ready at set times, and logs
//! these events.
//!
//! The first line of the log, `{"event":"start","ms":…}`, has the time of the container's first instruction. Then come
//! `listening`, `ready`, `term` and `exit`. The time of `ready` is taken just before a probe could find the server
//! ready.
#![deny(unsafe_code)]

mod event;
mod hostile;
mod inherited;
mod poll;
mod serve;

use clap::{Parser, Subcommand};
use event::Moment;
use inotify::{Inotify, WatchMask};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// A server for tests of the start order: becomes ready at a set time and logs when it did
#[derive(Debug, Parser)]
#[command(name = "testserver", args_conflicts_with_subcommands = true, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Act as an exec probe: succeed if the file TARGET exists, or if tcp://HOST:PORT accepts a connection
    Check { target: String },
    /// Act as a wrapper script: wait for FILE by inotify, then become the server with ARGUMENTS
    Await { file: PathBuf, arguments: Vec<String> },
    /// Act as a hook or wrapper script: poll each --address by HTTP until it is ready, then become the server with
    /// ARGUMENTS, if there are any
    Poll {
        #[arg(long, value_name = "IP:PORT", required = true)]
        address: Vec<SocketAddr>,
        /// Fail after this long
        #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
        timeout: Option<Duration>,
        arguments: Vec<String>,
    },
    /// Act as a user's own hook: write a line with EVENT to the container's log
    Say {
        event: String,
        /// Exit with this code afterwards
        #[arg(long, default_value_t = 0)]
        exit_code: u8,
    },
}

podgate::words! {
    /// Value of `--before-ready`.
    BeforeReady {
        /// Status 503.
        Unavailable = "unavailable",
        /// No answer until the server is ready.
        Silent = "silent",
    }
}

#[derive(Debug, clap::Args)]
struct Server {
    /// Serve HTTP on this port: 200 when ready, 503 before
    #[arg(long, value_name = "PORT")]
    http: Option<u16>,
    /// Listen only on this address, and serve HTTP only for this host; redirect /health to /health/
    #[arg(long, value_name = "IP")]
    only_at: Option<IpAddr>,
    /// Answer HTTP requests before it is ready by this: unavailable or silent
    #[arg(long, value_name = "ANSWER", default_value = "unavailable")]
    before_ready: BeforeReady,
    /// Accept connections on this port
    #[arg(long, value_name = "PORT")]
    tcp: Option<u16>,
    /// Serve grpc.health.v1 on this port: SERVING when ready, NOT_SERVING before
    #[arg(long, value_name = "PORT")]
    grpc: Option<u16>,
    /// Create this file when ready, for exec probes; remove it at the start
    #[arg(long, value_name = "FILE")]
    touch: Option<PathBuf>,
    /// Accept connections on this Unix socket when ready; remove it at the start
    #[arg(long, value_name = "FILE")]
    unix: Option<PathBuf>,
    /// Listen only after this long
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    listen_after: Duration,
    /// Become ready only after this long, from the start
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    ready_after: Duration,
    /// Answer each HTTP request only after this long
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    answer_after: Duration,
    /// Become ready only after SIGUSR2 too; send it after the event "listening"
    #[arg(long)]
    ready_on_signal: bool,
    /// Exit after this long, from the start
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    exit_after: Option<Duration>,
    /// Exit only once: skip the exit if FILE exists, otherwise create FILE (on a volume)
    #[arg(long, value_name = "FILE", requires = "exit_after")]
    exit_once: Option<PathBuf>,
    /// Exit code after --exit-after, on SIGUSR1, and by HTTP on POST /quitquitquit
    #[arg(long, value_name = "CODE", default_value_t = 0)]
    exit_code: u8,
    /// First close all inherited descriptors except 0, 1 and 2, as some daemons do
    #[arg(long)]
    close_inherited: bool,
    /// Keep running after SIGTERM
    #[arg(long)]
    ignore_term: bool,
    /// Exit only this long after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    term_delay: Duration,
    /// Attack the other containers: bell, fill, links, lies, locks; repeatable
    #[arg(long, value_name = "ATTACK")]
    hostile: Vec<hostile::Attack>,
}

fn main() -> ExitCode {
    let start = Moment::now();
    let Args { command, server } = Args::parse();
    match command {
        Some(Command::Check { target }) => match check(&target) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
        Some(Command::Await { file, arguments }) => match await_file(&file) {
            Ok(()) => become_server(&arguments),
            Err(error) => fail(&format!("{}: {error}", file.display())),
        },
        Some(Command::Poll { address, timeout, arguments }) => match poll::wait(&address, timeout) {
            true if arguments.is_empty() => ExitCode::SUCCESS,
            true => become_server(&arguments),
            false => fail("timed out"),
        },
        Some(Command::Say { event, exit_code }) => match start.log_to_container(&event) {
            Ok(()) => exit_code.into(),
            Err(error) => fail(&format!("cannot write to the container's log: {error}")),
        },
        None => {
            if server.close_inherited {
                inherited::close();
            }
            start.log("start", "");
            for attack in &server.hostile {
                let attack = *attack;
                std::thread::spawn(move || hostile::run(attack));
            }
            serve::run(server)
        }
    }
}

/// Replaces this process by the server with `arguments`. Returns only if this fails.
fn become_server(arguments: &[String]) -> ExitCode {
    let error = std::process::Command::new("/proc/self/exe").args(arguments).exec();
    fail(&format!("cannot start the server: {error}"))
}

fn fail(message: &str) -> ExitCode {
    eprintln!("testserver: {message}");
    ExitCode::FAILURE
}

fn await_file(file: &Path) -> std::io::Result<()> {
    let mut inotify = Inotify::init()?;
    inotify.watches().add(file.parent().unwrap_or(Path::new("/")), WatchMask::CREATE | WatchMask::MOVED_TO)?;
    while !file.exists() {
        inotify.read_events_blocking(&mut [0; 1024])?;
    }
    Ok(())
}

fn check(target: &str) -> bool {
    match target.strip_prefix("tcp://") {
        Some(address) => TcpStream::connect(address).is_ok(),
        None => PathBuf::from(target).exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn check_finds_a_file_or_a_listener() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        assert!(check(&format!("tcp://{address}")));
        drop(listener);
        assert!(!check(&format!("tcp://{address}")));
        assert!(check("/proc/self"));
        assert!(!check("/nonexistent"));
    }
}
