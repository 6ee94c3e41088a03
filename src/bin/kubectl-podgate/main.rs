//! `kubectl podgate`: the user's tool.
#![forbid(unsafe_code)]

mod api;
mod args;
mod check;
mod clock;
mod completion;
mod follow;
mod inject;
mod manifest;
mod output;
mod overrides;
mod pod;
mod registry;
mod runtime;
mod status;
mod terminal;
mod timeline;
mod webhook;

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

/// musl's own is several times slower where much is allocated, as in every copy of a manifest.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    if let Some(words) = completion::asked() {
        return completion::answer(words);
    }
    let command = match args::Args::try_parse() {
        Ok(args) => args.command,
        Err(error) => return args::refuse(&error).into(),
    };
    match command {
        args::Command::Check(args) => check::run(&args),
        args::Command::Completion(args) => completion::script(&args),
        args::Command::Inject(args) => inject::inject(&args),
        args::Command::Man(args) => completion::man(&args),
        args::Command::Override(args) => overrides::run(&args),
        args::Command::Status(args) => status::run(&args),
        args::Command::Timeline(args) => timeline::run(&args),
        args::Command::Uninject(args) => inject::uninject(&args),
        args::Command::Webhook(args) => webhook::run(&args),
        args::Command::Version => match writeln!(std::io::stdout(), "kubectl-podgate {}", env!("CARGO_PKG_VERSION")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("can't write: {error}")),
        },
    }
}

/// One line on what went wrong.
fn fail(what: &str) -> ExitCode {
    say(what);
    ExitCode::FAILURE
}

/// One line beside the output.
fn say(what: &str) {
    // Nobody is left to tell when this fails too.
    let _ = writeln!(std::io::stderr(), "kubectl podgate: {what}");
}
