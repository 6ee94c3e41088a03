//! `kubectl podgate`: the kubectl plugin.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod check;
mod cli;
mod cluster;
mod common_args;
mod inject;
mod install;
mod output;
mod overrides;
mod pod;
mod registry;
mod resolve_images;
mod runtime;
mod status;
mod suggest;
mod terminal;
mod timeline;
mod try_run;
mod verify;
mod yaml;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use podgate::clock;
use podgate::core::exit::Exit;
use podgate::core::text::command_line;
use std::process::ExitCode;

/// Replacement for musl's allocator, which is several times slower for many small allocations.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let mut words = Vec::from_iter(std::env::args_os());
    let mut parsed = podgate::command_line::parse::<cli::Args>(&words);
    if parsed.as_ref().is_err_and(lacks_file) {
        words.extend(common_args::piped_input());
        parsed = podgate::command_line::parse(&words);
    }
    let command = match parsed {
        Ok(args) => args.command,
        // Without arguments, print the help as kubectl does.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return output::print(&error.render().to_string());
        }
        Err(mut error) => {
            // Remove clap's tip: for a mistyped flag, the tip suggests passing the flag as a file.
            error.remove(ContextKind::Suggested);
            let _ = error.print();
            let command = words.get(1).map(|word| word.to_string_lossy()).unwrap_or_default();
            if let Some(tip) = tip(&error, &command) {
                eprintln!("\n  tip: {tip}");
            }
            // For clap, `--help` and `--version` are errors too.
            return if error.use_stderr() { Exit::Usage } else { Exit::Released }.into();
        }
    };
    let or_fail = |result: Result<ExitCode, Vec<String>>| result.unwrap_or_else(|lines| output::fail_all(&lines));
    match command {
        cli::Command::Check(args) => or_fail(check::run(&args)),
        cli::Command::Inject(args) => or_fail(inject::inject(&args)),
        cli::Command::Install(args) => or_fail(install::run(&args)),
        cli::Command::Override(args) => runtime::block_on(overrides::run(&args)),
        cli::Command::ResolveImages(args) => or_fail(resolve_images::run(&args)),
        cli::Command::StandIn(args) => try_run::run_stand_in(&args),
        cli::Command::Status(args) => runtime::block_on(status::run(&args)),
        cli::Command::Suggest(args) => or_fail(suggest::run(&args)),
        cli::Command::Timeline(args) => runtime::block_on(timeline::run(&args)),
        cli::Command::Try(args) => try_run::run(&args),
        cli::Command::Uninject(args) => or_fail(inject::uninject(&args)),
        cli::Command::Verify(args) => runtime::block_on(verify::run(&args)),
        cli::Command::Version => output::print(concat!("kubectl-podgate ", env!("CARGO_PKG_VERSION"), "\n")),
    }
}

fn lacks_file(error: &Error) -> bool {
    error.kind() == ErrorKind::MissingRequiredArgument && error.to_string().contains("<FILE")
}

/// Returns a tip for a missing file, or for a flag of other kubectl commands that a command for manifests lacks.
fn tip(error: &Error, command: &str) -> Option<String> {
    if lacks_file(error) {
        return Some("to read standard input, pass - as FILE".to_owned());
    }
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return None };
    if !["check", "inject", "resolve-images", "suggest", "try", "uninject"].contains(&command) {
        return None;
    }
    let source = match wrong.as_str() {
        "-k" | "--kustomize" => "kubectl kustomize DIR",
        "-n" | "--namespace" => "kubectl get KIND/NAME -n NAMESPACE -o yaml",
        "-o" | "--output" => return Some(format!("{command} prints the manifests in the format of its input")),
        _ => return None,
    };
    Some(format!("{source} | {}", command_line(&["kubectl", "podgate", command, "-"])))
}
