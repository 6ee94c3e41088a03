//! Problems and notes about places in a manifest. `check`, `inject` and the webhook print the same texts.

use crate::core::words::words;
use serde_json::Value;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

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
    pub fn line_without_place(&self) -> String {
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

/// One step of a [`Place`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathSegment {
    /// Name of a field in an object. Places are copied often, and all copies share the name.
    Key(Arc<str>),
    /// Index of an item in a list, counted from 0.
    Index(usize),
}

impl From<&str> for PathSegment {
    fn from(key: &str) -> PathSegment {
        PathSegment::Key(key.into())
    }
}

impl From<usize> for PathSegment {
    fn from(index: usize) -> PathSegment {
        PathSegment::Index(index)
    }
}

/// Place in a manifest, as steps from the root. Displayed as `spec.containers[0].lifecycle`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub Vec<PathSegment>);

impl Place {
    /// Returns the place of the whole manifest.
    pub fn root() -> Place {
        Place::default()
    }

    /// Returns the place of `field` in the `spec` of a template.
    pub fn spec(field: &str) -> Place {
        Place(vec!["spec".into(), field.into()])
    }

    /// Returns the place of `field` in the `metadata` of a template.
    pub fn metadata(field: &str) -> Place {
        Place(vec!["metadata".into(), field.into()])
    }

    /// Returns this place with one more step.
    pub fn to(&self, step: impl Into<PathSegment>) -> Place {
        Place(self.0.iter().cloned().chain([step.into()]).collect())
    }

    /// Returns the steps of `self`, followed by the steps of `rest`.
    pub fn join(&self, rest: &Place) -> Place {
        Place(self.0.iter().chain(&rest.0).cloned().collect())
    }

    /// Returns the part of `value` at this place; `None` if the place does not exist.
    pub fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(value, |value, step| match step {
            PathSegment::Key(key) => value.get(&**key),
            PathSegment::Index(index) => value.get(*index),
        })
    }

    /// Returns the items of the list at this place; empty if there is no list.
    pub fn items<'a>(&self, value: &'a Value) -> &'a [Value] {
        self.of(value).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns the place as a JSON pointer (RFC 6901).
    pub fn pointer(&self) -> String {
        let token = |step: &PathSegment| match step {
            PathSegment::Index(index) => format!("/{index}"),
            PathSegment::Key(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        };
        self.0.iter().map(token).collect()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.0.iter().enumerate() {
            match step {
                PathSegment::Index(index) => write!(f, "[{index}]")?,
                PathSegment::Key(key) if key.contains(['.', '/', '[']) => write!(f, "[{key:?}]")?,
                PathSegment::Key(key) if n == 0 => write!(f, "{key}")?,
                PathSegment::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}
