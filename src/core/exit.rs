//! The agent's exit codes, following sysexits(3) where possible.

/// Result of a run of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Exit {
    /// The container was released, or there was nothing to wait for.
    Released = 0,
    /// Invalid flag or argument.
    Usage = 64,
    /// The condition cannot be met.
    NeverMet = 69,
    /// The condition was not met in time.
    TimedOut = 75,
    /// Invalid setup: no source to read from, unknown container, or a file that cannot be written.
    BadSetup = 78,
    /// The command exists but cannot be executed (as in a shell).
    CannotExecute = 126,
    /// The command was not found (as in a shell).
    CommandNotFound = 127,
    /// The agent received SIGTERM while waiting, or the pod was deleted.
    Terminated = 143,
}

impl Exit {
    /// Returns the process's exit code.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
