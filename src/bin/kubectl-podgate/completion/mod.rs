//! Completion for shells, and the manual's pages: both made from the command line's own definition.

mod args;
pub(crate) mod cluster;
mod typed;

pub(crate) use args::{Completion, Man};

use crate::args::Args;
use crate::fail;
use crate::output::write_out;
use args::Shell;
use clap::CommandFactory;
use clap_complete::engine::CompletionCandidate;
use clap_complete::{aot, engine};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The name under which kubectl asks for completions
/// (<https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/>).
const ASKED_AS: &str = "kubectl_complete-podgate";
/// The program's own name.
const PROGRAM: &str = "kubectl-podgate";
/// kubectl is told by this that no file's name will do: `cobra.ShellCompDirectiveNoFileComp`.
const NO_FILES: &str = ":4";
/// And by this that any file's name will.
const FILES: &str = ":0";
/// The commands that take manifests.
const TAKE_FILES: [&str; 3] = ["check", "inject", "uninject"];

pub(crate) fn script(args: &Completion) -> ExitCode {
    let mut command = Args::command();
    command.set_bin_name(PROGRAM);
    let mut out = Vec::new();
    match args.shell {
        Shell::Bash => aot::generate(aot::Bash, &mut command, PROGRAM, &mut out),
        Shell::Zsh => aot::generate(aot::Zsh, &mut command, PROGRAM, &mut out),
        Shell::Fish => aot::generate(aot::Fish, &mut command, PROGRAM, &mut out),
        Shell::Powershell => aot::generate(aot::PowerShell, &mut command, PROGRAM, &mut out),
    }
    done(write_out(&String::from_utf8_lossy(&out)))
}

pub(crate) fn man(args: &Man) -> ExitCode {
    let mut command = Args::command();
    // The pages of subcommands are named by this.
    command.set_bin_name(PROGRAM);
    match clap_mangen::generate_to(command, &args.folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("can't write the pages into {}: {error}", args.folder.display())),
    }
}

fn done(written: Result<bool, String>) -> ExitCode {
    match written {
        Ok(_) => ExitCode::SUCCESS,
        Err(what) => fail(&what),
    }
}

/// What kubectl asked, if this was started as the program that it asks.
pub(crate) fn asked() -> Option<Vec<OsString>> {
    let mut arguments = std::env::args_os();
    let program = arguments.next()?;
    let name = Path::new(&program).file_stem()?.to_str()?;
    (name == ASKED_AS).then(|| arguments.collect())
}

/// Answers: one candidate a line, its help behind a tab, and at last what kubectl is to do with them. The last of `words` is what is
/// to be completed, and may be empty.
pub(crate) fn answer(words: Vec<OsString>) -> ExitCode {
    let typed = typed::Typed::read(&words);
    // What takes manifests takes files; all else takes none.
    let takes_files = typed.words.first().is_some_and(|command| TAKE_FILES.contains(&command.as_str()));
    cluster::remember(typed);
    let (current, at) = (words.last().cloned().unwrap_or_default(), words.len().max(1));
    let mut line = vec![OsString::from(PROGRAM)];
    line.extend(words);
    if line.len() == 1 {
        line.push(current.clone());
    }
    // An answer that fails is as good as none, and nobody would see why.
    let mut out = String::new();
    let found = engine::complete(&mut Args::command(), line, at, None).unwrap_or_default();
    let is_flag = |candidate: &CompletionCandidate| candidate.get_value().to_str().is_some_and(|v| v.starts_with('-'));
    // Who has typed nothing asks for what goes here; for flags, where nothing else does.
    let no_flags = current.is_empty() && (takes_files || found.iter().any(|candidate| !is_flag(candidate)));
    let is_out = |candidate: &CompletionCandidate| match is_flag(candidate) {
        true => no_flags,
        // Files are left to the shell.
        false => takes_files && Path::new(candidate.get_value()).exists(),
    };
    let is_shown = |candidate: &&CompletionCandidate| !(candidate.is_hide_set() || is_out(candidate));
    for candidate in found.iter().filter(is_shown) {
        let Some(value) = candidate.get_value().to_str() else { continue };
        out.push_str(&crate::terminal::harmless(value));
        if let Some(help) = candidate.get_help() {
            out.push('\t');
            out.push_str(&crate::terminal::harmless(help.to_string().lines().next().unwrap_or_default()));
        }
        out.push('\n');
    }
    out.push_str(if takes_files { FILES } else { NO_FILES });
    out.push('\n');
    done(write_out(&out))
}
