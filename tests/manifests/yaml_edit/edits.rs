//! Tests of edits of a document's text.

use super::yaml::{DocumentEditor, Source};
use podgate::order::edit::{Edit, Op, PathSegment, Place, apply};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn place(path: &str) -> Place {
    Place(
        path.split('/').map(|step| step.parse().map_or_else(|_| PathSegment::from(step), PathSegment::Index)).collect(),
    )
}

fn set(path: &str, value: Value) -> Edit {
    Edit { at: place(path), op: Op::Set(value) }
}

fn insert(path: &str, value: Value) -> Edit {
    Edit { at: place(path), op: Op::Insert(value) }
}

fn remove(path: &str) -> Edit {
    Edit { at: place(path), op: Op::Remove }
}

fn move_item(path: &str, to: usize) -> Edit {
    Edit { at: place(path), op: Op::Move(to) }
}

/// Returns the text after the edits. `Document::edited` has checked that the new text parses to the intended value.
fn edited(text: &str, edits: &[Edit]) -> String {
    let source = Source::parse("f", text.to_owned());
    let new = source.documents[0].edited(edits).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    assert_eq!(in_pieces(&source, &[("", edits.to_vec())]).as_ref(), Some(&new));
    source.with_replaced(&BTreeMap::from([(0, new)]))
}

/// Returns the text of the first document after the edits of each template. Returns `None` if the document cannot be
/// edited.
fn in_pieces(source: &Source, templates: &[(&str, Vec<Edit>)]) -> Option<String> {
    let mut document_editor = DocumentEditor::new(&source.documents[0]);
    for (at, edits) in templates {
        let at = if at.is_empty() { Place::root() } else { place(at) };
        let mut expected = at.of(&source.documents[0].value).cloned().unwrap_or_default();
        edits.iter().for_each(|edit| _ = apply(&mut expected, edit));
        document_editor.add(&at, edits.clone(), &expected);
    }
    document_editor.finish().ok()
}

/// A template in another layout, or with an alias, does not change how the other templates are edited.
#[test]
fn templates_of_a_list_are_edited_one_by_one() {
    let block = "- kind: Pod\n  spec:\n    a: 1\n    b: |\n      x\n    c: 1\n\n";
    for (other, is_editable) in [
        (block, true),
        ("- {kind: Pod, spec: {a: 1, c: 1}}\n", true),
        ("- kind: Pod\n  spec: {a: 1,\n    c: 1}  # ours\n", true),
        ("-\n  kind: Pod\n  spec:\n    ? a  # ours\n    : 1\n    c: 1\n", false),
        ("- kind: Pod\n  spec: &s\n    a: 1\n    c: 1\n- *s\n", true),
        ("- kind: Pod\n  spec:\n    <<: {a: 1}\n    c: 1\n", true),
        // The edit is rejected, because the blank lines would become part of the text.
        ("- kind: Pod\n  spec:\n    a: 1\n    b: |+\n      x\n    c: 1\n\n\n", false),
    ] {
        let text = format!("kind: List\nitems:\n{block}{other}{block}# the end\nmetadata: {{}}\n");
        let last = if other.contains("- *s") { 3 } else { 2 };
        for text in [text.clone(), text.trim_end().to_owned(), text.replace('\n', "\r\n")] {
            let source = Source::parse("f", text);
            assert!(source.documents[0].error.is_none(), "{other}");
            let edits = [set("spec/a", json!({"x": [1]})), remove("spec/c")];
            let items = [0, 1, last].map(|item| format!("items/{item}"));
            let below = |at: &String| edits.clone().map(|edit| Edit { at: place(at).join(&edit.at), ..edit });
            let whole = source.documents[0].edited(&items.each_ref().map(below).concat()).ok();
            assert_eq!(whole.is_some(), is_editable, "{other}");
            assert_eq!(in_pieces(&source, &items.each_ref().map(|at| (at.as_str(), edits.to_vec()))), whole);
        }
    }
}

const POD: &str = "\
kind: Pod
metadata:
  name: x  # the name
