//! Reorders the items of a list.

use crate::order::edit::{EditError, Editor, Op, Place};

/// Reorders a list. `wanted` lists the current indices of the items in the new order.
pub(super) fn reorder(editor: &mut Editor, list: &Place, wanted: &[usize]) -> Result<(), EditError> {
    let mut now: Vec<usize> = (0..wanted.len()).collect();
    for (to, item) in wanted.iter().enumerate() {
        let from = now.iter().position(|at| at == item).filter(|from| *from != to);
        if let Some(from) = from {
            now.remove(from);
            now.insert(to, *item);
            editor.edit(list.to(from), Op::Move(to))?;
        }
    }
    Ok(())
}
