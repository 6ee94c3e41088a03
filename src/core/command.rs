//! The agent's command line in a container's spec. `inject` writes this command line, and other commands parse it.
//!
//! The parser accepts the same syntax as the agent's own parser (`src/bin/podgate/args`). A flag is `--flag VALUE` or
//! `--flag=VALUE`; only the second form accepts a value that begins with `-`. The flags end at `--`, which precedes the
//! container's own command.

use crate::core::ask::AskedProbe;
use crate::core::container::Mode;
use crate::core::defaults;
use crate::core::names;
use crate::core::until::{WaitCondition, WantedState};

/// A command line of the agent, up to `--`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    /// Subcommand of the agent, such as `entrypoint`.
    pub subcommand: String,
    /// The flags with their values, in the order of the command line.
    pub flags: Vec<(String, Option<String>)>,
}

/// A command line that `inject` has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnLine {
    /// The agent's command line.
    pub line: AgentCommand,
    /// Number of words before the agent's path: 0 or 1.
    pub prefix: usize,
    /// Index of the first `--`, which precedes the container's own command.
    pub end: Option<usize>,
}

impl AgentCommand {
    /// Creates a command line without flags.
    pub fn new(subcommand: &str) -> AgentCommand {
        AgentCommand { subcommand: subcommand.to_owned(), flags: Vec::new() }
    }

    /// Adds `--flag VALUE`.
    pub fn add_flag(&mut self, flag: &str, value: impl Into<String>) {
        self.flags.push((flag.to_owned(), Some(value.into())));
    }

    /// Adds `--flag VALUE` for each of `values`.
    pub fn add_flags(&mut self, flag: &str, values: impl IntoIterator<Item: Into<String>>) {
        values.into_iter().for_each(|value| self.add_flag(flag, value));
    }

    /// Adds a flag that takes no value.
    pub fn add_switch(&mut self, flag: &str) {
        self.flags.push((flag.to_owned(), None));
    }

    /// Returns the words of the command line, beginning with the agent's path on the board.
    pub fn to_argv(&self) -> Vec<String> {
        let mut words = vec![agent_path(), self.subcommand.clone()];
        for (flag, value) in &self.flags {
            match value {
                Some(value) if is_value(value) => words.extend([flag.clone(), value.clone()]),
                Some(value) => words.push(format!("{flag}={value}")),
                None => words.push(flag.clone()),
            }
        }
        words
    }

    /// Parses `words` if the first word is a path with the agent's file name. Returns `None` for other programs.
    pub fn parse(words: &[String]) -> Option<AgentCommand> {
        let [program, subcommand, rest @ ..] = words else { return None };
        if file_name(program) != names::AGENT_FILE {
            return None;
        }
        let mut line = AgentCommand::new(subcommand);
        let mut rest = rest.iter().take_while(|word| *word != "--").peekable();
        while let Some(word) = rest.next() {
            match word.split_once('=') {
                _ if !word.starts_with("--") => {}
                Some((flag, value)) => line.add_flag(flag, value),
                None => line.flags.push((word.clone(), rest.next_if(|next| is_value(next)).cloned())),
            }
        }
        Some(line)
    }

    /// Parses `words` if they run the agent on the board. Another webhook can put its own program before the agent.
    pub fn parse_own(words: &[String]) -> Option<OwnLine> {
        let prefix = words.iter().take(2).position(|word| *word == agent_path())?;
        let end = words.iter().position(|word| word == "--");
        Some(OwnLine { line: AgentCommand::parse(&words[prefix..])?, prefix, end })
    }

    /// Returns all values of `flag` on this command line.
    pub fn values(&self, flag: &str) -> Vec<&str> {
        self.flags.iter().filter(|(name, _)| name == flag).filter_map(|(_, value)| value.as_deref()).collect()
    }
}

/// A gate of one container, or a postStart hook that delays the next containers in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Kind of this gate or hook.
    pub mode: Mode,
    /// Conditions to wait for.
    pub until: Vec<WaitCondition>,
    /// True if the gate runs the probes of its predecessors itself, because the Pod has no sidecar.
    pub asks: bool,
    /// Additional checks to wait for, as written in the spec.
    pub checks: Vec<String>,
    /// Time limit of the wait, as written in the spec.
    pub timeout: String,
}

impl Gate {
    /// Returns the gate or hook that `line` runs, if any. Skips invalid conditions.
    pub fn from_command(line: &AgentCommand) -> Option<Gate> {
        let mode = match line.subcommand.as_str() {
            "post-start" => Mode::PostStart,
            "entrypoint" => Mode::Entrypoint,
            _ => return None,
        };
        let listed = line.values("--until").into_iter().flat_map(|list| list.split(','));
        let mut until: Vec<WaitCondition> = listed.filter_map(|one| one.parse().ok()).collect();
        let asked: Vec<AskedProbe> = line.values("--ask").into_iter().filter_map(|text| text.parse().ok()).collect();
        let ready = |ask: &AskedProbe| WaitCondition { container: ask.container.clone(), want: WantedState::Ready };
        until.extend(asked.iter().map(ready));
        until.dedup();
        if until.is_empty() && mode == Mode::PostStart {
            let own = line.values("--container").pop();
            until.extend(own.map(|name| WaitCondition { container: name.to_owned(), want: WantedState::Ready }));
        }
        let default_timeout = || humantime::format_duration(defaults::WAIT_TIMEOUT).to_string();
        Some(Gate {
            mode,
            until,
            asks: !asked.is_empty(),
            checks: line.values("--check").into_iter().map(str::to_owned).collect(),
            timeout: line.values("--timeout").pop().map_or_else(default_timeout, str::to_owned),
        })
    }
}

/// Returns the agent's path in a container.
pub fn agent_path() -> String {
    format!("{}/{}/{}", names::BOARD_DIR, names::BIN_SUBDIR, names::AGENT_FILE)
}

/// Returns the last component of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns true if `word` is a value: the word `-`, or a word that does not begin with `-`.
fn is_value(word: &str) -> bool {
    word == "-" || !word.starts_with('-')
}
