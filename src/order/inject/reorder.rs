//! Reorders the items of a list.

use crate::order::edit::{EditError, Editor, Op, Place};

/// Reorders a list with as few moves as possible. `wanted` lists the current indices of the items in the new order.
pub(super) fn reorder(editor: &mut Editor, list: &Place, wanted: &[usize]) -> Result<(), EditError> {
    let keep = longest_increasing(wanted);
    let mut now: Vec<usize> = (0..wanted.len()).collect();
    for (n, item) in wanted.iter().enumerate() {
        if keep[*item] {
            continue;
        }
        let Some(from) = now.iter().position(|at| at == item) else { continue };
        now.remove(from);
        // Insert the item after its new predecessor, which is already in place.
        let to =
            n.checked_sub(1).and_then(|n| now.iter().position(|at| *at == wanted[n])).map_or(0, |before| before + 1);
        now.insert(to, *item);
        if from != to {
            editor.edit(list.to(from), Op::Move(to))?;
        }
    }
    Ok(())
}

/// Marks the items of a permutation's longest increasing subsequence. The marked items need not move.
fn longest_increasing(sequence: &[usize]) -> Vec<bool> {
    // `ends`: the lowest last item of a subsequence of each length. `before`: the predecessor of each item.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), vec![None; sequence.len()]);
    for item in sequence {
        let length = ends.partition_point(|end| end < item);
        before[*item] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = *item,
            None => ends.push(*item),
        }
    }
    let mut keep = vec![false; sequence.len()];
    let mut at = ends.last().copied();
    while let Some(item) = at {
        keep[item] = true;
        at = before[item];
    }
    keep
}
