//! Dollar signs in fields in which Kubernetes expands `$(VARIABLE)` and replaces `$$` by `$`
//! (<https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/>).

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Escapes `text`, so that Kubernetes expands no variable in it. Text that Kubernetes does not change stays as it is.
pub fn escape(text: &str) -> String {
    if text.contains("$(") || text.contains("$$") { text.replace('$', "$$") } else { text.to_owned() }
}

/// Returns the container's environment variables that have a value in the manifest.
pub fn variables(container: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for variable in container.get("env").and_then(Value::as_array).into_iter().flatten() {
        if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
            let value = expand(value, &found);
            found.insert(name.to_owned(), value);
        }
    }
    found
}

/// Expands `$(NAME)`, and replaces `$$` by `$`, as Kubernetes does in commands and environment variables.
pub fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        let name = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        let found = name.and_then(|(name, after)| Some((variables.get(name)?.as_str(), after)));
        let (value, left) = found.unwrap_or_else(|| ("$", after.strip_prefix('$').unwrap_or(after)));
        out = out + before + value;
        rest = left;
    }
    out + rest
}

/// Reverses [`escape`]. Every `$(` in the text must be escaped.
pub fn unescape(text: &str) -> String {
    text.replace("$$", "$")
}
