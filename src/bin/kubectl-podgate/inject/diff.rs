//! Unified diff that `patch` and `git apply` accept.

use similar::{DiffOp, TextDiff};
use std::fmt::Write;
use std::ops::Range;

/// Returns the patch from `old` to `new`. The patch is empty if both texts are equal.
pub(super) fn unified(name: &str, old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (lines(old), lines(new));
    let diff = TextDiff::configure().diff_slices(&old, &new);
    let mut out = String::new();
    for hunk in diff.unified_diff().iter_hunks() {
        if out.is_empty() {
            let _ = write!(out, "--- {name}\n+++ {name}\n");
        }
        let [before, after] = [DiffOp::old_range, DiffOp::new_range].map(|range| hunk_range(hunk.ops(), range));
        let _ = writeln!(out, "@@ -{before} +{after} @@");
        for change in hunk.iter_changes() {
            let end = if change.value().ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
            let _ = write!(out, "{}{}{end}", change.tag(), change.value());
        }
    }
    out
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Returns `start,count` of one side of a hunk. If a side has no lines, `start` is the line before the hunk, as the
/// format requires.
fn hunk_range(ops: &[DiffOp], range: fn(&DiffOp) -> Range<usize>) -> String {
    let (start, end) = (range(&ops[0]).start, range(&ops[ops.len() - 1]).end);
    format!("{},{}", start + usize::from(end > start), end - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_have_three_lines_of_context() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("10\n", "ten\n10\n").replace("20\n", "20");
        let expected = "--- f\n+++ f\n@@ -7,6 +7,7 @@\n 7\n 8\n 9\n+ten\n 10\n 11\n 12\n@@ -17,4 +18,4 @@\n 17\n 18\n 19\n-20\n+20\n\
                        \\ No newline at end of file\n";
        assert_eq!(unified("f", &old, &new), expected);
        assert_eq!(unified("f", &old, &old), "");
        assert_eq!(unified("f", "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
    }

    #[test]
    fn long_text_gives_minimal_hunks() {
        let old: String = (0..5000).map(|n| format!("{n}\n")).collect();
        let new: String = (0..5000).map(|n| format!("{}\n", n + 1)).collect();
        let patch = unified("f", &format!("x\n{old}"), &format!("y\n{new}"));
        assert!(patch.starts_with("--- f\n+++ f\n@@ -1,5 +1,4 @@\n-x\n-0\n+y\n 1\n"), "{patch}");
        assert!(patch.ends_with("@@ -4999,3 +4998,4 @@\n 4997\n 4998\n 4999\n+5000\n"), "{patch}");
    }
}
