//! Limits on the size of a template: each list is accepted at its maximum, and rejected with one more item.

#[allow(dead_code, reason = "shared with the benchmark")]
#[path = "../../common/costly_pods.rs"]
mod costly_pods;

use costly_pods::{COSTLY, KNOBS, format, is_too_large, mutate, parse, pod, position, review};
use podgate::order::admission::{Outcome, answer};
use podgate::order::assigned::AssignedOrders;
use podgate::order::declare::check_undeclared;
use podgate::order::declare::limits::{JSON_VALUES_MAX, POD_WAITS_MAX};
use podgate::order::edit::{JSON_SIZE_MAX, json_length};
use podgate::order::inject::{self, Options};
use podgate::order::lint::{self, Target};
use podgate::order::plan::{KnownFacts, plan};
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns the messages of all errors about the size of `pod`, from every function that reads a Pod of a user.
fn size_errors(pod: &Value) -> String {
    let known = KnownFacts::default();
    let injected = inject::inject(pod, &Options::new("podgate"), &known).err();
    let planned = plan(pod, &known).err();
    let mut errors = String::new();
    for found in injected.into_iter().chain(planned).flatten() {
        if matches!(found.rule, "template-too-large" | "too-many-containers") || found.message.starts_with("more than")
        {
            let _ = writeln!(errors, "{found}");
        }
    }
    errors
}

/// One row for each list whose size the benchmark's search changes: the list, the other numbers of the Pod, and the
/// error with one more item.
const LISTS: &[(&str, &str, &str)] = &[
    ("containers", "", "201 containers, but podgate supports at most 200"),
    ("inits", "", "201 containers, but podgate supports at most 200"),
    ("checks", "containers=3 wide=1", "[\"check.podgate.io/c0000\"]: more than 64 checks"),
    ("mounts", "wide=1", "volumeMounts of c0000 has 1001 items, but podgate supports at most 1000"),
    ("volumes", "", "spec.volumes has 1001 items"),
    ("env", "wide=1", "env of c0000 has 1001 items"),
    ("ports", "wide=1", "ports of c0000 has 1001 items"),
    ("words", "wide=1", "command of c0000 has 1001 items"),
    ("args", "wide=1", "args of c0000 has 1001 items"),
    ("probe_words", "wide=1 probe=1", "readinessProbe.exec.command of c0000 has 1001 items"),
    ("hook_words", "wide=1 hooks=1", "lifecycle.preStop.exec.command of c0000 has 1001 items"),
    ("unknown_fields", "wide=1", "spec.containers[0] has 1001 items"),
    ("keys", "key_kind=3", "metadata.annotations has 1001 items"),
    ("labels", "key_kind=3", "metadata.labels has 1001 items"),
    ("affinity", "", "nodeSelectorTerms has 1001 items"),
];

#[test]
fn each_list_is_rejected_above_its_maximum() {
    let tested: Vec<&str> = LISTS.iter().map(|(list, ..)| *list).collect();
    let searched: Vec<&str> = KNOBS.iter().filter(|knob| knob.is_list).map(|knob| knob.name).collect();
    assert_eq!(tested, searched);
    for (list, others, expected) in LISTS {
        let mut numbers = parse(others);
        let max = KNOBS[position(list)].max;
        numbers[position(list)] = max;
        assert_eq!(size_errors(&pod(&numbers)), "", "{list}: {max}");
        numbers[position(list)] = max + 1;
        let errors = size_errors(&pod(&numbers));
        assert!(errors.contains(expected), "{list}: {max} + 1: {errors:?}");
    }
}

