use podgate::order::declare::grammar::{AFTER, JOB_SIDECARS, ORDER, STOP, parse_list, quoted};

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
    let (steps, _) = parse_list("mesh? = Started & db, DB?", ORDER);
    let found: Vec<_> = steps.iter().flatten().map(|item| (item.until.to_string(), item.is_optional)).collect();
    assert_eq!(found, [("mesh=Started".to_owned(), true), ("db=Ready".to_owned(), false)]);
    assert_eq!(parsed_steps("mesh, *=Started & db, logs")[1], ["*=Started", "db=Ready"]);
}

#[test]
fn reports_each_error_with_its_position() {
    for (text, grammar, word, what) in [
        ("", ORDER, 0..0, "the list is empty"),
        (" ,", ORDER, 0..1, "missing at character 1"),
        ("db,,api", ORDER, 2..3, "missing at character 4"),
        ("db,", ORDER, 2..3, "missing at character 4"),
        ("db & ,api", ORDER, 3..5, "missing at character 5"),
        ("é, db", ORDER, 0..2, "\"é\" is not a container name (character 1)"),
        ("[db, api]", ORDER, 0..9, "\"[db, api]\" has brackets"),
        ("(db & cache), api", ORDER, 0..17, "without brackets"),
        ("a, db -> api", ORDER, 0..12, "-> does not separate containers (character 7)"),
        ("db→api;web", ORDER, 0..12, "→ does not separate containers (character 3)"),
        ("db => api > web", ORDER, 0..15, "=> does not"),
        ("db <- api", ORDER, 0..9, "\"db <- api\" is not a container name (character 1)"),
        ("db api", ORDER, 0..6, "\"db api\" is not a container name"),
        ("- db\n- api\n", ORDER, 0..10, "is not a container name (character 1)"),
        ("db cache, api", ORDER, 0..8, "\"db cache\" is not a container name"),
        ("'db', 'api'", ORDER, 0..4, "is not a container name"),
        ("DB, Api", ORDER, 0..2, "\"DB\" is not a container name, because names are lowercase"),
        ("my_app", ORDER, 0..6, "\"my_app\" is not a container name"),
        ("db:Ready, api", ORDER, 0..8, "\"db:Ready\" has a colon (character 1)"),
        ("db: service_healthy", ORDER, 0..19, "has a colon"),
        ("db=ready", ORDER, 3..8, "\"ready\" is not a state (character 4)"),
        ("db=Healthy, api", ORDER, 3..10, "\"Healthy\" is not a state"),
        ("db=Succeeded, api", ORDER, 3..12, "Started, Ready, Completed, Exited"),
        ("db=Purple, api", ORDER, 3..9, "\"Purple\" is not a state"),
        ("db=", ORDER, 2..3, "\"\" is not a state"),
        ("=Ready", ORDER, 0..6, "not a container name"),
        ("db & api", AFTER, 0..8, "\"db & api\" is not a container name"),
        ("db=Ready, web", STOP, 3..8, "not allowed in a stop order"),
        ("db, *?", ORDER, 4..6, "* cannot have a ? (character 5)"),
        ("*?=Started", STOP, 0..10, "* cannot have a ?"),
        ("db, *", AFTER, 4..5, "* is allowed only in an order or a stop order (character 5)"),
        ("*", JOB_SIDECARS, 0..1, "* is allowed only in"),
        ("db*", ORDER, 0..3, "\"db*\" is not a container name"),
        ("db=Ready", JOB_SIDECARS, 3..8, "a state is not allowed"),
    ] {
        let (_, errors) = parse_list(text, grammar);
        assert_eq!(errors[0].span, word, "{text}: {errors:?}");
        assert!(errors[0].message.contains(what), "{text}: {errors:?}");
    }
    let (_, errors) = parse_list("{{ .Values.order }}", ORDER);
    assert!(errors[0].message.ends_with("was not rendered; check the output of helm template"), "{errors:?}");
}

#[test]
fn quoted_word_is_short_and_escaped() {
    let shown = quoted(&format!("\u{1b}[31m{}", "x".repeat(1000)));
    assert!(shown.len() < 120 && !shown.contains('\u{1b}'), "{shown}");
}
