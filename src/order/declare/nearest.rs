//! Compares words, and suggests known words for mistyped ones.

/// Returns the word in `known` that is most similar to `word`; `None` if no word is similar enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    // Skip words that cannot match: the distance of long words is expensive to compute.
    let near = |other: &&str| other.len().abs_diff(word.len()) <= 2 && other.len() <= 80;
    let limit = |other: &str| (other.len().max(word.len()) / 3).clamp(1, 2);
    let known = known.into_iter().filter(near);
    let distances = known.map(|other| (strsim::osa_distance(&word, &other.to_lowercase()), other));
    distances.filter(|(edits, other)| *edits <= limit(other)).min().map(|(_, other)| other)
}

/// Returns a suggestion such as `did you mean db?`; `None` if no word in `known` is similar enough.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|found| format!("did you mean {found}?"))
}
