//! Tests of `podgate::order::dollars`.

use podgate::order::dollars;

#[test]
fn probe_commands_are_expanded_like_in_the_kubelet() {
    let values = [("PORT", "80"), ("EMPTY", ""), ("NEXT", "$(PORT) $$")];
    let expand = |word| dollars::expand(word, |name| Some(values.iter().find(|(known, _)| *known == name)?.1));
    for (word, expanded) in [
        ("$(hostname) $HOME ${HOME}", "$(hostname) $HOME ${HOME}"),
        ("$$ $$(PORT) $$$(x) $$$$", "$ $(PORT) $$(x) $$"),
        ("$($$) $(", "$($$) $("),
        ("ü$", "ü$"),
        ("", ""),
        ("$(PORT)", "80"),
        ("x$(hostname)$(PORT)$(EMPTY)", "x$(hostname)80"),
        ("$$$(PORT)", "$80"),
        // The kubelet does not expand a value again.
        ("$(NEXT)", "$(PORT) $$"),
    ] {
        assert_eq!(expand(word), expanded, "{word}");
    }
    // At an unfinished reference, podgate must not search the rest of the word. Otherwise, this word takes minutes.
    let unfinished = format!("){}", "$(".repeat(1 << 20));
    assert_eq!(expand(&unfinished), unfinished);
}