#[test]
fn sums_are_rejected_above_their_maximum() {
    let waits = |count: usize| parse(&format!("containers={count} order_names={count} order_kind=2"));
    assert_eq!(size_errors(&pod(&waits(71))), "");
    assert!(size_errors(&pod(&waits(72))).contains(&format!("more than {POD_WAITS_MAX} waits")));
    for lists in ["order_kind=1", "stop=3", "jobs=70 policy=1", "checks=25 wide=102"] {
        let count = if lists.contains("jobs") { 140 } else { 102 };
        let errors = size_errors(&pod(&parse(&format!("containers={count} order_names={count} {lists}"))));
        assert!(errors.contains(&format!("more than {POD_WAITS_MAX} waits")), "{lists}: {errors}");
    }
    // Each container has the fields name, image and command beside its args.
    let values = |args: usize| parse(&format!("containers=20 wide=20 args={args}"));
    assert_eq!(size_errors(&pod(&values(980))), "");
    assert!(size_errors(&pod(&values(1000))).contains(&format!("podgate supports at most {JSON_VALUES_MAX}")));
    let mut words = pod(&parse(""));
    words["metadata"]["annotations"]["command.podgate.io/c0000"] = json!(json!(vec!["x"; JSON_VALUES_MAX]).to_string());
    assert!(size_errors(&words).contains(&format!("podgate supports at most {JSON_VALUES_MAX}")));
}

/// Each part is within its own limit.
#[test]
fn large_pod_and_large_changes_are_rejected() {
    let padded = |padding: usize| parse(&format!("padding={padding}"));
    assert_eq!(size_errors(&pod(&padded(JSON_SIZE_MAX - 4096))), "");
    assert!(size_errors(&pod(&padded(JSON_SIZE_MAX))).contains("bytes as JSON, but podgate supports at most 1048576"));
    // Podgate's hooks contain the user's hooks, and the backslashes are escaped again at each level.
    let hooks = |words: usize, padding: usize| {
        let counts = "containers=20 order_names=20 order_kind=1 wide=20 hooks=1 stop=1";
        let mut pod = pod(&parse(&format!("{counts} padding={padding}")));
        for container in pod["spec"]["containers"].as_array_mut().unwrap() {
            container["lifecycle"]["preStop"]["exec"]["command"] = vec!["\\".repeat(100); words].into();
        }
        pod
    };
    assert_eq!(size_errors(&hooks(20, 0)), "");
    for (words, padding, expected) in
        [(100, JSON_SIZE_MAX / 2, "the injected Pod has"), (200, 0, "podgate would add more than 1048576 bytes")]
    {
        assert!(json_length(&hooks(words, padding)) < JSON_SIZE_MAX);
        let errors = size_errors(&hooks(words, padding));
        assert!(errors.contains(expected), "{errors}");
    }
}

/// Podgate's webhook gets its own output again, for example after another webhook has changed the Pod.
#[test]
fn injected_pod_at_the_limits_is_accepted_again() {
    for numbers in
        ["containers=71 order_names=71 order_kind=2 wide=5 words=900 env=300", "wide=1 words=1000 mounts=1000"]
    {
        let (plain, options) = (pod(&parse(numbers)), Options { is_from_api: true, ..Options::new("podgate") });
        let injected = inject::inject(&plain, &options, &KnownFacts::default()).unwrap();
        let again = inject::inject(&injected.value, &options, &KnownFacts::default()).unwrap();
        assert_eq!(again.edits, [], "{numbers}");
        assert_eq!(inject::uninject(&injected.value).unwrap().value, plain, "{numbers}");
    }
}

/// Podgate ignores a Pod of any size that has no part of podgate.
#[test]
fn large_pod_without_podgate_has_no_findings() {
    let mut large = pod(&parse("containers=30 wide=30 env=900"));
    large["metadata"]["annotations"] = json!({});
    assert_eq!(check_undeclared(&large), []);
    assert_eq!(lint::check_handwritten(&large), None);
    large["metadata"]["annotations"] = json!({"podgate.io/timeout": "5m"});
    assert_eq!(check_undeclared(&large)[0].rule, "template-too-large");
}

