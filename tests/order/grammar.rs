use podgate::order::declare::grammar::{AFTER, ORDER, SIDECARS, STOP, quoted};
use podgate::order::declare::parse_list;

fn parsed_steps(text: &str) -> Vec<Vec<String>> {
    let (steps, errors) = parse_list(text, ORDER);
    assert_eq!(errors, []);
    steps.iter().map(|step| step.iter().map(|item| item.until.to_string()).collect()).collect()
}

#[test]
fn parses_steps_and_parallel_containers() {
    assert_eq!(
        parsed_steps("migrate=Completed, db & cache ,api,\n web = Started"),
        [&["migrate=Completed"][..], &["db=Ready", "cache=Ready"], &["api=Ready"], &["web=Started"]]
    );
    let (steps, _) = parse_list(" db & cache", ORDER);
    assert_eq!((steps[0][0].span.clone(), steps[0][1].span.clone()), (1..3, 6..11));
    assert!(!steps[0][0].has_explicit_state);
    let (steps, _) = parse_list("mesh? = Started & db, DB?", ORDER);
    let found: Vec<_> = steps.iter().flatten().map(|item| (item.until.to_string(), item.is_optional)).collect();
    assert_eq!(found, [("mesh=Started".to_owned(), true), ("db=Ready".to_owned(), false)]);
    assert_eq!(parsed_steps("mesh, *=Started & db, logs")[1], ["*=Started", "db=Ready"]);
    let (_, errors) = parse_list("MESH? -> db", ORDER);
    assert_eq!(errors[0].fix.as_deref(), Some("write mesh?, db"));
}

#[test]
fn reports_each_error_with_its_position_and_the_corrected_text() {
    for (text, grammar, word, what, fix) in [
        ("", ORDER, 0..0, "the list is empty", None),
        (" ,", ORDER, 0..1, "missing at character 1", None),
        ("db,,api", ORDER, 2..3, "missing at character 4", Some("db, api")),
        ("db,", ORDER, 2..3, "missing at character 4", Some("db")),
        ("db & ,api", ORDER, 3..5, "missing at character 5", Some("db, api")),
        ("é, db", ORDER, 0..2, "\"é\" is not a container name (character 1)", None),
        ("[db, api]", ORDER, 0..9, "\"[db, api]\" has brackets", Some("db, api")),
        ("(db & cache), api", ORDER, 0..17, "without brackets", Some("db & cache, api")),
        ("a, db -> api", ORDER, 0..12, "-> does not separate containers (character 7)", Some("a, db, api")),
        ("db→api;web", ORDER, 0..12, "→ does not separate containers (character 3)", Some("db, api, web")),
        ("db => api > web", ORDER, 0..15, "=> does not", Some("db, api, web")),
        ("db <- api", ORDER, 0..9, "\"db <- api\" is not a container name (character 1)", None),
        ("db api", ORDER, 0..6, "\"db api\" is not a container name", Some("db, api")),
        ("- db\n- api\n", ORDER, 0..10, "is not a container name (character 1)", Some("db, api")),
        ("db cache, api", ORDER, 0..8, "\"db cache\" is not a container name", None),
        ("'db', 'api'", ORDER, 0..4, "is not a container name", Some("db, api")),
        ("DB, Api", ORDER, 0..2, "\"DB\" is not a container name, because names are lowercase", Some("db, api")),
        ("my_app", ORDER, 0..6, "\"my_app\" is not a container name", Some("my-app")),
        ("db:Ready, api", ORDER, 0..8, "\"db:Ready\" has a colon (character 1)", Some("db=Ready, api")),
        ("db: service_healthy", ORDER, 0..19, "has a colon", Some("db=Ready")),
        ("db=ready", ORDER, 3..8, "\"ready\" is not a state (character 4)", Some("db=Ready")),
        ("db=Healthy, api", ORDER, 3..10, "\"Healthy\" is not a state", Some("db=Ready, api")),
        ("db=Succeeded, api", ORDER, 3..12, "Started, Ready, Completed, Exited", Some("db=Completed, api")),
        ("db=Purple, api", ORDER, 3..9, "\"Purple\" is not a state", None),
        ("db=", ORDER, 2..3, "\"\" is not a state", Some("db")),
        ("=Ready", ORDER, 0..6, "not a container name", None),
        ("db & api", AFTER, 0..8, "\"db & api\" is not a container name", Some("db, api")),
        ("db=Ready, web", STOP, 3..8, "not allowed in a stop order", Some("db, web")),
        ("db, *?", ORDER, 4..6, "* cannot have a ? (character 5)", Some("db, *")),
        ("*?=Started", STOP, 0..10, "* cannot have a ?", Some("*")),
        ("db, *", AFTER, 4..5, "* is allowed only in an order or a stop order (character 5)", None),
        ("*", SIDECARS, 0..1, "* is allowed only in", None),
        ("db*", ORDER, 0..3, "\"db*\" is not a container name", None),
        ("db=Ready", SIDECARS, 3..8, "a state is not allowed", Some("db")),
    ] {
        let (_, errors) = parse_list(text, grammar);
        assert_eq!(errors[0].span, word, "{text}: {errors:?}");
        assert!(errors[0].message.contains(what), "{text}: {errors:?}");
        assert_eq!(errors[0].fix, fix.map(|fix| format!("write {fix}")), "{text}: {errors:?}");
        assert!(errors.len() == 1 || fix.is_none(), "{text}: {errors:?}");
    }
    let (_, errors) = parse_list("{{ .Values.order }}", ORDER);
    assert_eq!(errors[0].message, "\"{{ .Values.order }}\" is a Helm template that was not rendered");
    assert!(errors[0].fix.as_ref().unwrap().contains("helm template"), "{errors:?}");
}

#[test]
fn quoted_word_is_short_and_escaped() {
    let shown = quoted(&format!("\u{1b}[31m{}", "x".repeat(1000)));
    assert!(shown.len() < 120 && !shown.contains('\u{1b}'), "{shown}");
}
