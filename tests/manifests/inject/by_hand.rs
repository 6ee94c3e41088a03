//! Tests that a later injection keeps what a person added to podgate's parts, and reports the changes that it reverts.

use super::{IMAGE, injected, lines, options};
use podgate::order::edit::Place;
use podgate::order::inject::{Injected, Options, inject, keep_earlier_settings, uninject};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

/// Pod with a gate, a postStart hook, preStop hooks and a startupProbe, depending on the mode.
fn pod(mode: &str) -> Value {
    let container = |name: &str, port: u16| {
        let probe = json!({"tcpSocket": {"port": port}});
        let startup = if name == "api" { json!({"exec": {"command": ["started"]}}) } else { probe.clone() };
        json!({"name": name, "image": "x", "command": [name], "readinessProbe": probe, "startupProbe": startup,
               "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}})
    };
    json!({"metadata": {"annotations": {"podgate.io/order": "db, api", "podgate.io/mode": mode,
                                         "podgate.io/stop-order": "reverse"}},
           "spec": {"containers": [container("db", 1), container("api", 2)]}})
}

fn field(template: &Value, container: &str, field: &str) -> Place {
    let list = Place::spec("containers");
    let at = list.items(template).iter().position(|item| item["name"] == container).unwrap();
    match field {
        "command" => list.to(at).to("command"),
        "startupProbe" => list.to(at).to("startupProbe").to("exec").to("command"),
        hook => list.to(at).to("lifecycle").to(hook).to("exec").to("command"),
    }
}

/// Returns the list of words at `at`.
fn words<'a>(template: &'a mut Value, at: &Place) -> &'a mut Vec<Value> {
    template.pointer_mut(&at.pointer()).and_then(Value::as_array_mut).unwrap_or_else(|| panic!("{at}"))
}

fn again(template: &Value) -> Injected {
    inject(template, &options(), &KnownFacts::default()).unwrap_or_else(|found| panic!("{}", lines(&found)))
}

/// Every field with a command line of the agent: mode, container, field, and flags that `inject` never writes there.
const ADDED: [(&str, &str, &str, &[&str]); 6] = [
    ("entrypoint", "api", "command", &["--command-timeout", "5m"]),
    ("entrypoint", "api", "command", &["--post-file=-x", "--on-error", "continue"]),
    ("entrypoint", "db", "command", &["--on-error=fail", "--grace", "5s", "--log-format", "json"]),
    ("entrypoint", "api", "startupProbe", &["--self", "/podgate-self"]),
    ("post-start", "db", "postStart", &["--log-format", "json", "--log-to", "/proc/1/fd/2"]),
    ("post-start", "db", "preStop", &["--log-format=json"]),
];

#[test]
fn added_flags_stay_and_uninject_restores_the_original() {
    for (mode, container, short, flags) in ADDED {
        for first in [true, false] {
            let template = pod(mode);
            let mut edited = injected(&template).value;
            let at = field(&edited, container, short);
            let line = words(&mut edited, &at);
            let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
            let from = if first { 2 } else { end };
            line.splice(from..from, flags.iter().map(|word| json!(word)));

            let kept = again(&edited);
            assert_eq!((&kept.value, kept.edits.len()), (&edited, 0), "{mode} {container} {short}");
            assert_eq!(lines(&kept.findings), lines(&injected(&template).findings));
            assert_eq!(uninject(&edited).unwrap().value, template);
            let webhook = Options { is_from_api: true, ..options() };
            assert!(inject(&edited, &webhook, &KnownFacts::default()).unwrap().edits.is_empty());

            // A change of the declaration changes podgate's flags only.
            let mut plain = template.clone();
            for one in [&mut edited, &mut plain] {
                one["metadata"]["annotations"]["podgate.io/timeout"] = json!("77s");
                one["spec"]["terminationGracePeriodSeconds"] = json!(99);
            }
            let mut updated = again(&edited).value;
            let line = words(&mut updated, &at);
            for flag in flags.iter().flat_map(|flag| flag.split('=')) {
                assert!(
                    line.iter().any(|word| word.as_str().is_some_and(|word| word.contains(flag))),
                    "{flag}: {line:?}"
                );
            }
            assert_eq!(uninject(&updated).unwrap().value, plain);
            assert!(again(&updated).edits.is_empty(), "a third injection must change nothing");
            let fresh = injected(&plain).value;
            let mut without = updated.clone();
            *words(&mut without, &at) = words(&mut fresh.clone(), &at).clone();
            assert_eq!(without, fresh, "only the line with the added flags may differ");
        }
    }
}

