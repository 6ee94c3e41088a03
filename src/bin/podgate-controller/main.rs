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
use podgate::core::names;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    // In a shared process namespace, other containers could read the sidecar's service account token through /proc. The
    // kernel denies this access for a process that is not dumpable.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    if std::env::args_os().nth(1).is_none_or(|first| first != "ready") {
        // Close the gates of held containers before anything else can fail.
        let folder = std::env::var_os("PODGATE_HOLD_DIR").unwrap_or_else(|| names::HOLD_DIR.into());
        if let Err(error) = output::hold_files::close_all(Path::new(&folder)) {
            eprintln!("podgate-controller: can't close the gates in {}: {error}", folder.display());
            return Exit::BadSetup.into();
        }
    }
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
