//! Dollar signs in fields in which Kubernetes expands `$(VARIABLE)` and replaces `$$` by `$`
//! (<https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/>).

/// Escapes `text`, so that Kubernetes expands no variable in it. Text that Kubernetes does not change stays as it is.
pub fn escape(text: &str) -> String {
    if text.contains("$(") || text.contains("$$") { text.replace('$', "$$") } else { text.to_owned() }
}

/// Reverses [`escape`]. Every `$(` in the text must be escaped.
pub fn unescape(text: &str) -> String {
    text.replace("$$", "$")
}
