//! The exit codes of the agent, after sysexits(3) where it has one.

/// How a run of the agent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Released, or there was nothing to wait for.
    Released,
    /// A wrong flag or argument.
    Usage,
    /// The condition can never be met.
    Never,
    /// It was not met in time.
    TimedOut,
    /// The set-up is wrong: no source to read from, no such container, a place that can't be written.
    SetUp,
    /// The command was found, but can't be executed (as in a shell).
    CannotExecute,
    /// The command was not found (as in a shell).
    NotFound,
    /// TERM, or the pod's deletion, while waiting.
    Terminated,
}

impl Exit {
    /// Every code, as the documentation lists them.
    pub const ALL: [Exit; 8] = [
        Exit::Released,
        Exit::Usage,
        Exit::Never,
        Exit::TimedOut,
        Exit::SetUp,
        Exit::CannotExecute,
        Exit::NotFound,
        Exit::Terminated,
    ];

    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Released => 0,
            Exit::Usage => 64,
            Exit::Never => 69,
            Exit::TimedOut => 75,
            Exit::SetUp => 78,
            Exit::CannotExecute => 126,
            Exit::NotFound => 127,
            Exit::Terminated => 143,
        }
    }

    /// What it means, for help and documentation.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Released => "released",
            Exit::Usage => "wrong flag or argument",
            Exit::Never => "the condition can never be met",
            Exit::TimedOut => "timed out",
            Exit::SetUp => {
                "the set-up is wrong: nothing to read from, no such container, a place that can't be written"
            }
            Exit::CannotExecute => "the command can't be executed",
            Exit::NotFound => "the command was not found",
            Exit::Terminated => "TERM, or the pod's deletion, while waiting",
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
