//! The sidecar: installs the agent, sets up the board, determines each container's state, and publishes it on the board
//! and as Pod annotations. Single-threaded.
#![forbid(unsafe_code)]

mod api;
mod args;
mod clock;
mod input;
mod model;
mod output;
mod probe;
mod ready;
mod run;
mod setup;
mod signals;

use clap::Parser;
use podgate::core::exit::Exit;
use std::process::ExitCode;

fn main() -> ExitCode {
    // In a shared process namespace, other containers could read the sidecar's service account token through /proc. The
    // kernel denies this access for a process that is not dumpable.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    match args::Args::try_parse() {
        Ok(args) => match args.command {
            Some(args::Command::Ready(ready)) => ready::run(&ready).into(),
            None => run::main(args.run),
        },
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() { Exit::Usage } else { Exit::Released }.into()
        }
    }
}
