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
/// kubelet replaces only variables in the container's `env`, for which `is_set` returns true.
///
/// # Errors
/// Returns the name of the first variable that the kubelet would replace.
pub fn expand(word: &str, is_set: impl Fn(&str) -> bool) -> Result<String, String> {
    let (mut expanded, mut rest) = (String::new(), word);
    // Do not search behind the last `)`: a search to the end of the word for each `$(` would take quadratic time.
    let close = word.rfind(')').map(|at| word.len() - at);
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        expanded.push('$');
        let name = after.strip_prefix('(').filter(|after| close.is_some_and(|close| close <= after.len()));
        rest = match name.and_then(|after| after.split_once(')')) {
            Some((name, _)) if is_set(name) => return Err(name.to_owned()),
            Some((name, after)) => {
                expanded.push_str(&format!("({name})"));
                after
            }
            None => after.strip_prefix('$').unwrap_or(after),
        };
    }
    Ok(expanded + rest)
}
