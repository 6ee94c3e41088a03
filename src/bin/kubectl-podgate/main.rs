//! `kubectl podgate`: the kubectl plugin.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod check;
mod cli;
mod clock;
mod cluster;
mod common_args;
mod completion;
mod inject;
mod output;
mod overrides;
mod pod;
mod registry;
mod runtime;
mod status;
mod terminal;
mod timeline;
mod try_run;
mod yaml;

use clap::{CommandFactory, Parser};
use podgate::core::exit::Exit;
use std::process::ExitCode;

/// Replacement for musl's allocator, which is several times slower for many small allocations.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let command = match cli::Args::try_parse() {
        Ok(args) => args.command,
        Err(error) => {
            let _ = error.print();
            // For clap, `--help` and `--version` are errors too.
            return if error.use_stderr() { Exit::Usage } else { Exit::Released }.into();
        }
    };
    match command {
        cli::Command::Check(args) => check::run(&args),
        cli::Command::Completion(args) => completion::print_script(cli::Args::command(), &args),
        cli::Command::Inject(args) => inject::inject(&args),
        cli::Command::Man(args) => completion::write_man_pages(cli::Args::command(), &args),
        cli::Command::Override(args) => overrides::run(&args),
        cli::Command::StandIn(args) => try_run::run_stand_in(&args),
        cli::Command::Status(args) => status::run(&args),
        cli::Command::Timeline(args) => timeline::run(&args),
        cli::Command::Try(args) => try_run::run(&args),
        cli::Command::Uninject(args) => inject::uninject(&args),
        cli::Command::Version => output::print(concat!("kubectl-podgate ", env!("CARGO_PKG_VERSION"), "\n")),
    }
}
