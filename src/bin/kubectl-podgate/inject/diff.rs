//! What changes, as a patch that `patch` and `git apply` take.

use std::fmt::Write;

/// Lines shown around a change.
const CONTEXT: usize = 3;
/// The largest square of changed lines that is compared; beyond it the lines are shown as replaced as a whole.
const LARGEST: usize = 16_000_000;

/// The patch from `old` to `new`; empty if they are the same.
pub(super) fn unified(name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (lines(old), lines(new));
    let script = script(&old, &new);
    let mut out = format!("--- {name}\n+++ {name}\n");
    for hunk in hunks(&script) {
        let part = &script[hunk];
        let (first, last) = (part[0], part[part.len() - 1]);
        let count = |skip: Kind| part.iter().filter(|line| line.kind != skip).count();
        let (before, after) = (count(Kind::Added), count(Kind::Removed));
        let start = |at: usize, count: usize| if count == 0 { at } else { at + 1 };
        debug_assert!(last.old >= first.old);
        let _ = writeln!(out, "@@ -{},{before} +{},{after} @@", start(first.old, before), start(first.new, after));
        for line in part {
            let (mark, text) = match line.kind {
                Kind::Same => (' ', old[line.old]),
                Kind::Removed => ('-', old[line.old]),
                Kind::Added => ('+', new[line.new]),
            };
            out.push(mark);
            out.push_str(text);
            if !text.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    out
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Same,
    Removed,
    Added,
}

/// A line of the patch, with the indices of the next lines on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    kind: Kind,
    old: usize,
    new: usize,
}

/// All lines of both sides, in the order of a patch.
fn script(old: &[&str], new: &[&str]) -> Vec<Line> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (mine, yours) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut script = Vec::with_capacity(old.len() + new.len());
    let (mut i, mut j) = (0, 0);
    let mut push = |kind: Kind, i: &mut usize, j: &mut usize| {
        script.push(Line { kind, old: *i, new: *j });
        *i += usize::from(kind != Kind::Added);
        *j += usize::from(kind != Kind::Removed);
    };
    (0..head).for_each(|_| push(Kind::Same, &mut i, &mut j));
    for kind in middle(mine, yours) {
        push(kind, &mut i, &mut j);
    }
    (0..tail).for_each(|_| push(Kind::Same, &mut i, &mut j));
    script
}

/// By the longest common subsequence.
fn middle(old: &[&str], new: &[&str]) -> Vec<Kind> {
    let width = new.len() + 1;
    let replaced = || [vec![Kind::Removed; old.len()], vec![Kind::Added; new.len()]].concat();
    if (old.len() + 1).saturating_mul(width) > LARGEST {
        return replaced();
    }
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut kinds) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            kinds.push(Kind::Same);
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1] {
            kinds.push(Kind::Removed);
            i += 1;
        } else {
            kinds.push(Kind::Added);
            j += 1;
        }
    }
    kinds
}

/// The changes with their context, those that touch as one.
fn hunks(script: &[Line]) -> Vec<std::ops::Range<usize>> {
    let mut hunks: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, _) in script.iter().enumerate().filter(|(_, line)| line.kind != Kind::Same) {
        let (start, end) = (index.saturating_sub(CONTEXT), (index + CONTEXT + 1).min(script.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => hunks.push(start..end),
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_changes_with_three_lines_around() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("10\n", "ten\n10\n").replace("20\n", "20");
        let expected = "--- f\n+++ f\n@@ -7,6 +7,7 @@\n 7\n 8\n 9\n+ten\n 10\n 11\n 12\n@@ -17,4 +18,4 @@\n 17\n 18\n 19\n-20\n+20\n\
                        \\ No newline at end of file\n";
        assert_eq!(unified("f", &old, &new), expected);
        assert_eq!(unified("f", &old, &old), "");
        assert_eq!(unified("f", "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
    }

    #[test]
    fn much_is_shown_as_a_whole() {
        let old: String = (0..5000).map(|n| format!("{n}\n")).collect();
        let new: String = (0..5000).map(|n| format!("{}\n", n + 1)).collect();
        let patch = unified("f", &format!("x\n{old}"), &format!("y\n{new}"));
        assert_eq!(patch.lines().count(), 2 + 1 + 2 * 5001);
    }
}
