//! Tests of `podgate::core::sources`.

use podgate::core::sandbox::SandboxId;
use podgate::core::snapshot::{Snapshot, Unreadable};
use podgate::core::sources::*;

/// Returns an id with the parts of `full` that `mask` selects; the others are missing.
fn masked(full: [&str; 3], mask: u32) -> SandboxId {
    let part = |index: usize| if mask & (1 << index) != 0 { full[index] } else { "0" };
    format!("{}-{}-{}", part(0), part(1), part(2)).parse().unwrap()
}

#[test]
fn volume_counts_only_with_the_exact_id_of_a_unique_sandbox() {
    let (own, other) = (["3f2a9c1e", "4097", "1a0c5f3b"], ["3f2a9c1f", "4098", "1a0c5f3c"]);
    for here_mask in 0..8 {
        let here = masked(own, here_mask);
        for (parts, found_mask) in [own, other].into_iter().flat_map(|parts| (0..8).map(move |mask| (parts, mask))) {
            let found = masked(parts, found_mask);
            let volume = || Some(Ok(Snapshot::new(found.clone(), "e", &[])));
            let is_chosen =
                matches!(choose_view(&here, Err(Unreadable::Missing), volume), PodView::Snapshot(_, Source::Volume));
            assert_eq!(is_chosen, found == here && here_mask & 0b110 != 0, "{found} in {here}");
        }
    }
}
