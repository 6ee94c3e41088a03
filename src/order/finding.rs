//! Problems and notes about a manifest. `check`, `inject` and the webhook print the same texts.

use crate::core::words::words;
use crate::order::edit::Place;
use std::fmt;
use std::ops::Range;

words! {
    /// Severity of a finding.
    #[derive(PartialOrd, Ord)]
    Level {
        /// Information. The user need not change the manifest.
        Note = "note",
        /// The manifest works, but probably not as intended.
        Warning = "warning",
        /// The manifest cannot work, so podgate injects nothing.
        Error = "error",
    }
}

/// A problem or note about one place in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule, such as `unknown-container`; stable between versions.
    pub rule: &'static str,
    /// Severity: note, warning or error.
    pub level: Level,
    /// Place of the problem, relative to the Pod or Pod template (the object with `metadata` and `spec`).
    pub at: Place,
    /// Description of the problem, without a final period.
    pub message: String,
    /// Instruction that fixes the problem, without a final period. Empty if the user need not act.
    pub fix: String,
    /// Byte range of the problem in the text at the place, such as one word of an annotation.
    pub span: Option<Range<usize>>,
}

impl Finding {
    fn new(level: Level, rule: &'static str, at: Place, message: impl Into<String>) -> Finding {
        Finding { rule, level, at, message: message.into(), fix: String::new(), span: None }
    }

    /// Creates a finding of level [`Level::Error`].
    pub fn error(rule: &'static str, at: Place, message: impl Into<String>) -> Finding {
        Finding::new(Level::Error, rule, at, message)
    }

    /// Creates a finding of level [`Level::Warning`].
    pub fn warning(rule: &'static str, at: Place, message: impl Into<String>) -> Finding {
        Finding::new(Level::Warning, rule, at, message)
    }

    /// Creates a finding of level [`Level::Note`].
    pub fn note(rule: &'static str, at: Place, message: impl Into<String>) -> Finding {
        Finding::new(Level::Note, rule, at, message)
    }

    /// Sets the instruction that fixes the problem.
    pub fn fix(mut self, fix: impl Into<String>) -> Finding {
        self.fix = fix.into();
        self
    }

    /// Returns `MESSAGE; FIX`.
    pub fn text(&self) -> String {
        if self.fix.is_empty() { self.message.clone() } else { format!("{}; {}", self.message, self.fix) }
    }

    /// Returns the finding without its place: `LEVEL: MESSAGE; FIX [RULE]`.
    pub fn line(&self) -> String {
        format!("{}: {} [{}]", self.level, self.text(), self.rule)
    }

    /// Sets the byte range of the problem in the text at the finding's place.
    pub fn span(mut self, range: Range<usize>) -> Finding {
        self.span = Some(range);
        self
    }
}

/// Returns true if any of `findings` is an error.
pub fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.level == Level::Error)
}

impl From<Finding> for Vec<Finding> {
    fn from(finding: Finding) -> Vec<Finding> {
        vec![finding]
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.text())
    }
}
