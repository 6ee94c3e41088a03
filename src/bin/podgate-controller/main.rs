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

use clap::Parser;
use podgate::core::exit::Exit;
use std::process::ExitCode;

fn main() -> ExitCode {
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
