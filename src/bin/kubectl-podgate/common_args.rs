//! Argument types that several commands share.

use clap::{Args, ValueEnum};
use podgate::order::declare::nearest::did_you_mean;
use podgate::order::finding::Level;
use podgate::order::lint::rules::{self, RULES};
use podgate::order::release::page_url;
use std::ffi::OsString;
use std::time::Duration;

/// Value of `--output`. The JSON object is a public interface: see docs/watching.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}

/// Flags that decide which findings count.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FindingArgs {
    /// Also exit with 1 on warnings, or if nothing declares an order
    #[arg(long)]
    pub(crate) strict: bool,
    /// Omit notes and warnings of these rules, separated by commas
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = ignorable_rule)]
    ignore: Vec<&'static str>,
}

impl FindingArgs {
    /// Returns true unless `--ignore` omits findings of `rule` and `level`.
    pub(crate) fn includes(&self, rule: &str, level: Level) -> bool {
        level == Level::Error || !self.ignore.contains(&rule)
    }
}

fn ignorable_rule(name: &str) -> Result<&'static str, String> {
    match rules::find(name) {
        Some(rule) if rule.levels != [Level::Error] => Ok(rule.name),
        Some(_) => Err("findings of this rule are errors; fix them instead".to_owned()),
        None => Err(did_you_mean(name, RULES.iter().map(|rule| rule.name))
            .unwrap_or_else(|| format!("no such rule; see {}", page_url("rules")))),
    }
}

/// Parses a time limit between a millisecond and a day.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration =
        humantime::parse_duration(text).map_err(|_| "not a duration; write a duration such as 15s or 1m".to_owned())?;
    let range = Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);
    range.contains(&duration).then_some(duration).ok_or_else(|| "must be between 1ms and 1day".to_owned())
}

/// Returns `-`, the name of standard input, if standard input is a file or a pipe, and not empty. Waits for the first
/// byte, and prints a note.
#[cfg(unix)]
pub(crate) fn stdin_name_if_piped() -> Option<OsString> {
    use std::io::BufRead;
    use std::os::unix::fs::FileTypeExt;
    let kind = std::fs::metadata("/dev/stdin").ok()?.file_type();
    if !(kind.is_file() || kind.is_fifo()) || std::io::stdin().lock().fill_buf().is_ok_and(<[u8]>::is_empty) {
        return None;
    }
    crate::output::print_stderr(Level::Note, "reading the manifest from standard input");
    Some("-".into())
}

#[cfg(not(unix))]
pub(crate) fn stdin_name_if_piped() -> Option<OsString> {
    None
}
