//! Builds Pods that cost the webhook as much as possible. The benchmark searches for the most expensive Pod, tests
//! check the limits, and the fuzzer changes these Pods.

use podgate::core::container_list::CONTAINERS_MAX;
use podgate::order::declare::limits::{CONTAINER_CHECKS_MAX, JSON_LIST_ITEMS_MAX};
use podgate::order::inject::{self, Options};
use podgate::order::plan::KnownFacts;
use serde_json::{Map, Value, json};

/// The most expensive Pods that the search has found, each as the knobs that differ from the plain Pod.
pub(crate) const COSTLY: &[&str] = &[
    "containers=71 inits=1 name_length=35 order_kind=2 order_names=142 wide=220 mounts=1 word_length=48 istio=826487 listed=1 affinity=999 publish=2",
    "containers=71 order_kind=2 order_names=71 wide=71 check_length=9 word_length=2 istio=4000000",
    "containers=42 natives=184 name_length=63 order_names=220 order_state=1 wide=220 checks=1 check_length=685 words=144 probe=3 hooks=1 hook_words=48",
    "containers=200 natives=88 name_length=7 order_names=200 grace=1 wide=200 ready=2 words=62 word_length=4 probe_words=378 hook_words=0 unknown_fields=10 depth=14 padding_kind=1 key_length=4000000 istio=1548018 injected=2 record_kind=4 listed_waits=200",
    "containers=100 inits=77 natives=30 name_kind=2 order_kind=1 order_names=100 wide=100 check_length=464 ready=1 ports=1 probe=2 probe_words=2 hooks=1 unknown_fields=1 depth=82 key_length=2 injected=2",
    "containers=200 inits=200 name_length=62 name_kind=2 order_names=200 mode=1 wide=140 mount_kind=4 volumes=431 env=1 args=1 probe=6 unknown_fields=1 key_length=1 injected=2 record_kind=4 affinity=274 publish=1",
    "containers=71 order_names=71 order_kind=2 wide=71 padding=3600000 injected=2 mode=1",
    "containers=100 order_kind=1 order_names=100 wide=100 probe=3",
    "containers=71 order_names=71 order_kind=2",
    "containers=100 order_kind=1 order_names=100",
    "containers=200 name_length=63 order_kind=1 order_names=59 wide=3 checks=32 ready=1 env=162 env_length=0 words=999 settings=1 injected=2",
    "containers=20 order_names=20 order_kind=1 wide=20 env=1 env_kind=5 env_length=1024 probe=7 probe_words=3",
    "order_kind=1 env=1 env_kind=6 env_length=1000 probe=7 probe_words=60 wide=1 mode=1",
];

/// One property of a Pod, as a number.
pub(crate) struct Knob {
    pub(crate) name: &'static str,
    /// The number in a plain Pod.
    pub(crate) plain: usize,
    /// Largest number that podgate accepts in a list. For other properties, the largest number that makes a difference.
    pub(crate) max: usize,
    pub(crate) is_list: bool,
}

macro_rules! knobs {
    (@is_list list) => { true };
    (@is_list up) => { false };
    ($($name:ident $plain:literal: $kind:tt $of:ident $max:expr,)*) => {
        #[allow(non_camel_case_types, reason = "the names are those of `Knob::name`")]
        #[derive(Clone, Copy)]
        enum At { $($name,)* }
        pub(crate) const KNOBS: &[Knob] =
            &[$(Knob { name: stringify!($name), plain: $plain, max: $max, is_list: knobs!(@is_list $kind) },)*];
    };
}

