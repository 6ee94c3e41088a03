//! The agent: a small static binary that runs in the user's containers, without threads, API client or TLS.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod args;
mod check;
mod common;
mod entrypoint;
mod failure;
mod opened;
mod output;
mod pod_sources;
mod post_start;
mod pre_stop;
mod predecessors;
mod probe;
mod signals;
mod tether_process;

use failure::Failure;
use podgate::clock;
use podgate::command_line;
use podgate::core::exit::Exit;
use podgate::core::names;
use podgate::edge::files;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Path of this program, for child processes that run a subcommand.
const OWN_PROGRAM: &str = "/proc/self/exe";

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let command = match command_line::parse::<args::Args>(&words) {
        Ok(args) => args.command,
        Err(error) => return args::print_error(&error, &words).into(),
    };
    let (name, outcome) = match command {
        args::Command::PostStart(args) => return post_start::run(*args),
        args::Command::Entrypoint(args) => return entrypoint::run(*args),
        args::Command::PreStop(args) => return pre_stop::run(*args),
        args::Command::Tether => tether_process::keep_inherited_tether(),
        args::Command::Exec { failure_to, command } => {
            let outcome = entrypoint::exec::replace_process(&command, failure_to);
            // The parent reports the failure.
            if let (Some(_), Err(Failure(code, _))) = (failure_to, &outcome) {
                return (*code).into();
            }
            ("exec", outcome)
        }
        args::Command::PostFile { path, code, success } => {
            ("post-file", entrypoint::parent::write_post_file(&path, success, code))
        }
        args::Command::Opened(args) => ("opened", opened::run(args)),
        args::Command::Probe(args) => ("probe", probe::run(args)),
        args::Command::Install { dir } => ("install", install_into(&dir)),
        args::Command::Check(args) => ("check", check::run(&args)),
        args::Command::Sleep { duration } => {
            std::thread::sleep(duration);
            return ExitCode::SUCCESS;
        }
        args::Command::Version => {
            let _ = writeln!(std::io::stdout(), "podgate {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // If the command runs as a probe, the kubelet shows this text in the probe's event.
        Err(Failure(code, why)) => {
            if !why.is_empty() {
                output::print_stderr(&output::short_line(&format!("podgate {name}: {why}")));
            }
            code.into()
        }
    }
}

fn install_into(directory: &Path) -> Result<(), Failure> {
    let install = || files::install(&std::fs::read(OWN_PROGRAM)?, directory, names::AGENT_FILE);
    install().map(drop).map_err(|error| {
        let why = format!("{}: {error}; use a directory that this user can write", directory.display());
        Failure::new(Exit::BadSetup, why)
    })
}
