//! Compares words, and suggests known words for mistyped ones.

/// Returns the word in `known` that is most similar to `word`; `None` if no word is similar enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    // Skip words that cannot match: the distance of long words is expensive to compute.
    let near = |other: &&str| other.len().abs_diff(word.len()) <= 2 && other.len() <= 80;
    let limit = |other: &str| (other.len().max(word.len()) / 3).clamp(1, 2);
    known
        .into_iter()
        .filter(near)
        .filter_map(|other| Some((distance(word.as_bytes(), other.to_lowercase().as_bytes(), limit(other))?, other)))
        .min()
        .map(|(_, other)| other)
}

/// Returns a suggestion such as `did you mean db?`; `None` if no word in `known` is similar enough.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|found| format!("did you mean {found}?"))
}

/// Returns the number of edits that turn `a` into `b`; `None` if more than `max` edits are necessary. An edit adds,
/// removes or replaces a byte, or swaps two adjacent bytes. Takes linear time, unlike a table of all distances.
pub(super) fn distance(a: &[u8], b: &[u8], max: usize) -> Option<usize> {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same..], &b[same..]);
    if a.is_empty() || b.is_empty() {
        return Some(a.len().max(b.len())).filter(|edits| *edits <= max);
    }
    let max = max.checked_sub(1)?;
    let is_swapped = a.len() > 1 && b.len() > 1 && a[..2] == [b[1], b[0]];
    let next = [(1, 1), (1, 0), (0, 1), (2, 2)].into_iter().take(if is_swapped { 4 } else { 3 });
    next.filter_map(|(from_a, from_b)| distance(&a[from_a..], &b[from_b..], max)).min().map(|edits| edits + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distance_equals_the_distance_of_a_full_table(a in "[a-c]{0,9}", b in "[a-c]{0,9}", max in 0_usize..4) {
            let full = Some(strsim::osa_distance(&a, &b)).filter(|edits| *edits <= max);
            prop_assert_eq!(distance(a.as_bytes(), b.as_bytes(), max), full);
        }
    }
}
