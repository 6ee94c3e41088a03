//! Shell completion scripts, generated from the definition of the command line.

mod args;

pub(crate) use args::Completion;

use crate::output::print;
use clap::Command;
use clap_complete::aot;
use std::process::ExitCode;

const PROGRAM: &str = "kubectl-podgate";

pub(crate) fn print_script(mut command: Command, args: &Completion) -> ExitCode {
    command.set_bin_name(PROGRAM);
    let mut out = Vec::new();
    aot::generate(args.shell, &mut command, PROGRAM, &mut out);
    print(&String::from_utf8_lossy(&out))
}
