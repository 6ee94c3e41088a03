//! Tests of `podgate::core::container_list`.

use podgate::core::container::{Container, Mode};
use podgate::core::container_list::*;

fn container(name: &str, mode: Mode, until: &[&str]) -> Container {
    let until = until.iter().map(|text| text.parse().unwrap()).collect();
    Container { name: name.to_owned(), mode, until, ..Container::default() }
}

#[test]
fn hooks_may_precede_gates() {
    let list = [
        container("db", Mode::PostStart, &["db"]),
        container("log", Mode::None, &[]),
        container("api", Mode::Entrypoint, &["db"]),
        container("web", Mode::Entrypoint, &["api", "db"]),
    ];
    assert_eq!(check_can_start(&list), Ok(()));
    let parent = [container("migrate", Mode::Entrypoint, &[]), container("db", Mode::PostStart, &[])];
    assert_eq!(check_can_start(&parent), Ok(()), "a gate without conditions is open");
}

#[test]
fn cycle_is_reported() {
    let list = [
        container("x", Mode::Entrypoint, &["a"]),
        container("a", Mode::Entrypoint, &["b"]),
        container("b", Mode::Entrypoint, &["c"]),
        container("c", Mode::Entrypoint, &["a"]),
    ];
    assert_eq!(
        check_can_start(&list).unwrap_err().to_string(),
        "containers wait for each other: a waits for b, b waits for c, c waits for a"
    );
    assert!(check_can_start(&[container("a", Mode::Entrypoint, &["a"])]).is_err());
}

#[test]
fn dense_graph_visits_each_container_once() {
    let mut list = vec![container("c0", Mode::Entrypoint, &[])];
    for n in 1..60 {
        let before: Vec<String> = (0..n).map(|m| format!("c{m}")).collect();
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        list.push(container(&format!("c{n}"), Mode::Entrypoint, &before));
    }
    assert_eq!(check_can_start(&list), Ok(()));
}

#[test]
fn invalid_lists_are_rejected() {
    for (json, expected) in [
        ("", "not a JSON list"),
        ("{}", "not a JSON list"),
        (r#"[{"name":"A"}]"#, "\"A\" is not a container name"),
        (&format!("[{}]", vec![r#"{"name":"a"}"#; 201].join(",")), "201 containers, but podgate supports at most 200"),
        (r#"[{"name":"a"},{"name":"a"}]"#, "listed twice"),
        (r#"[{"name":"a","until":["b"]}]"#, "waits for b, which is not in the list"),
        (r#"[{"name":"a","until":["b=x"]}]"#, "not a state to wait for"),
        (r#"[{"name":"a","mode":"entrypoint","until":["b"]},{"name":"b","mode":"post-start"}]"#, "put b before a"),
        (r#"[{"name":"a","readinessProbe":{}}]"#, "not a JSON list"),
    ] {
        let error = parse_list(json).unwrap_err().to_string();
        assert!(error.contains(expected), "{json}: {error}");
    }
}
