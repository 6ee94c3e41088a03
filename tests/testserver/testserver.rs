//! The program in the containers of podgate's tests: a server that listens and becomes ready when it is told to, and says when
//! it did.
//!
//! Its first line, `{"event":"start","ms":…}`, is the container's first instruction; then `listening`, `ready`, `term`, `exit`.
//! A `ready` line bears a time from before the moment at which anybody could have seen it ready.
#![deny(unsafe_code)]

mod event;
mod hostile;
mod inherited;
mod serve;

use clap::{Parser, Subcommand};
use event::Moment;
use inotify::{Inotify, WatchMask};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// A server for tests of the start order: ready when it is told to be, and it says when it was.
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
    /// An exec probe: succeeds if FILE is there, or, for tcp://HOST:PORT, if it accepts a connection
    Check { target: String },
    /// A wrapper as people write them: waits by inotify for FILE, then becomes the server with the arguments given
    Await { file: PathBuf, arguments: Vec<String> },
    /// A user's own hook: writes a line with EVENT into the container's log
    Say {
        event: String,
        /// Then exit with this code
        #[arg(long, default_value_t = 0)]
        exit_code: u8,
    },
}

#[derive(Debug, clap::Args)]
struct Server {
    /// Answer HTTP here: 200 when ready, 503 before
    #[arg(long, value_name = "PORT")]
    http: Option<u16>,
    /// Accept connections here
    #[arg(long, value_name = "PORT")]
    tcp: Option<u16>,
    /// Answer grpc.health.v1 here: SERVING when ready, NOT_SERVING before
    #[arg(long, value_name = "PORT")]
    grpc: Option<u16>,
    /// Make this file when ready, for exec probes; taken away at the start
    #[arg(long, value_name = "FILE")]
    touch: Option<PathBuf>,
    /// Listen only after this long
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    listen_after: Duration,
    /// Be ready only after this long, from the start
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    ready_after: Duration,
    /// Be ready only when USR2 has come, too; it may come once it has said "listening"
    #[arg(long)]
    ready_on_signal: bool,
    /// Exit after this long, from the start
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    exit_after: Option<Duration>,
    /// Exit only if this file is not there yet, and make it: so once, if it is on a volume
    #[arg(long, value_name = "FILE", requires = "exit_after")]
    exit_once: Option<PathBuf>,
    /// What to exit with after --exit-after, and on USR1
    #[arg(long, value_name = "CODE", default_value_t = 0)]
    exit_code: u8,
    /// First close all descriptors but the three that everybody has, as some daemons do
    #[arg(long)]
    close_inherited: bool,
    /// Go on after TERM
    #[arg(long)]
    ignore_term: bool,
    /// Do harm to the neighbours, as far as one container can: bell, fill, links, lies; repeatable
    #[arg(long, value_name = "WHAT")]
    hostile: Vec<hostile::What>,
}

fn main() -> ExitCode {
    let born = Moment::now();
    let Args { command, server } = Args::parse();
    match command {
        Some(Command::Check { target }) => match look(&target) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
        Some(Command::Await { file, arguments }) => {
            let error = await_file(&file)
                .err()
                .unwrap_or_else(|| std::process::Command::new("/proc/self/exe").args(arguments).exec());
            eprintln!("testserver: {}: {error}", file.display());
            ExitCode::FAILURE
        }
        Some(Command::Say { event, exit_code }) => match born.say_to_container(&event) {
            Ok(()) => exit_code.into(),
            Err(error) => {
                eprintln!("testserver: can't write into the container's log: {error}");
                ExitCode::FAILURE
            }
        },
        None => {
            if server.close_inherited {
                inherited::close();
            }
            born.say("start", "");
            for what in &server.hostile {
                let what = *what;
                std::thread::spawn(move || hostile::run(what));
            }
            serve::run(server)
        }
    }
}

fn await_file(file: &Path) -> std::io::Result<()> {
    let mut inotify = Inotify::init()?;
    inotify.watches().add(file.parent().unwrap_or(Path::new("/")), WatchMask::CREATE | WatchMask::MOVED_TO)?;
    while !file.exists() {
        inotify.read_events_blocking(&mut [0; 1024])?;
    }
    Ok(())
}

fn look(target: &str) -> bool {
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
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn an_exec_probe_looks_for_a_file_or_a_listener() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        assert!(look(&format!("tcp://{address}")));
        drop(listener);
        assert!(!look(&format!("tcp://{address}")));
        assert!(look("/proc/self"));
        assert!(!look("/nonexistent"));
    }
}