#[test]
fn changes_of_podgates_own_flags_are_reported_and_written_again() {
    for (mode, container, short, old, new, expected) in [
        (
            "entrypoint",
            "api",
            "command",
            "5m",
            "6m",
            "inject writes --timeout 5m in place of --timeout 6m in podgate's gate of api; the template was changed by hand",
        ),
        (
            "entrypoint",
            "db",
            "preStop",
            "25s",
            "27s",
            "inject writes --grace 25s in place of --grace 27s in podgate's preStop of db; the template was changed by hand",
        ),
        (
            "entrypoint",
            "api",
            "startupProbe",
            "exec:[\"started\"]",
            "exec:[\"ready\"]",
            "inject writes --check exec:[\"started\"] in place of --check exec:[\"ready\"] in podgate's startupProbe of api; the template was changed by hand",
        ),
        (
            "post-start",
            "db",
            "postStart",
            "5m",
            "6m",
            "inject writes --timeout 5m in place of --timeout 6m in podgate's postStart of db; the template was changed by hand",
        ),
    ] {
        let template = pod(mode);
        let once = injected(&template).value;
        let mut edited = once.clone();
        let at = field(&edited, container, short);
        let word = words(&mut edited, &at).iter_mut().find(|word| *word == old);
        *word.unwrap_or_else(|| panic!("{old} in {once:#}")) = json!(new);
        let done = again(&edited);
        assert_eq!(done.value, once, "{short}");
        let found: Vec<_> = done.findings.iter().filter(|finding| finding.rule == "injected-changed").collect();
        let [one] = found.as_slice() else { panic!("{short}: {}", lines(&done.findings)) };
        assert_eq!(one.message, expected);
        assert_eq!(one.at.0[..3], at.0[..3]);
    }
    // A change of the declaration does not count as a change by hand.
    let mut declared = injected(&pod("entrypoint")).value;
    declared["metadata"]["annotations"]["podgate.io/timeout"] = json!("1m");
    assert!(!lines(&again(&declared).findings).contains("injected-changed"));
}

#[test]
fn a_flag_that_has_no_gate_any_more_is_reported() {
    let mut edited = injected(&pod("entrypoint")).value;
    let at = field(&edited, "api", "command");
    words(&mut edited, &at).splice(2..2, [json!("--post-file"), json!("/tmp/out")]);
    edited["metadata"]["annotations"]["podgate.io/mode"] = json!("hold");
    let found = lines(&again(&edited).findings);
    assert!(found.contains("inject writes nothing in place of --post-file /tmp/out"), "{found}");
}

#[test]
fn the_sidecars_settings_stay_or_are_reported() {
    let given = |image: &str| Options {
        image_pull_policy: Some("Never".to_owned()),
        has_fixed_user: false,
        ..Options::new(image)
    };
    let once = inject(&pod("auto"), &given("corp/podgate:1"), &KnownFacts::default()).unwrap().value;
    let mut kept = Options::new(IMAGE);
    assert_eq!(keep_earlier_settings(&once, &mut kept, false).as_deref(), Some("keeps image corp/podgate:1"));
    assert_eq!(kept, given("corp/podgate:1"));
    let mut other = Options::new(IMAGE);
    assert_eq!(keep_earlier_settings(&once, &mut other, true), None);
    assert_eq!(other, given(IMAGE));
    assert_eq!(keep_earlier_settings(&pod("auto"), &mut Options::new(IMAGE), false), None);

    let mut edited = once.clone();
    let sidecar = &mut edited["spec"]["initContainers"][0];
    sidecar["resources"]["limits"]["memory"] = json!("64Mi");
    sidecar["securityContext"]["readOnlyRootFilesystem"] = json!(false);
    let done = inject(&edited, &kept, &KnownFacts::default()).unwrap();
    assert_eq!(done.value, once);
    for field in ["resources", "securityContext"] {
        let expected = format!("initContainers[0].{field}: inject writes the {field} of podgate's sidecar again");
        assert!(lines(&done.findings).contains(&expected), "{}", lines(&done.findings));
    }
}
