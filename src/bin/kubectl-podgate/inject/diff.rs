//! Unified diff that `patch` and `git apply` accept.

use similar::TextDiff;

/// Returns the patch from `old` to `new`. The patch is empty if both texts are equal.
pub(super) fn unified(name: &str, old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (lines(old), lines(new));
    let diff = TextDiff::configure().newline_terminated(true).diff_slices(&old, &new);
    diff.unified_diff().header(name, name).to_string()
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
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
        assert_eq!(unified("f", "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n");
    }
}
