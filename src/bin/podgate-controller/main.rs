//! The sidecar: installs the agent, sets up the board, determines each container's state, and publishes it on the board
//! and as Pod annotations. Single-threaded.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod api;
mod args;
mod clock;
mod failure;
mod input;
mod model;
mod output;
mod precise_timer;
mod probe;
mod rate_limit;
mod ready;
mod run;

use args::{Args, Command};
use podgate::command_line;
use podgate::core::exit::Exit;
use podgate::core::names;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    // In a shared process namespace, other containers could read the sidecar's service account token through /proc. The
    // kernel denies this access for a process that is not dumpable.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    match command_line::parse::<Args>(&Vec::from_iter(std::env::args_os())) {
        Ok(Args { command: Some(Command::Ready(ready)), .. }) => ready::wait(&ready).into(),
        Ok(args) => close_gates().map_or_else(Exit::into, |()| run::main(args.run)),
        Err(error) => {
            let _ = error.print();
            let is_help = !error.use_stderr();
            if is_help { Exit::Released.into() } else { close_gates().err().unwrap_or(Exit::Usage).into() }
        }
    }
}

/// Closes the gates of held containers, before anything else can fail.
fn close_gates() -> Result<(), Exit> {
    output::hold_files::close_all(Path::new(names::HOLD_DIR)).map_err(|error| {
        eprintln!("podgate-controller: cannot close the gates in {}: {error}", names::HOLD_DIR);
        Exit::BadSetup
    })
}
