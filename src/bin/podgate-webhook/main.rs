//! `podgate-webhook`: the admission webhook that injects Pods while they are created.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod activity;
mod admit;
mod api;
mod args;
mod body_budget;
mod error;
mod metrics;
mod reloaded_file;
mod run;
mod state;
mod status_server;
mod tls;
mod tls_server;

use podgate::clock;
use podgate::command_line;
use podgate::core::exit::Exit;
use std::process::ExitCode;

/// Replacement for musl's allocator. For each injected Pod, musl's allocator returns memory to the kernel and requests
/// it again hundreds of times. That makes an admission several times slower.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    match command_line::parse::<args::Args>(&Vec::from_iter(std::env::args_os())) {
        Ok(args) => run::run(&args),
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() { Exit::Usage } else { Exit::Released }.into()
        }
    }
}
