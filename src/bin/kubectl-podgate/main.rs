//! `kubectl podgate`: the user's tool.
#![forbid(unsafe_code)]

mod api;
mod args;
mod clock;
#[allow(dead_code, reason = "its readers are on their way")]
mod manifest;
mod pod;
mod runtime;
mod status;
mod webhook;

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = match args::Args::try_parse() {
        Ok(args) => args.command,
        Err(error) => return args::refuse(&error).into(),
    };
    match command {
        args::Command::Status(args) => status::run(&args),
        args::Command::Webhook(args) => webhook::run(&args),
        args::Command::Version => match writeln!(std::io::stdout(), "kubectl-podgate {}", env!("CARGO_PKG_VERSION")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("can't write: {error}")),
        },
    }
}

/// One line on what went wrong.
fn fail(what: &str) -> ExitCode {
    // Nobody is left to tell when this fails too.
    let _ = writeln!(std::io::stderr(), "kubectl podgate: {what}");
    ExitCode::FAILURE
}
