//! Shell completion scripts and man pages, both generated from the definition of the command line.

mod args;

pub(crate) use args::{Completion, Man};

use crate::output::{fail, print};
use clap::Command;
use clap_complete::aot;
use podgate::core::text::error_chain;
use std::process::ExitCode;

const PROGRAM: &str = "kubectl-podgate";

pub(crate) fn print_script(mut command: Command, args: &Completion) -> ExitCode {
    command.set_bin_name(PROGRAM);
    let mut out = Vec::new();
    aot::generate(args.shell, &mut command, PROGRAM, &mut out);
    print(&String::from_utf8_lossy(&out))
}

pub(crate) fn write_man_pages(mut command: Command, args: &Man) -> ExitCode {
    // Set the prefix for the file names of the subcommands' pages.
    command.set_bin_name(PROGRAM);
    match clap_mangen::generate_to(command, &args.directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            fail(&format!("cannot write man pages into {}: {}", args.directory.display(), error_chain(&error)))
        }
    }
}