knobs! {
    containers 2: list of CONTAINERS_MAX,
    inits 0: list of CONTAINERS_MAX,
    natives 0: up to 220,
    name_length 4: up to 63,
    name_kind 0: up to 2,
    order_kind 0: up to 9,
    order_names 2: up to 220,
    order_state 0: up to 4,
    mode 0: up to 3,
    stop 0: up to 3,
    jobs 0: up to 220,
    policy 0: up to 2,
    grace 0: up to 2,
    wide 2: up to 220,
    checks 0: list of CONTAINER_CHECKS_MAX,
    check_kind 0: up to 6,
    check_length 8: up to 2000,
    ready 0: up to 2,
    mounts 0: list of JSON_LIST_ITEMS_MAX,
    mount_kind 0: up to 4,
    volumes 0: list of JSON_LIST_ITEMS_MAX,
    env 0: list of JSON_LIST_ITEMS_MAX,
    env_kind 0: up to 8,
    env_length 1: up to 8192,
    ports 0: list of JSON_LIST_ITEMS_MAX,
    words 1: list of JSON_LIST_ITEMS_MAX,
    word_length 1: up to 20000,
    args 0: list of JSON_LIST_ITEMS_MAX,
    probe 0: up to 7,
    probe_words 1: list of JSON_LIST_ITEMS_MAX,
    hooks 0: up to 4,
    hook_words 1: list of JSON_LIST_ITEMS_MAX,
    unknown_fields 0: list of JSON_LIST_ITEMS_MAX - 3,
    depth 0: up to 120,
    padding 0: up to 4000000,
    padding_kind 0: up to 3,
    keys 0: list of JSON_LIST_ITEMS_MAX - 1,
    key_kind 0: up to 6,
    key_length 0: up to 4000000,
    labels 0: list of JSON_LIST_ITEMS_MAX,
    istio 0: up to 4000000,
    settings 0: up to 6,
    injected 0: up to 3,
    record 0: up to 60000,
    record_kind 0: up to 4,
    listed 0: up to 20000,
    listed_waits 0: up to 200,
    affinity 0: list of JSON_LIST_ITEMS_MAX - 1,
    ephemeral 0: up to 1100,
    publish 0: up to 2,
}

/// One number for each knob.
pub(crate) type Numbers = Vec<usize>;

/// Parses `name=number` pairs. The other numbers are those of the plain Pod.
pub(crate) fn parse(text: &str) -> Numbers {
    let mut numbers: Numbers = KNOBS.iter().map(|knob| knob.plain).collect();
    for pair in text.split_whitespace() {
        let (name, number) = pair.split_once('=').expect("name=number");
        numbers[position(name)] = number.parse().expect("a number");
    }
    numbers
}

/// Returns the position of the knob `name` in the numbers.
pub(crate) fn position(name: &str) -> usize {
    KNOBS.iter().position(|knob| knob.name == name).unwrap_or_else(|| panic!("no knob {name}"))
}

/// Formats numbers for [`parse`].
pub(crate) fn format(numbers: &[usize]) -> String {
    let changed = KNOBS.iter().zip(numbers).filter(|(knob, number)| knob.plain != **number);
    changed.map(|(knob, number)| format!("{}={number}", knob.name)).collect::<Vec<_>>().join(" ")
}

/// Changes one to three numbers. `random` returns a number below its argument.
pub(crate) fn mutate(numbers: &mut [usize], random: &mut impl FnMut(usize) -> usize) {
    for _ in 0..1 + random(3) {
        let at = random(numbers.len());
        let (knob, now) = (&KNOBS[at], numbers[at]);
        // Allow numbers slightly above the maximum, because the rejection of a Pod costs time too.
        let max = if knob.is_list { knob.max + knob.max / 10 } else { knob.max };
        let bits = random(usize::BITS as usize - max.leading_zeros() as usize + 1);
        let next = [
            knob.plain,
            knob.max,
            random(max + 1),
            random(1 << bits),
            now * 2,
            now / 2,
            now + 1,
            now.saturating_sub(1),
        ];
        numbers[at] = next[random(next.len())].min(max);
    }
}

/// Returns true if the webhook rejects the Pod for its size before it parses anything, or if the Pod is nearly that
/// large.
pub(crate) fn is_too_large(numbers: &[usize]) -> bool {
    let at = |knob: At| numbers[knob as usize];
    let wide = at(At::wide).min(at(At::containers));
    let when = |is: bool, count: usize| if is { count } else { 0 };
    let long_mounts = when(matches!(at(At::mount_kind), 1 | 2), at(At::check_length));
    let words = at(At::words) + at(At::args);
    let probes =
        when(matches!(at(At::probe), 1 | 2 | 7), 3 * at(At::probe_words) * if at(At::probe) == 2 { 3 } else { 1 });
    let items = words
        + 3 * (at(At::mounts) + at(At::env) + at(At::ports))
        + probes
        + at(At::unknown_fields)
        + when(matches!(at(At::hooks), 1 | 4), 2 * at(At::hook_words));
    let items = wide * items + 3 * at(At::volumes) + 8 * at(At::affinity) + 2 * at(At::ephemeral);
    let checks = at(At::checks) * at(At::check_length) * if at(At::check_kind) == 3 { 7 } else { 1 };
    let bytes = wide * (words * at(At::word_length) + at(At::mounts) * long_mounts + checks)
        + when(at(At::env_kind) > 4, wide * at(At::env) * at(At::env_length) * 6)
        + at(At::istio)
        + (at(At::labels) + at(At::keys)) * at(At::key_length)
        + at(At::listed) * at(At::listed_waits).min(at(At::listed)) * at(At::name_length).max(5)
        + when(at(At::probe) == 6, 3 * wide * at(At::probe_words) * at(At::word_length))
        + at(At::padding) * [1, 6, 2, 2][at(At::padding_kind)];
    items > 45_000 || bytes > 4 << 20
}