spec:
  # all of them
  containers:
  # the first
  - name: a
    image: x
    env: []   # none

  # the second
  - name: b   # b!
    args: [\"1\"]
    ports:
    - containerPort: 1

  # the tail
  volumes: []
status: {}
";

#[test]
fn new_fields_go_last_or_to_their_usual_position() {
    let new = edited(
        POD,
        &[
            set("spec/initContainers", json!([{"name": "podgate", "restartPolicy": "Always"}])),
            set("metadata/annotations", json!({"podgate.io/injected": "{\"v\":1}"})),
            set("spec/containers/1/command", json!(["/podgate/bin/podgate", "entrypoint"])),
            set("spec/containers/1/lifecycle", json!({"postStart": {"sleep": {"seconds": 1}}})),
            set("spec/containers/0/tty", json!(true)),
        ],
    );
    let expected = POD
        .replace(
            "  # all of them\n",
            "  initContainers:\n  - {name: podgate, restartPolicy: Always}\n  # all of them\n",
        )
        .replace(
            "  name: x  # the name\n",
            "  name: x  # the name\n  annotations:\n    podgate.io/injected: '{\"v\":1}'\n",
        )
        .replace("    args: [\"1\"]\n", "    command: [/podgate/bin/podgate, entrypoint]\n    args: [\"1\"]\n")
        .replace("containerPort: 1\n", "containerPort: 1\n    lifecycle: {postStart: {sleep: {seconds: 1}}}\n")
        .replace("    env: []   # none\n", "    env: []   # none\n    tty: true\n");
    assert_eq!(new, expected);
}

#[test]
fn empty_collections_become_block_style_and_back() {
    let filled = edited(
        POD,
        &[
            insert("spec/containers/0/env/0", json!({"name": "A", "value": "yes"})),
            insert("spec/volumes/0", json!({"name": "v", "emptyDir": {}})),
            set("status/phase", json!("x")),
        ],
    );
    let expected = POD
        .replace("    env: []   # none\n", "    env:   # none\n    - {name: A, value: \"yes\"}\n")
        .replace("  volumes: []\n", "  volumes:\n  - {name: v, emptyDir: {}}\n")
        .replace("status: {}\n", "status: {phase: x}\n");
    assert_eq!(filled, expected);
    let emptied =
        edited(&filled, &[remove("spec/containers/0/env/0"), remove("spec/volumes/0"), remove("status/phase")]);
    assert_eq!(emptied, POD);
}

#[test]
fn null_values_are_replaced() {
    for (text, expected) in [
        ("a:\nb: 1\n", "a: {x: 1}\nb: 1\n"),
        ("a: # c\nb: 1\n", "a: {x: 1} # c\nb: 1\n"),
        ("a: null  # c\nb: 1\n", "a: {x: 1}  # c\nb: 1\n"),
        ("a: ~", "a: {x: 1}"),
        ("b: 1\na:", "b: 1\na: {x: 1}"),
        ("b: 1\r\na:\r\n", "b: 1\r\na: {x: 1}\r\n"),
    ] {
        assert_eq!(edited(text, &[set("a", json!({"x": 1}))]), expected, "{text:?}");
    }
}

#[test]
fn new_items_go_above_the_next_items_comments() {
    let new = edited(
        POD,
        &[insert("spec/containers/0", json!({"name": "z"})), insert("spec/containers/2", json!({"name": "w"}))],
    );
    let expected = POD
        .replace("  # the first\n", "  - name: z\n  # the first\n")
        .replace("  # the second\n", "  - name: w\n  # the second\n");
    assert_eq!(new, expected);
    assert_eq!(edited(&new, &[remove("spec/containers/0"), remove("spec/containers/1")]), POD);
    let last = edited(POD, &[insert("spec/containers/2", json!({"name": "z"}))]);
    assert_eq!(last, POD.replace("containerPort: 1\n", "containerPort: 1\n  - name: z\n"));
}

#[test]
fn moved_items_take_their_comments_along() {
    let new = edited(POD, &[move_item("spec/containers/1", 0)]);
    let b = "  # the second\n  - name: b   # b!\n    args: [\"1\"]\n    ports:\n    - containerPort: 1\n";
    let a = "  # the first\n  - name: a\n    image: x\n    env: []   # none\n";
    assert_eq!(new, POD.replace(&format!("{a}\n{b}"), &format!("{b}\n{a}")));
    assert_eq!(edited(&new, &[move_item("spec/containers/0", 1)]), POD);
    assert_eq!(edited("l:\n- a\n- b\n- c", &[move_item("l/0", 2)]), "l:\n- b\n- c\n- a");
    assert_eq!(edited("l: [a, {b: 1}, c] # x\n", &[move_item("l/2", 0)]), "l: [c, a, {b: 1}] # x\n");
    // In a collection in brackets, the text after an entry belongs to that entry.
    assert_eq!(edited("l: [a, # a\n  b,\n  c]\n", &[move_item("l/0", 1)]), "l: [b,\n  a, # a\n  c]\n");
    assert_eq!(edited("l: [a, # a\n  b]\n", &[insert("l/1", json!("z"))]), "l: [a, # a\n  z, b]\n");
}

#[test]
fn values_are_replaced_in_place() {
    for (text, new, expected) in [
        ("a:   x   # c\n", json!("y"), "a:   \"y\"   # c\n"),
        ("a: [x, y] # c\n", json!({"k": 1}), "a: {k: 1} # c\n"),
        ("a:\n# c\n- x\n- y # d\nb: 1\n", json!(["z"]), "a: [z]\n# c\nb: 1\n"),
        ("a:\n  # c\n  k: 1\nb: 1\n", json!({"l": {"m": 2}}), "a:\n  # c\n  l: {m: 2}\nb: 1\n"),
        ("a: |\n  t\n\nb: 1\n", json!("t"), "a: t\n\nb: 1\n"),
        ("a: |+\n  t\n\nb: 1\n", json!({"k": "v"}), "a: {k: v}\nb: 1\n"),
        ("'a' : \"x\n  y\"\n", json!("z"), "'a' : z\n"),
    ] {
        assert_eq!(edited(text, &[set("a", new)]), expected, "{text:?}");
    }
    assert_eq!(edited("l:\n- a # c\n- b\n", &[set("l/0", json!("z"))]), "l:\n- z # c\n- b\n");
    assert_eq!(edited("l:\n- a # c\n- b\n", &[set("l/0", json!({"x": {"z": 1}}))]), "l:\n- x: {z: 1} # c\n- b\n");
    assert_eq!(edited("l:\n- &a # c\n  x: 1 # d\n- b\n", &[set("l/0", json!("z"))]), "l:\n- z # d\n- b\n");
    assert_eq!(edited("l:\n  - a: 1\n    b: 2\n  - c\n", &[set("l/0", json!({"x": [1]}))]), "l:\n  - x: [1]\n  - c\n");
}

#[test]
fn removal_leaves_other_text_unchanged() {
    for (text, removed, expected) in [
        ("a: 1\n# c\nb: 2\nc: 3\n", "b", "a: 1\n# c\nc: 3\n"),
        ("a: 1\nb:\n  c: |\n    x\n\n# d\nd: 1", "b", "a: 1\n\n# d\nd: 1"),
        ("a: 1\nb: 2", "b", "a: 1"),
        ("c: 1\n? a\n: - x\n  - y\nb: 2\n", "a", "c: 1\nb: 2\n"),
        ("l:\n- a: 1\n  b: 2\n", "l/0/a", "l:\n- b: 2\n"),
        ("l:\n- a\n- b\n", "l/1", "l:\n- a\n"),
        ("l: [a, b, c]\n", "l/1", "l: [a, c]\n"),
        ("l: {a: 1, b: 2}\n", "l/b", "l: {a: 1}\n"),
        ("l: [a,]\n", "l/0", "l: []\n"),
        ("x:\n  l:\n  - a\n  # c\nb: 1\n", "x/l/0", "x:\n  l: []\n  # c\nb: 1\n"),
    ] {
        assert_eq!(edited(text, &[remove(removed)]), expected, "{text:?}");
    }
}

#[test]
fn new_lists_use_the_documents_indentation() {
    let text = "spec:\n    containers:\n      - name: a\n";
    let new = edited(
        text,
        &[set("spec/containers/0/env", json!([{"name": "A", "value": "b"}])), set("spec/x", json!({"k": {"z": 1}}))],
    );
    assert_eq!(
        new,
        "spec:\n    containers:\n      - name: a\n        env:\n          - {name: A, value: b}\n    x: {k: {z: 1}}\n"
    );
}

#[test]
fn json_keeps_its_layout() {
    let pretty = "{\n  \"spec\": {\n    \"containers\": [\n      {\n        \"name\": \"a\"\n      }\n    ],\n    \"volumes\": []\n  }\n}\n";
    let edits = [
        set("spec/containers/0/tty", json!(true)),
        insert("spec/containers/0", json!({"name": "z", "args": ["y"]})),
        insert("spec/volumes/0", json!({"name": "v"})),
    ];
    let new = edited(pretty, &edits);
    let expected = "{\n  \"spec\": {\n    \"containers\": [\n      {\n        \"name\": \"z\",\n        \"args\": [\n          \"y\"\n        ]\n      \
                    },\n      {\n        \"name\": \"a\",\n        \"tty\": true\n      }\n    ],\n    \"volumes\": [{\"name\": \"v\"}]\n  }\n}\n";
    assert_eq!(new, expected);
    let compact = "{\"spec\":{\"containers\":[{\"name\":\"a\"}],\"volumes\":[]}}";
    let expected = "{\"spec\":{\"containers\":[{\"name\":\"z\",\"args\":[\"y\"]},{\"name\":\"a\",\"tty\":true}],\"volumes\":[{\"name\":\"v\"}]}}";
    assert_eq!(edited(compact, &edits), expected);
}

#[test]
fn edits_through_an_alias_expand_it() {
    let text = "a:\n  m: &m\n  - x: 1\n  # c\nb:\n  m: *m   # shared\nc:\n  <<: &d {k: [1]}\n  e: 2\n";
    let new = edited(text, &[insert("b/m/1", json!(2))]);
    assert_eq!(new, text.replace("  m: *m   # shared\n", "  m:   # shared\n  - x: 1\n  - 2\n"));
    let new = edited(text, &[insert("a/m/0", json!(0))]);
    assert_eq!(new, text.replace("&m\n", "&m\n  - 0\n").replace("  m: *m   # shared\n", "  m:   # shared\n  - x: 1\n"));
    let new = edited(text, &[insert("c/k/0", json!(0))]);
    assert_eq!(new, text.replace("  e: 2\n", "  e: 2\n  k: [0, 1]\n"));
}

#[test]
fn edits_of_a_merged_object_expand_the_merge() {
    let text = "l:\n- &a\n  name: a\n  env:\n  - x\n- <<: *a\n  name: b\n";
    let new = edited(text, &[insert("l/0/env/0", json!("w"))]);
    assert_eq!(new, "l:\n- &a\n  name: a\n  env:\n  - w\n  - x\n- name: b\n  env: [x]\n");
    let new = edited(text, &[move_item("l/1", 0)]);
    assert_eq!(new, "l:\n- name: b\n  env: [x]\n- &a\n  name: a\n  env:\n  - x\n");
    let source = Source::parse("f", text.to_owned());
    assert!(source.documents[0].edited(&[remove("l/1/env")]).unwrap_err().message.contains("merge key"));
}

/// In Kubernetes' YAML parser, a merge key replaces the fields above it.
#[test]
fn new_fields_follow_the_merge_key() {
    let text = "d: &d {command: [x]}\nl:\n- name: a\n  args: [y]\n  <<: *d\n";
    let new = edited(text, &[set("l/0/command", json!(["z"]))]);
    assert_eq!(new, format!("{text}  command: [z]\n"));
}

#[test]
fn moved_items_keep_aliases_of_anchors_outside_of_the_list() {
    let text = "d: &d {b: 1}\nl:\n- name: a\n  <<: *d # c\n- name: b\n  e: *d\n";
    let new = edited(text, &[move_item("l/1", 0)]);
    assert_eq!(new, "d: &d {b: 1}\nl:\n- name: b\n  e: *d\n- name: a\n  <<: *d # c\n");
}

#[test]
fn edits_that_do_not_apply_are_rejected() {
    let source = Source::parse("f", POD.to_owned());
    for edit in [
        remove("spec/nothing"),
        insert("spec/containers/7", json!(1)),
        set("kind/x", json!(1)),
        move_item("spec/containers/0", 5),
    ] {
        let error = source.documents[0].edited(std::slice::from_ref(&edit)).unwrap_err();
        assert_eq!(error.at, edit.at);
    }
}

#[test]
fn edits_that_would_lose_a_comment_are_rejected() {
    for (text, edit) in [
        ("x:\n  ? a\n  : - y # c\n", insert("x/a/0", json!("z"))),
        ("? a\n: y # c\n", set("a", json!({"z": 1}))),
        ("a: |-\n  x\nb: 1\n  # c\nc: 1\n", remove("b")),
        ("a: [x, # c\n  y]\n", remove("a/0")),
    ] {
        let source = Source::parse("f", text.to_owned());
        let error = source.documents[0].edited(std::slice::from_ref(&edit)).unwrap_err();
        assert!(!error.at.0.is_empty() && edit.at.0.starts_with(&error.at.0), "{text:?}: {error:?}");
    }
}

#[test]
fn keys_are_found_in_each_notation() {
    for (written, key) in [
        ("b:", "b"),
        ("b c :", "b c"),
        ("it's:", "it's"),
        ("\"b\":", "b"),
        ("'b':", "b"),
        ("'it''s':", "it's"),
        ("'\\b':", "\\b"),
        ("\"\\x62\\\"\" :", "b\""),
        ("\"<<\":", "<<"),
        ("&x \"b\":", "b"),
        ("! b:", "b"),
        ("? b\n:", "b"),
        ("? b\n  c\n:", "b c"),
        ("? \"b\n  c\"\n:", "b c"),
        ("? |-\n  b\n  c\n:", "b\nc"),
        ("? >-\n  b\n  c\n:", "b c"),
    ] {
        let source = Source::parse("f", format!("a: 2\n{written} 1\nc: 3\n"));
        let document = &source.documents[0];
        assert_eq!(document.value[key], 1, "{written}");
        let span = document.span(&Place::root().to(key)).unwrap_or_else(|| panic!("{written}"));
        assert_eq!(&document.text[span], "1", "{written}");
    }
}

#[test]
fn every_string_parses_back_to_itself() {
    let plain = "\
        a y No on TRUE null ~ 0755 1_000 1e3 .5 .inf -.inf 0x1f 12:30:00 2026-11-21 #a - -- --- ... a: = \
        << *a &a !a %a @a `a | > [a {a a] a,b ' ü 😀 5m 0m 5 5Mi 1k 1M 007s 12h --until -x -1 --1 \
        db=Ready a:b http://127.0.0.1:8080/ready /bin/sh / ghcr.io/a/b:1.0 NaN inf Inf -Inf e1 E5 e 0o7 \
        0b1 +1 $$(A) a@sha256:00 :: a::b -y -e nUlL";
    let others = "|a: b|a #b|- a|? a|: a|\"|\\|\n|a\nb\n|\t|\r| a|a |\u{85}|\u{2028}|\u{feff}|\u{7f}|{\"a\": 1}|a\\b|'\"|\
        a \" # b|true |\0|a\u{1b}[0m";
    let mut strings: Vec<String> = plain.split(' ').chain(others.split('|')).map(str::to_owned).collect();
    strings.push("long ".repeat(400));
    for string in &strings {
        // Skip long keys, because YAML allows at most 1,024 characters, and the merge key `<<`.
        let key = if string.len() > 1000 || string == "<<" { "key" } else { string };
        let value = json!({key: [string], "k": {"v": string}});
        for text in ["root: 1\n", "{root: 1}\n", "{\"root\":1}"] {
            edited(text, &[set("root", value.clone())]);
        }
    }
}

#[test]
fn scalars_have_the_types_of_kubernetes() {
    let text = "a: yes\nb: n\nc: 0755\nd: 1_000\ne: \"yes\"\nf: 0o17\ng: ~\nh: 12:30\ni: on\nj: .5\nk: 1e3\nl: 0x1f\n";
    let value = &Source::parse("f", text.to_owned()).documents[0].value;
    let expected = json!({"a": true, "c": 493, "d": 1000, "e": "yes", "g": null, "l": 31});
    for (key, expected) in expected.as_object().unwrap() {
        assert_eq!(value[key], *expected, "{key}");
    }
}

#[test]
fn large_documents_parse() {
    let text: String = (0..60_000).map(|n| format!("- [{n}, 1, 2, 3]\n")).collect();
    assert_eq!(Source::parse("f", text).documents[0].value.as_array().map(Vec::len), Some(60_000));
}
