//! The agent: one tiny static binary that runs in the user's containers. No runtime, no thread, no API client, no TLS.
#![forbid(unsafe_code)]

mod args;
mod check;
mod clock;
mod entrypoint;
mod gate;
mod install;
mod opened;
mod post_start;
mod stop;
mod tether_process;

use podgate::core::exit::Exit;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = match args::parse() {
        Ok(args) => args.command,
        Err(error) => return args::refuse(&error).into(),
    };
    let exit = match command {
        args::Command::PostStart(args) => return post_start::run(*args),
        args::Command::Entrypoint(args) => return entrypoint::run(*args),
        args::Command::PreStop(args) => return stop::run(*args),
        args::Command::Hold => return tether_process::run(),
        args::Command::Opened(args) => opened::run(&args),
        args::Command::Install(args) => install::run(&args),
        args::Command::Check(args) => check::run(&args),
        args::Command::Sleep(args) => {
            std::thread::sleep(args.duration);
            Exit::Released
        }
        args::Command::Version => {
            let _ = writeln!(std::io::stdout(), "podgate {}", env!("CARGO_PKG_VERSION"));
            Exit::Released
        }
    };
    exit.into()
}