fn name(kind: usize, length: usize, prefix: &str, n: usize) -> String {
    let number = format!("{n:04}");
    let length = length.max(prefix.len() + 4);
    match kind {
        // The names start with the same long text.
        0 => format!("{prefix}{}{number}", "x".repeat(length - prefix.len() - 4)),
        // The names end with the same long text.
        1 => format!("{prefix}{number}{}", "x".repeat(length - prefix.len() - 4)),
        // The names consist of random letters, so they differ everywhere.
        _ => {
            let mut state = n as u32 + 1;
            let rest = (0..length - prefix.len() - 4).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from(b'a' + (state >> 24) as u8 % 3)
            });
            format!("{prefix}{}{number}", rest.collect::<String>())
        }
    }
}

/// Builds the Pod with these numbers.
pub(crate) fn pod(numbers: &[usize]) -> Value {
    let at = |knob: At| numbers[knob as usize];
    let names: Vec<String> =
        (0..at(At::containers)).map(|n| name(at(At::name_kind), at(At::name_length), "c", n)).collect();
    let init = |prefix, count| -> Vec<String> {
        (0..count).map(|n| name(at(At::name_kind), at(At::name_length), prefix, n)).collect()
    };
    let (inits, natives) = (init("i", at(At::inits)), init("n", at(At::natives)));
    let containers: Vec<Value> = names.iter().enumerate().map(|(n, name)| container(numbers, name, n)).collect();
    let mut others: Vec<Value> = natives.iter().map(|name| json!({"name": name, "image": "i", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": 1}}})).collect();
    others.extend(inits.iter().map(|name| json!({"name": name, "image": "i"})));
    let mut annotations = annotations(numbers, &names, &natives);
    if at(At::padding) > 0 {
        let unit = ["x", "\u{1}", "\\", "é"][at(At::padding_kind)];
        others.push(json!({"name": "padding", "image": "i", "command": [unit.repeat(at(At::padding))]}));
    }
    if at(At::istio) > 0 || at(At::probe) == 3 {
        let text = format!("{{\"a\":[{}0]}}", "0,".repeat(at(At::istio) / 2));
        others.push(json!({"name": "istio-proxy", "image": "i", "restartPolicy": "Always", "env": [{"name": "ISTIO_KUBE_APP_PROBERS", "value": text}]}));
    }
    let volumes: Vec<Value> = (0..at(At::volumes))
        .map(|n| json!({"name": format!("v{}", if at(At::mount_kind) == 4 { 0 } else { n }), "emptyDir": {}}))
        .collect();
    let (mut labels, long) = (Map::new(), "x".repeat(at(At::key_length)));
    for n in 0..at(At::labels) {
        labels.insert(near_key(at(At::key_kind), n) + &long, json!("x"));
    }
    for n in 0..at(At::keys) {
        annotations.insert(near_key(at(At::key_kind), n) + &long, json!(""));
    }
    let mut spec = json!({"containers": containers, "initContainers": others, "volumes": volumes});
    match at(At::policy) {
        1 => spec["restartPolicy"] = json!("Never"),
        2 => spec["restartPolicy"] = json!("OnFailure"),
        _ => {}
    }
    match at(At::grace) {
        1 => spec["terminationGracePeriodSeconds"] = json!(3600),
        2 => spec["terminationGracePeriodSeconds"] = json!(1),
        _ => {}
    }
    if at(At::affinity) > 0 {
        let term = json!({"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}, {"key": "x"}]});
        let mut terms = vec![term; at(At::affinity)];
        terms.push(json!({}));
        spec["affinity"] =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    }
    if at(At::ephemeral) > 0 {
        spec["ephemeralContainers"] = (0..at(At::ephemeral)).map(|n| json!({"name": format!("e{n}")})).collect();
    }
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": annotations, "labels": labels}, "spec": spec});
    if at(At::injected) > 0 {
        forge(numbers, &mut pod);
    }
    pod
}

fn container(numbers: &[usize], own: &str, n: usize) -> Value {
    let at = |knob: At| numbers[knob as usize];
    let mut out = json!({"name": own, "image": "i"});
    // Podgate limits the sum of the values of all containers, so only the first containers have long lists.
    let is_wide = n < at(At::wide);
    let count =
        |knob| if is_wide { at(knob) } else { usize::from(numbers[knob as usize] > 0 && matches!(knob, At::words)) };
    let word = "w".repeat(if is_wide { at(At::word_length) } else { 1 });
    if count(At::words) > 0 {
        out["command"] = vec![json!(word); count(At::words)].into();
    }
    if count(At::args) > 0 {
        out["args"] = vec![json!(word); count(At::args)].into();
    }
    if count(At::mounts) > 0 {
        let long = "/".repeat(at(At::check_length));
        out["volumeMounts"] = (0..count(At::mounts))
            .map(|n| match at(At::mount_kind) {
                0 => json!({"mountPath": format!("/m{n}"), "name": "v0"}),
                1 => json!({"mountPath": format!("/a{long}")}),
                2 => json!({"mountPath": format!("{long}{n}")}),
                3 => json!({"mountPath": "/x", "name": "v0"}),
                _ => json!({"mountPath": "/x/f", "name": "v0"}),
            })
            .collect();
    }
    if count(At::env) > 0 {
        out["env"] = (0..count(At::env))
            .map(|n| match at(At::env_kind) {
                0 => json!({"name": format!("E{n}"), "value": "x"}),
                1 => json!({"name": format!("E{n}"), "value": format!("$(E{})$(E{})", n.saturating_sub(1), n.saturating_sub(1))}),
                2 => json!({"name": "PODGATE_HOLD"}),
                3 => json!({"name": format!("E{n}"), "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
                4 => json!({"name": "PODGATE_CONTAINERS", "value": "[]"}),
                // Characters that need an escape in JSON, or in a command.
                kind => {
                    let unit = ["\"", "\u{1}", "\\", "$("][kind - 5];
                    json!({"name": format!("E{n}"), "value": unit.repeat(at(At::env_length))})
                }
            })
            .collect();
    }
    if count(At::ports) > 0 {
        out["ports"] =
            (0..count(At::ports)).map(|n| json!({"name": format!("p{n}"), "containerPort": n % 60000 + 1})).collect();
    }
    if is_wide && at(At::probe) > 0 {
        let words = vec![json!("$(X) localhost:80 $"); at(At::probe_words)];
        let probe = match at(At::probe) {
            1 => json!({"exec": {"command": words}}),
            2 => {
                json!({"httpGet": {"path": "/", "port": "p9999", "httpHeaders": words.iter().map(|_| json!({"name": "a", "value": "b"})).collect::<Vec<_>>()}})
            }
            3 => json!({"httpGet": {"path": format!("/app-health/{own}/readyz"), "port": 15020}}),
            4 => json!({"tcpSocket": {"port": "p"}}),
            // A small Pod thus becomes a large one: inject expands the variable.
            7 => json!({"exec": {"command": vec!["$(E0)"; at(At::probe_words)]}}),
            6 => json!({"exec": {"command": ["$(".repeat(at(At::word_length) * at(At::probe_words))]}}),
            _ => json!({"grpc": {"port": 1}}),
        };
        out["readinessProbe"] = probe.clone();
        out["startupProbe"] = probe.clone();
        out["livenessProbe"] = probe;
    }
    if is_wide && at(At::hooks) > 0 {
        let words = vec![json!("sleep 1"); at(At::hook_words)];
        let hook = match at(At::hooks) {
            1 => json!({"exec": {"command": words}}),
            2 => json!({"httpGet": {"path": "/", "port": "p9999"}}),
            3 => json!({"sleep": {"seconds": 3}}),
            _ => json!({"exec": {"command": ["/podgate/bin/podgate", "pre-stop", "--then", json!(words).to_string()]}}),
        };
        out["lifecycle"] = json!({"preStop": hook, "postStart": hook});
    }
    for n in 0..count(At::unknown_fields) {
        out[format!("f{n}")] = json!(null);
    }
    if is_wide && at(At::depth) > 0 {
        out["deep"] = (0..at(At::depth)).fold(json!(1), |inner, _| json!([inner]));
    }
    out
}

fn annotations(numbers: &[usize], names: &[String], natives: &[String]) -> Map<String, Value> {
    let at = |knob: At| numbers[knob as usize];
    let mut out = Map::new();
    let state = ["", "=Started", "=Ready", "=Completed", "=Exited"][at(At::order_state)];
    let listed: Vec<String> = names.iter().take(at(At::order_names)).map(|name| format!("{name}{state}")).collect();
    let bare = |n: usize| names[n].clone();
    let count = listed.len();
    let long = at(At::name_length);
    match at(At::order_kind) {
        0 => drop(out.insert("podgate.io/order".into(), listed.join(",").into())),
        1 => drop(out.insert(
            "podgate.io/order".into(),
            format!("{},{}", listed[..count / 2].join("&"), listed[count / 2..].join("&")).into(),
        )),
        2 | 3 => {
            for n in 1..count {
                let from = if at(At::order_kind) == 2 { 0 } else { n - 1 };
                let mut after = listed[from..n].to_vec();
                after.extend(natives.iter().cloned());
                after.truncate(200);
                out.insert(format!("after.podgate.io/{}", bare(n)), after.join(",").into());
            }
        }
        // The order contains unknown names that are similar to the known ones.
        4..=6 => {
            let mark = if at(At::order_kind) == 5 { "?" } else { "" };
            let unknown: Vec<String> =
                (0..at(At::order_names)).map(|n| name(at(At::name_kind), long.max(5) - 1, "d", n) + mark).collect();
            let lists = if at(At::order_kind) == 6 { names.len() } else { 0 };
            for n in 0..lists {
                out.insert(format!("after.podgate.io/{}", bare(n)), unknown.join(",").into());
            }
            out.insert("podgate.io/order".into(), unknown.join(",").into());
        }
        7 => drop(out.insert("podgate.io/order".into(), listed.join(" > ").into())),
        8 => drop(
            out.insert("podgate.io/order".into(), ["A b ", "& ", ", "].concat().repeat(at(At::order_names)).into()),
        ),
        // The containers wait in a cycle.
        _ => {
            for n in 0..count {
                let after: Vec<String> =
                    listed.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, name)| name.clone()).collect();
                out.insert(format!("after.podgate.io/{}", bare(n)), after.join(",").into());
            }
        }
    }
    let mode = ["auto", "entrypoint", "hold", "post-start"][at(At::mode)];
    if at(At::mode) > 0 {
        out.insert("podgate.io/mode".into(), mode.into());
    }
    match at(At::stop) {
        1 => drop(out.insert("podgate.io/stop-order".into(), "reverse".into())),
        2 => drop(out.insert("podgate.io/stop-order".into(), "none".into())),
        3 => {
            let stop: Vec<&str> = names.iter().take(at(At::order_names)).map(String::as_str).collect();
            drop(out.insert(
                "podgate.io/stop-order".into(),
                format!("{},{}", stop[..stop.len() / 2].join("&"), stop[stop.len() / 2..].join("&")).into(),
            ));
        }
        _ => {}
    }
    if at(At::jobs) > 0 {
        let jobs: Vec<&str> = names.iter().rev().take(at(At::jobs)).map(String::as_str).collect();
        out.insert("podgate.io/job-sidecars".into(), jobs.join(",").into());
    }
    if at(At::publish) > 0 {
        out.insert("podgate.io/publish".into(), "none".into());
    }
    if at(At::checks) > 0 {
        let long = "a".repeat(at(At::check_length));
        let check = |n: usize| match at(At::check_kind) {
            0 => format!("file:///{long}"),
            1 => format!("file:///x{}+content", "/".repeat(at(At::check_length))),
            2 => "mount:///x/y".to_owned(),
            3 => format!("exec:[{}\"x\"]", "\"$(X)\",".repeat(at(At::check_length))),
            4 => format!("tcp://h:{}", n % 60000 + 1),
            5 => format!("http://localhost:80/{long}"),
            _ => format!("exc:///{long}"),
        };
        let text: Vec<String> = (0..at(At::checks)).map(check).collect();
        for own in names.iter().take(at(At::wide)) {
            out.insert(format!("check.podgate.io/{own}"), text.join(",").into());
        }
    }
    for own in names.iter().take(at(At::wide)) {
        match at(At::ready) {
            1 => drop(out.insert(format!("ready.podgate.io/{own}"), "unix:///x".into())),
            2 => drop(out.insert(format!("ready.podgate.io/{own}"), "tcp://127.0.0.1:80".into())),
            _ => {}
        }
        let settings: &[(&str, &str)] = match at(At::settings) {
            1 => &[("mode", "entrypoint"), ("timeout", "1h")],
            2 => &[("on-dependency-restart", "restart"), ("timeout", "1h")],
            3 => &[("command", "[\"x\",\"$$(X)\"]"), ("image", "i")],
            4 => &[("mode", "enrtypoint")],
            5 => &[("mode", "post-start")],
            6 => &[("image", "j"), ("mode", "hold"), ("timeout", "x")],
            _ => &[],
        };
        for (key, value) in settings {
            out.insert(format!("{key}.podgate.io/{own}"), (*value).into());
        }
    }
    out
}

fn near_key(kind: usize, n: usize) -> String {
    match kind {
        0 => format!("podgate.io/ordr{n}"),
        1 => format!("aftr.podgate.io/{n}"),
        2 => format!("on-provider-restrt.pod{n}.io/x"),
        3 => format!("example.com/{n}"),
        4 => format!("c{n:04}"),
        5 => format!("on-dependency-restartz.podgate.i/{n}"),
        _ => format!("status.podgate.io/{n}"),
    }
}

fn options() -> Options {
    Options { is_from_api: true, ..Options::new("podgate:dev") }
}

/// Injects the Pod, and tampers with parts that podgate has written, such as the record of the injection.
fn forge(numbers: &[usize], pod: &mut Value) {
    let at = |knob: At| numbers[knob as usize];
    if let Ok(injected) = inject::inject(pod, &options(), &KnownFacts::default()) {
        *pod = injected.value;
    } else {
        pod["metadata"]["annotations"]["podgate.io/injected"] =
            json!({"version": env!("CARGO_PKG_VERSION")}).to_string().into();
    }
    let record = &mut pod["metadata"]["annotations"]["podgate.io/injected"];
    if at(At::record) > 0 {
        let mut parsed: Value =
            record.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| json!({"version": "x"}));
        match at(At::record_kind) {
            0 => parsed["was"] = json!({"volumes": vec![0; at(At::record)]}),
            1 => {
                parsed["containers"] = (0..at(At::record))
                    .map(|n| (name(at(At::name_kind), at(At::name_length), "c", n), json!({"no": ["args"]})))
                    .collect::<Map<_, _>>()
                    .into()
            }
            2 => {
                parsed["order"] =
                    (0..at(At::record)).rev().map(|n| name(at(At::name_kind), at(At::name_length), "c", n)).collect()
            }
            3 => {
                parsed["was"] = json!({"annotations": (0..at(At::record)).map(|n| (format!("a{n}"), json!(0))).collect::<Map<_, _>>()})
            }
            _ => {
                parsed["containers"] = json!({name(at(At::name_kind), at(At::name_length), "c", 0): {"was": {"command": vec!["x"; at(At::record)]}}})
            }
        }
        *record = parsed.to_string().into();
    }
    if at(At::listed) > 0 {
        let listed = |n| name(at(At::name_kind), at(At::name_length), "c", n);
        let entry = |n: usize| {
            let until: Vec<String> = (n.saturating_sub(at(At::listed_waits))..n).map(listed).collect();
            json!({"name": listed(n), "mode": "entrypoint", "until": until})
        };
        let list: Vec<Value> = (0..at(At::listed)).map(entry).collect();
        if let Some(value) = pod.pointer_mut("/spec/initContainers/0/env/0/value") {
            *value = json!(list).to_string().into();
        }
    }
    match at(At::injected) {
        2 => pod["metadata"]["annotations"]["podgate.io/timeout"] = "7m".into(),
        3 => drop(
            pod["metadata"]["annotations"].as_object_mut().map(|all| all.retain(|key, _| key == "podgate.io/injected")),
        ),
        _ => {}
    }
}

/// Returns the review of `pod` as the API server sends it.
pub(crate) fn review(pod: &Value) -> Vec<u8> {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE", "object": pod},
    })
    .to_string()
    .into_bytes()
}
