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
