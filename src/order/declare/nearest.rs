//! What a mistyped word may have meant.

/// The word of `known` that is nearest to `word`, if one is near.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    // A long word is no mistyped short one, and not worth a long look.
    let near = |other: &&str| other.len().abs_diff(word.len()) <= 2 && other.len() <= 80;
    let limit = |other: &str| (other.len().max(word.len()) / 3).clamp(1, 2);
    known
        .into_iter()
        .filter(near)
        .map(|other| (distance(&word, &other.to_lowercase()), other))
        .filter(|(distance, other)| *distance <= limit(other))
        .min()
        .map(|(_, other)| other)
}

/// Letters put in, left out, changed or swapped with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

/// The half-sentence for it: `did you mean db?`, or nothing.
#[must_use]
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|found| format!("did you mean {found}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_mistyped_and_nothing_far_off() {
        let known = ["db", "cache", "migrate", "api"];
        for (word, found) in [
            ("dB", Some("db")),
            ("dbb", Some("db")),
            ("cahce", Some("cache")),
            ("migrat", Some("migrate")),
            ("imgrate", Some("migrate")),
            ("ipa", None),
            ("web", None),
            ("", None),
            ("databasemigration", None),
        ] {
            assert_eq!(nearest(word, known), found, "{word}");
        }
    }
}
