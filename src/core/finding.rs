//! What there is to say about a manifest: the same words from `check`, `inject` and the webhook.

use crate::core::edit::Place;
use std::fmt;

/// How grave it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Worth knowing.
    Note,
    /// It works, but will surprise.
    Warning,
    /// It can't work: nothing is injected.
    Error,
}

impl Level {
    /// As it is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// One thing to say, with its place and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule, in words joined by hyphens; stays the same between versions: `unknown-container`.
    pub rule: &'static str,
    /// How grave it is.
    pub level: Level,
    /// Where: from the root of the Pod or pod template, that is of what holds `metadata` and `spec`.
    pub at: Place,
    /// What is wrong, without a full stop.
    pub what: String,
    /// How to mend it, without a full stop; empty where nothing is to be done.
    pub mend: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)?;
        if !self.mend.is_empty() {
            write!(f, "; {}", self.mend)?;
        }
        Ok(())
    }
}
