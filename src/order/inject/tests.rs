use super::reorder::reorder;
use super::*;
use crate::order::edit::Editor;
use serde_json::json;

fn reordered(wanted: &[usize]) -> (Value, usize) {
    let mut editor = Editor::new((0..wanted.len()).collect());
    reorder(&mut editor, &Place::root(), wanted).unwrap();
    let (value, edits) = editor.finish();
    (value, edits.len())
}

#[test]
fn reorder_needs_the_fewest_moves() {
    for (wanted, moves) in
        [(&[0, 1, 2][..], 0), (&[1, 2, 0], 1), (&[2, 0, 1], 1), (&[2, 1, 0], 2), (&[3, 0, 2, 1, 4], 2), (&[], 0)]
    {
        assert_eq!(reordered(wanted), (json!(wanted), moves));
    }
}

#[test]
fn template_without_a_declaration_stays_unchanged() {
    let with = |metadata: Value| json!({"metadata": metadata, "spec": {"containers": [{"name": "a"}]}});
    for (metadata, declared) in [
        (json!({}), false),
        (json!({"labels": {"podgate.io/inject": "enabled"}}), true),
        (json!({"labels": {"podgate.io/inject": "disabled"}, "annotations": {"podgate.io/order": "a"}}), false),
        (json!({"annotations": {"podgate.io/order": "a"}}), true),
        (json!({"annotations": {"after.podgate.io/a": "b"}}), true),
        (json!({"annotations": {"podgate.io/timeout": "5m"}}), false),
        (json!({"annotations": 7, "labels": []}), false),
    ] {
        assert_eq!(is_requested(&with(metadata.clone())), declared, "{metadata}");
    }
    // The label without an order gives a finding.
    for (metadata, is_marked) in [(json!({}), false), (json!({"labels": {"podgate.io/inject": "enabled"}}), true)] {
        let template = with(metadata);
        let done = inject(&template, &Options::new("i"), &KnownFacts::default()).unwrap();
        assert_eq!((done.value, done.edits, !done.findings.is_empty()), (template, vec![], is_marked));
    }
}
