//! `kubectl podgate`: the kubectl plugin.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod check;
mod cluster;
mod common_args;
mod error;
mod inject;
mod install;
mod orders;
mod output;
mod overrides;
mod pod;
mod registry;
mod resolve_images;
mod status;
mod suggest;
mod terminal;
mod timeline;
mod try_run;
mod verify;
mod yaml;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Parser, Subcommand};
use error::CommandResult;
use podgate::clock;
use podgate::core::exit::Exit;
use podgate::core::text::{command_line, error_chain};
use std::process::ExitCode;

/// Replacement for musl's allocator, which is several times slower for many small allocations.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

const HELP: &str = "\
An order is declared on the Pod, or on a workload's Pod template:
  metadata:
    annotations:
      podgate.io/order: \"db, api, web\"

Examples:
  kubectl podgate check shop.yaml                              find errors, forecast the start
  kubectl podgate try shop.yaml                                preview the start on this machine
  kubectl podgate inject -f shop.yaml | kubectl apply -f -     add the order and apply
  kubectl podgate status -w shop-6bcbfd8758-sr5xs              watch what each container waits for
  kubectl podgate timeline shop-6bcbfd8758-sr5xs               show how the start went

See `kubectl podgate COMMAND --help` for details. A wrong flag or argument gives exit code 64.";

/// Start the containers of a Pod in a declared order: check, inject, watch.
#[derive(Debug, Parser)]
#[command(name = "kubectl-podgate", bin_name = "kubectl podgate", version, after_help = HELP)]
#[command(max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    // Before the start, in the order of use.
    Suggest(suggest::SuggestArgs),
    Check(Box<check::CheckArgs>),
    Try(Box<try_run::TryArgs>),
    Inject(Box<inject::InjectArgs>),
    Uninject(inject::UninjectArgs),
    // In the cluster.
    Install(install::InstallArgs),
    ResolveImages(Box<resolve_images::ResolveImagesArgs>),
    Verify(verify::VerifyArgs),
    // During and after the start.
    Status(status::StatusArgs),
    Timeline(timeline::TimelineArgs),
    Override(overrides::OverrideArgs),
    #[command(hide = true)]
    StandIn(Box<try_run::StandInArgs>),
    /// Print the version
    Version,
}

fn main() -> ExitCode {
    let mut words = Vec::from_iter(std::env::args_os());
    let mut parsed = podgate::command_line::parse::<Args>(&words);
    if parsed.as_ref().is_err_and(lacks_file) {
        words.extend(common_args::stdin_name_if_piped());
        parsed = podgate::command_line::parse(&words);
    }
    let command = match parsed {
        Ok(args) => args.command,
        // Without arguments, print the help as kubectl does.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return output::print(&error.render().to_string()).unwrap_or_else(|error| output::print_error(&error));
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
    let result = match command {
        Command::Check(args) => check::run(&args),
        Command::Inject(args) => inject::inject(&args),
        Command::Install(args) => install::run(&args),
        Command::Override(args) => block_on(overrides::run(&args)),
        Command::ResolveImages(args) => resolve_images::run(&args),
        Command::StandIn(args) => try_run::run_stand_in(&args),
        Command::Status(args) => block_on(status::run(&args)),
        Command::Suggest(args) => suggest::run(&args),
        Command::Timeline(args) => block_on(timeline::run(&args)),
        Command::Try(args) => try_run::run(&args),
        Command::Uninject(args) => inject::uninject(&args),
        Command::Verify(args) => block_on(verify::run(&args)),
        Command::Version => output::print(concat!("kubectl-podgate ", env!("CARGO_PKG_VERSION"), "\n")),
    };
    result.unwrap_or_else(|error| output::print_error(&error))
}

/// Returns the result of `work`, which talks to a cluster or a registry.
fn block_on<T>(work: impl Future<Output = CommandResult<T>>) -> CommandResult<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("cannot start the async runtime: {}", error_chain(&error)))?.block_on(work)
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
