//! Error messages for invalid YAML: the problem in plain words, and the fix.

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::granit_parser::ErrorKind;
use serde_saphyr::{Error, ExternalMessageSource};

/// Maximum nesting depth. An unoptimized build can parse this depth on a thread's stack of 2 MiB.
pub(super) const DEPTH_MAX: usize = 80;

/// Returns the problem and the fix. `before` is the text up to the end of the line with the error.
pub(super) fn explain(before: &str, error: &Error) -> (String, &'static str) {
    let (problem, fix) = match error {
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            return (format!("nested more than {DEPTH_MAX} levels deep"), "use fewer levels");
        }
        Error::Budget { .. } => ("the document is too large after its aliases are expanded", "use fewer aliases"),
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_ref().map(|key| format!(": {key}")).unwrap_or_default();
            return (format!("duplicate mapping key{key}"), "remove one of the two keys");
        }
        Error::UnknownAnchor { .. } => ("no anchor above matches this alias", "add the anchor, or write the value"),
        Error::RecursiveReferencesRequireWeakTypes { .. } => ("an alias inside its own anchor", "write the value"),
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            ("the value of << is not an object", "write an alias of an object")
        }
        Error::NonFiniteFloat { .. } => ("a number that JSON cannot express", "quote the value"),
        Error::ExternalMessage { .. } | Error::NullIntoString { .. } | Error::Unexpected { .. }
            if before.contains("{{") =>
        {
            ("this is a Helm template", "check or inject the output of `helm template`")
        }
        Error::NullIntoString { .. } => ("a key is empty", "write a name before the colon"),
        Error::Unexpected { .. } => ("a key is a list or an object, or a text has no value", "write KEY: VALUE"),
        Error::ExternalMessage { source, .. } => match &**source {
            ExternalMessageSource::Parser(error) => return explain_syntax(error.kind()),
            _ => INVALID,
        },
        _ => ("the value does not fit its tag", "remove the tag, or quote the value"),
    };
    (problem.to_owned(), fix)
}

const INVALID: (&str, &str) =
    ("invalid YAML", "check indentation, quotes and brackets in this line and the line above");

fn explain_syntax(kind: &ErrorKind) -> (String, &'static str) {
    use ErrorKind as K;
    let (problem, fix) = match kind {
        K::InvalidQuotedScalarIndent | K::UnclosedQuotedScalar | K::DocumentIndicatorInQuotedScalar => (
            "this line belongs to a quoted text, but is not indented deeper than the text's key",
            "indent the line, or add the closing quote above",
        ),
        K::TabInIndentation | K::TabInBlockIndentation | K::TabNotAllowed | K::TabAtBlockScalarStart => {
            ("a tab indents this line", "indent it with spaces")
        }
        K::UnclosedFlowCollection { open } => return (format!("unclosed {open}"), "add the closing bracket"),
        K::MisplacedFlowCollectionEnd | K::MismatchedFlowCollectionEnd { .. } => {
            ("this bracket closes nothing", "remove it, or add the opening bracket")
        }
        K::MappingValueNotAllowed | K::InvalidColonPlacement | K::MappingKeyNotAllowed | K::SimpleKeyExpected => (
            "no key is allowed here",
            "indent the key like the other keys of its object; quote text that contains a colon",
        ),
        other => return (format!("invalid YAML: {other}"), INVALID.1),
    };
    (problem.to_owned(), fix)
}
