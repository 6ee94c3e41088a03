//! Problems and notes about a manifest, worded the same by `check`, `inject` and the webhook.

use crate::order::edit::{EditError, Place};
use std::fmt;
use std::ops::Range;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Information; nothing needs to change.
    Note,
    /// Works, but probably not as intended.
    Warning,
    /// Cannot work: nothing is injected.
    Error,
}

impl Level {
    /// Returns the printed name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// A problem or note about one place in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule, such as `unknown-container`; stable between versions.
    pub rule: &'static str,
    /// Severity.
    pub level: Level,
    /// Place, counted from the Pod or Pod template: the object that holds `metadata` and `spec`.
    pub at: Place,
    /// Statement of the problem, without a full stop.
    pub message: String,
    /// Imperative that solves the problem, without a full stop. Empty if nothing needs to be done.
    pub fix: String,
    /// Range in bytes within the text at that place, such as one word of an annotation.
    pub span: Option<Range<usize>>,
}

impl Finding {
    fn new(level: Level, rule: &'static str, at: Place, message: impl Into<String>) -> Finding {
        Finding { rule, level, at, message: message.into(), fix: String::new(), span: None }
    }

    /// Creates an error.
    #[must_use]
    pub fn error(rule: &'static str, at: Place, message: impl Into<String>) -> Finding {
        Finding::new(Level::Error, rule, at, message)
    }

    /// Creates a warning.
    #[must_use]
    pub fn warning(rule: &'static str, at: Place, message: impl Into<String>) -> Finding {
        Finding::new(Level::Warning, rule, at, message)
    }

    /// Creates a note.
    #[must_use]
    pub fn note(rule: &'static str, at: Place, message: impl Into<String>) -> Finding {
        Finding::new(Level::Note, rule, at, message)
    }

    /// Sets the fix.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Finding {
        self.fix = fix.into();
        self
    }

    /// Sets the range within the text at its place.
    #[must_use]
    pub fn span(mut self, range: Range<usize>) -> Finding {
        self.span = Some(range);
        self
    }
}

/// Returns true if any of `findings` is an error.
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
    fn from(error: EditError) -> Vec<Finding> {
        vec![Finding::error("strange-type", error.0.clone(), error.to_string())]
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
