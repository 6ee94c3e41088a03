use podgate::order::edit::{Edit, Editor, JSON_SIZE_MAX, Op, PathSegment, Place, apply, json_length};
use serde_json::{Value, json};

fn at(steps: &[&str]) -> Place {
    Place(steps.iter().map(|s| s.parse().map_or_else(|_| PathSegment::from(*s), PathSegment::Index)).collect())
}

#[test]
fn place_displays_as_path_and_as_pointer() {
    let place = at(&["metadata", "annotations", "podgate.io/order"]);
    assert_eq!(place.to_string(), "metadata.annotations[\"podgate.io/order\"]");
    assert_eq!(place.pointer(), "/metadata/annotations/podgate.io~1order");
    assert_eq!(at(&["spec", "containers", "0", "name"]).to_string(), "spec.containers[0].name");
}

#[test]
fn mismatched_edit_changes_nothing() {
    let before = json!({"a": [1], "b": 2});
    for (place, op) in [
        (at(&["a", "1"]), Op::Set(json!(0))),
        (at(&["a", "2"]), Op::Insert(json!(0))),
        (at(&["a", "0"]), Op::Move(1)),
        (at(&["b", "c"]), Op::Set(json!(0))),
        (at(&["c"]), Op::Remove),
        (at(&["c", "d"]), Op::Set(json!(0))),
        (Place::root(), Op::Remove),
    ] {
        let mut value = before.clone();
        let error = apply(&mut value, &Edit { at: place.clone(), op }).unwrap_err();
        assert_eq!((error.rule, error.at), ("wrong-type", place));
        assert_eq!(value, before);
    }
}

#[test]
fn changes_have_a_maximum_in_total() {
    let mut editor = Editor::new(json!({"a": {}}));
    let place = Place::root().to("a").to("x");
    let text = |length: usize| Op::Set("x".repeat(length).into());
    editor.edit(place.clone(), text(JSON_SIZE_MAX / 2)).unwrap();
    assert_eq!(editor.edit(place.clone(), text(JSON_SIZE_MAX / 2)).unwrap_err().rule, "template-too-large");
    assert_eq!(place.of(editor.value()).and_then(Value::as_str).map(str::len), Some(JSON_SIZE_MAX / 2));
    // A quote needs two bytes.
    assert_eq!(json_length(&json!({"x": "\""})), r#"{"x":"\""}"#.len());
}
