//! What there is to say about a manifest: the same words from `check`, `inject` and the webhook.

use crate::order::edit::{EditError, Place};
use std::fmt;
use std::ops::Range;

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

/// One thing to say, with its place and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule, in words joined by hyphens; stays the same between versions: `unknown-container`.
    pub rule: &'static str,
    /// How grave it is.
    pub level: Level,
    /// Where: from the root of the Pod or pod template, that is of what holds `metadata` and `spec`.
    pub at: Place,
    /// What is wrong, without a full stop.
    pub message: String,
    /// How to fix it, without a full stop; empty where nothing is to be done.
    pub fix: String,
    /// Where within the text at that place, in bytes: the word of an annotation.
    pub span: Option<Range<usize>>,
}

impl Finding {
    fn new(level: Level, rule: &'static str, at: Place, what: impl Into<String>) -> Finding {
        Finding { rule, level, at, message: what.into(), fix: String::new(), span: None }
    }

    /// It can't work.
    #[must_use]
    pub fn error(rule: &'static str, at: Place, what: impl Into<String>) -> Finding {
        Finding::new(Level::Error, rule, at, what)
    }

    /// It will surprise.
    #[must_use]
    pub fn warning(rule: &'static str, at: Place, what: impl Into<String>) -> Finding {
        Finding::new(Level::Warning, rule, at, what)
    }

    /// Worth knowing.
    #[must_use]
    pub fn note(rule: &'static str, at: Place, what: impl Into<String>) -> Finding {
        Finding::new(Level::Note, rule, at, what)
    }

    /// How to fix it.
    #[must_use]
    pub fn fix(mut self, how: impl Into<String>) -> Finding {
        self.fix = how.into();
        self
    }

    /// Where within the text at its place.
    #[must_use]
    pub fn span(mut self, range: Range<usize>) -> Finding {
        self.span = Some(range);
        self
    }
}

/// Whether any of `findings` is an error.
#[must_use]
pub fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.level == Level::Error)
}

impl From<Finding> for Vec<Finding> {
    fn from(finding: Finding) -> Vec<Finding> {
        vec![finding]
    }
}

impl From<EditError> for Vec<Finding> {
    fn from(misfit: EditError) -> Vec<Finding> {
        vec![Finding::error("strange-type", misfit.0.clone(), misfit.to_string())]
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)?;
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        Ok(())
    }
}
