//! The exit codes of the agent, after sysexits(3) where it has one.

/// How a run of the agent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Exit {
    /// Released, or there was nothing to wait for.
    Released = 0,
    /// A wrong flag or argument.
    Usage = 64,
    /// The condition can never be met.
    NeverMet = 69,
    /// It was not met in time.
    TimedOut = 75,
    /// The set-up is wrong: no source to read from, no such container, a place that can't be written.
    BadSetup = 78,
    /// The command was found, but can't be executed (as in a shell).
    CannotExecute = 126,
    /// The command was not found (as in a shell).
    CommandNotFound = 127,
    /// TERM, or the pod's deletion, while waiting.
    Terminated = 143,
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
