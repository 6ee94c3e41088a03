//! Tests of `podgate::order::dollars`.

use podgate::order::dollars;

#[test]
fn probe_commands_are_expanded_like_in_the_kubelet() {
    let expand = |word| dollars::expand(word, |name| name == "PORT");
    for (word, expanded) in [
        ("$(hostname) $HOME ${HOME}", "$(hostname) $HOME ${HOME}"),
        ("$$ $$(PORT) $$$(x) $$$$", "$ $(PORT) $$(x) $$"),
        ("$($$) $(", "$($$) $("),
        ("ü$", "ü$"),
        ("", ""),
    ] {
        assert_eq!(expand(word).as_deref(), Ok(expanded), "{word}");
    }
    // At an unfinished reference, podgate must not search the rest of the word. Otherwise, this word takes minutes.
    let unfinished = format!("){}", "$(".repeat(1 << 20));
    assert_eq!(expand(&unfinished).as_deref(), Ok(unfinished.as_str()));
    for word in ["$(PORT)", "x$(hostname)$(PORT)", "$$$(PORT)"] {
        assert_eq!(expand(word), Err("PORT".to_owned()), "{word}");
    }
}