/// JSON texts inside a Pod can have many more values than the Pod itself.
#[test]
fn json_texts_with_many_values_are_ignored() {
    let with = |count: usize| {
        let mut pod = pod(&parse("probe=3 istio=2"));
        let probers = json!({"/app-health/c0000/readyz": {"tcpSocket": {"port": 1}}, "x": vec![0; count]});
        let proxy = pod["spec"]["initContainers"].as_array_mut().unwrap().last_mut().unwrap();
        proxy["env"][0]["value"] = probers.to_string().into();
        inject::inject(&pod, &Options::new("podgate"), &KnownFacts::default()).unwrap().findings
    };
    let is_unknown =
        |count| with(count).iter().any(|found| found.rule == "probe-rewritten" && found.message.contains("of c0000"));
    assert!(!is_unknown(JSON_VALUES_MAX - 10));
    assert!(is_unknown(JSON_VALUES_MAX));
}

#[test]
fn costly_pods_get_an_answer() {
    let options = Options { is_from_api: true, ..Options::new("podgate") };
    let inject = |_: &str, pod: &Value| inject::inject(pod, &options, &KnownFacts::default());
    for numbers in COSTLY {
        let pod = pod(&parse(numbers));
        lint::check_plain(&pod, None, Target::default());
        let body = review(&pod);
        let answer =
            answer(&body, &inject, &AssignedOrders::default()).unwrap_or_else(|error| panic!("{numbers}: {error}"));
        assert!(matches!(
            answer.outcome,
            Outcome::Injected | Outcome::Refused | Outcome::Unchanged | Outcome::Deferred
        ));
    }
}

/// Returns the outcome for `numbers`; `None` if the review has too many values. Checks that the sizes of the injected
/// Pod and of the answer are within their limits.
fn bounded_outcome(numbers: &[usize]) -> Option<Outcome> {
    let options = Options { is_from_api: true, ..Options::new("podgate") };
    let inject = |_: &str, pod: &Value| {
        let injected = inject::inject(pod, &options, &KnownFacts::default())?;
        let size = ["metadata", "spec"].map(|field| json_length(&injected.value[field])).iter().sum::<usize>();
        assert!(size <= JSON_SIZE_MAX || injected.edits.is_empty(), "{size} bytes: {}", format(numbers));
        Ok(injected)
    };
    let answer = answer(&review(&pod(numbers)), &inject, &AssignedOrders::default()).ok()?;
    // Base64 needs four bytes for three. Warnings, or the reason of a denial, have at most 8 KiB (`MESSAGE_MAX`).
    let max = JSON_SIZE_MAX.div_ceil(3) * 4 + (16 << 10);
    let length = json_length(&answer.body);
    assert!(length <= max, "an answer of {length} bytes: {}", format(numbers));
    Some(answer.outcome)
}

/// Each variable is small, and so is the Pod.
#[test]
fn small_pod_does_not_become_large() {
    for kind in 5..9 {
        for (length, words) in [(1, 1000), (100, 250), (1024, 127), (8192, 15)] {
            let numbers = |containers, mode| {
                parse(&format!(
                    "containers={containers} wide={containers} order_names={containers} order_kind=1 mode={mode} env=1 \
                     env_kind={kind} env_length={length} probe=7 probe_words={words}"
                ))
            };
            for (containers, mode) in [(2, 0), (2, 3), (4, 0), (20, 0), (20, 3), (60, 0)] {
                bounded_outcome(&numbers(containers, mode));
            }
            if length > 1 {
                assert_eq!(bounded_outcome(&numbers(40, 0)), Some(Outcome::Refused), "{kind}, {length}");
            }
        }
    }
}

/// Changes the known expensive Pods at random.
#[test]
fn random_hostile_pods_get_a_bounded_outcome() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for start in COSTLY {
        let mut numbers = parse(start);
        for _ in 0..5 {
            mutate(&mut numbers, &mut random);
            if !is_too_large(&numbers) {
                bounded_outcome(&numbers);
            }
        }
    }
}
