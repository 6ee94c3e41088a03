//! Escapes and expands dollar signs in fields in which Kubernetes expands `$(VARIABLE)` and replaces `$$` by `$`
//! (<https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/>).

/// Escapes `text`, so that Kubernetes expands no variable in it. Text that Kubernetes does not change stays as it is.
pub fn escape(text: &str) -> String {
    if text.contains("$(") || text.contains("$$") { text.replace('$', "$$") } else { text.to_owned() }
}

/// Reverses [`escape`]. Every `$(` in the text must be escaped.
pub fn unescape(text: &str) -> String {
    text.replace("$$", "$")
}

/// Expands a word of a probe's command as the kubelet does (`ExpandContainerCommandOnlyStatic`): `$$` becomes `$`. The
/// kubelet replaces only variables in the container's `env`, for which `value` returns the text.
pub fn expand<'v>(word: &str, mut value: impl FnMut(&str) -> Option<&'v str>) -> String {
    let (mut expanded, mut rest) = (String::new(), word);
    // Do not search behind the last `)`: a search to the end of the word for each `$(` would take quadratic time.
    let close = word.rfind(')').map(|at| word.len() - at);
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        expanded.push('$');
        let name = after.strip_prefix('(').filter(|after| close.is_some_and(|close| close <= after.len()));
        rest = match name.and_then(|after| after.split_once(')')) {
            Some((name, after)) => {
                match value(name) {
                    Some(text) => expanded.replace_range(expanded.len() - 1.., text),
                    None => expanded.push_str(&format!("({name})")),
                }
                after
            }
            None => after.strip_prefix('$').unwrap_or(after),
        };
    }
    expanded + rest
}
