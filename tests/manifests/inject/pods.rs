//! Generates random Pods, including unusual ones.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

const NAMES: [&str; 6] = ["db", "api", "web", "log", "migrate", "x-1"];

/// Generates a field that is absent, null, or one of these values.
fn field(values: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    prop_oneof![3 => Just(None), 1 => Just(Some(Value::Null)), 6 => values.prop_map(Some)].boxed()
}

fn object(fields: Vec<(&'static str, BoxedStrategy<Option<Value>>)>) -> BoxedStrategy<Value> {
    let (keys, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    let filled = move |values: Vec<Option<Value>>| {
        let found = keys.iter().zip(values).filter_map(|(key, value)| Some(((*key).to_owned(), value?)));
        Value::Object(found.collect::<Map<_, _>>())
    };
    values.prop_map(filled).boxed()
}

fn always(value: Value) -> BoxedStrategy<Option<Value>> {
    Just(Some(value)).boxed()
}

fn word() -> BoxedStrategy<&'static str> {
    select(vec!["sh", "-c", "--", "sleep 5", "$(HOME)", "$$", "", "ä \"quoted\" \\", "--then", "entrypoint"]).boxed()
}

fn words() -> BoxedStrategy<Value> {
    vec(word(), 0..4).prop_map(|words| json!(words)).boxed()
}

fn probe() -> BoxedStrategy<Value> {
    let handler = prop_oneof![
        Just(json!({"httpGet": {"path": "/ready", "port": 8080}})),
        Just(json!({"httpGet": {"port": "http", "scheme": "HTTPS"}})),
        Just(json!({"httpGet": {"port": "http", "httpHeaders": [{"name": "Host", "value": "x"}], "path": null}})),
        Just(json!({"tcpSocket": {"port": 5432}})),
        Just(json!({"grpc": {"port": 9000, "service": "x"}})),
        Just(json!({"exec": {"command": ["pg_isready", "-q"]}})),
        Just(json!({"exec": {"command": ["sh", "-c", "test $(X)"]}})),
        Just(json!({"exec": {"command": ["x"]}, "initialDelaySeconds": 5, "successThreshold": 3})),
        Just(json!({"exec": {"command": []}})),
    ];
    let seconds = select(vec![json!(0), json!(1), json!(7), json!(30), Value::Null]);
    let seconds = || proptest::option::of(seconds.clone());
    (handler, seconds(), seconds(), seconds())
        .prop_map(|(mut probe, period, limit, delay)| {
            for (key, value) in [("periodSeconds", period), ("timeoutSeconds", limit), ("initialDelaySeconds", delay)] {
                if let Some(value) = value {
                    probe[key] = value;
                }
            }
            probe["terminationGracePeriodSeconds"] = json!(9);
            probe
        })
        .boxed()
}

fn hook() -> BoxedStrategy<Value> {
    prop_oneof![
        8 => Just(json!({"exec": {"command": ["sh", "-c", "echo \"$HOME\" 'x'"]}})),
        2 => Just(json!({"exec": {"command": ["/drain"], "more": 1}})),
        2 => Just(json!({"httpGet": {"path": "/quit", "port": 8080}})),
        1 => Just(json!({"sleep": {"seconds": 3}})),
        1 => Just(json!({})),
    ]
    .boxed()
}

fn container(name: &'static str) -> BoxedStrategy<Value> {
    let lifecycle = object(vec![("postStart", field(hook())), ("preStop", field(hook()))]);
    let mounts = prop_oneof![
        Just(json!([])),
        Just(json!([{"name": "data", "mountPath": "/data"}])),
        Just(json!([{"name": "data", "mountPath": "/podgated", "subPath": "x"}, {"name": "tmp", "mountPath": "/tmp"}])),
    ];
    object(vec![
        ("name", always(json!(name))),
        ("image", always(json!(format!("example.org/{name}:1")))),
        (
            "command",
            prop_oneof![3 => vec(word(), 1..5).prop_map(|words| Some(json!(words))), 1 => field(words())].boxed(),
        ),
        ("args", field(words())),
        (
            "ports",
            field(Just(json!([{"name": "http", "containerPort": 8080, "protocol": "TCP"}, {"containerPort": 1}]))),
        ),
        ("startupProbe", field(probe())),
        ("readinessProbe", field(probe())),
        ("livenessProbe", field(probe())),
        ("lifecycle", field(lifecycle)),
        ("volumeMounts", field(mounts)),
        ("env", field(Just(json!([{"name": "X", "value": "$(Y)"}])))),
        ("terminationMessagePath", field(select(vec![json!("/dev/termination-log"), json!("/tmp/last")]))),
        ("restartPolicy", prop_oneof![9 => Just(None), 1 => Just(Some(json!("Never")))].boxed()),
        ("futureField", field(Just(json!({"deep": [1, null, {}]})))),
    ])
}

fn subset(names: &[&'static str]) -> BoxedStrategy<Vec<&'static str>> {
    let all = names.to_vec();
    let most = all.len();
    subsequence(all, most.min(2)..=most).prop_shuffle().boxed()
}

fn check() -> BoxedStrategy<Value> {
    select(vec![json!("tcp://localhost:1"), json!("unix:///x"), json!(r#"exec:["sh", "-c", "$(X), $$"]"#)]).boxed()
}

fn annotations(names: Vec<&'static str>) -> BoxedStrategy<Value> {
    let want = || select(vec!["", "", "", "", "", "", "", "=Ready", "=Started", "=Completed", "=Exited"]);
    // Only some Pods have these init containers.
    let first_step = select(vec!["", "", "mesh?, ", "mesh? = Started & setup?, "]);
    let has_star = proptest::bool::weighted(0.2);
    let order = (subset(&names), vec((want(), select(vec![", ", ",", " & "])), NAMES.len()), first_step, has_star)
        .prop_map(|(names, joins, first_step, has_star)| {
            let mut text = first_step.to_owned();
            for (n, name) in names.iter().enumerate() {
                let name = if has_star && n == 0 { "*" } else { *name };
                let (want, join) = joins[n];
                let join = if n == 0 { "" } else { join };
                text.push_str(&format!("{join}{name}{want}"));
            }
            text
        });
    let mode = || select(vec![json!("auto"), json!("post-start"), json!("entrypoint"), json!("hold")]);
    let rarely = |values: BoxedStrategy<Value>| prop_oneof![4 => Just(None), 1 => values.prop_map(Some)].boxed();
    let first = names[0];
    (
        order,
        object(vec![
            ("podgate.io/mode", rarely(mode().boxed())),
            ("podgate.io/timeout", rarely(select(vec![json!("90s"), json!("1h 5m"), json!("1500ms")]).boxed())),
            ("podgate.io/on-timeout", rarely(select(vec![json!("fail"), json!("continue")]).boxed())),
            ("podgate.io/on-dependency-restart", rarely(select(vec![json!("restart"), json!("ignore")]).boxed())),
            ("podgate.io/fail-fast", rarely(select(vec![json!("true"), json!("false")]).boxed())),
            ("podgate.io/stop-order", rarely(select(vec![json!("none"), json!("reverse")]).boxed())),
            ("podgate.io/publish", rarely(select(vec![json!("board"), json!("api")]).boxed())),
            ("podgate.io/job-sidecars", prop_oneof![19 => Just(None), 1 => Just(Some(json!(first)))].boxed()),
            ("kubectl.kubernetes.io/default-container", rarely(Just(json!(first)).boxed())),
            ("example.org/note", rarely(Just(json!("x\ny")).boxed())),
        ]),
        proptest::bool::weighted(0.9),
        proptest::bool::weighted(0.3),
        rarely(check()),
        rarely(check()),
    )
        .prop_map(move |(order, mut all, has_order, has_command, check, ready)| {
            if let Some(check) = check {
                all[format!("check.podgate.io/{first}")] = check;
                all[format!("on-timeout.podgate.io/{first}")] = json!("continue");
            }
            if let Some(ready) = ready {
                all[format!("ready.podgate.io/{first}")] = ready;
            }
            if has_order {
                all["podgate.io/order"] = json!(order);
            }
            if has_command {
                all[format!("command.podgate.io/{first}")] = json!("[\"/bin/given\", \"$(X)\"]");
            }
            all
        })
        .boxed()
}

/// Generates a Pod or pod template. `inject` accepts most of the generated Pods.
pub(crate) fn template() -> BoxedStrategy<Value> {
    subsequence(NAMES.to_vec(), 1..=5)
        .prop_shuffle()
        .prop_flat_map(|names| {
            let containers: Vec<_> = names.iter().map(|name| container(name)).collect();
            let init = prop_oneof![
                Just(json!([])),
                Just(json!([{"name": "setup", "image": "i", "command": ["true"]}])),
                Just(json!([{"name": "mesh", "restartPolicy": "Always"}, {"name": "setup", "volumeMounts": null}])),
                probe().prop_map(|probe| json!([{"name": "mesh", "restartPolicy": "Always", "readinessProbe": probe}])),
            ];
            let volumes =
                prop_oneof![Just(json!([])), Just(json!([{"name": "data", "emptyDir": {}}, {"name": "tmp"}]))];
            let spec = (
                containers,
                object(vec![
                    ("initContainers", field(init)),
                    ("volumes", field(volumes)),
                    ("restartPolicy", field(select(vec![json!("Always"), json!("OnFailure"), json!("Never")]))),
                    (
                        "terminationGracePeriodSeconds",
                        field(select(vec![json!(0), json!(1), json!(2), json!(10), json!(60)])),
                    ),
                    ("shareProcessNamespace", field(any::<bool>().prop_map(Value::Bool))),
                    ("hostNetwork", field(any::<bool>().prop_map(Value::Bool))),
                    ("ephemeralContainers", prop_oneof![3 => Just(None), 1 => Just(Some(json!([])))].boxed()),
                    ("securityContext", field(Just(json!({"fsGroup": 2000, "runAsNonRoot": true})))),
                ]),
            )
                .prop_map(|(containers, mut spec)| {
                    spec["containers"] = Value::Array(containers);
                    spec
                });
            (spec, annotations(names.clone()), field(Just(json!({"app": "x"}))), any::<bool>())
        })
        .prop_map(|(spec, annotations, labels, is_enabled)| {
            let mut metadata = json!({"name": "p"});
            if annotations.as_object().is_some_and(|all| !all.is_empty()) {
                metadata["annotations"] = annotations;
            }
            if let Some(labels) = labels {
                metadata["labels"] = labels;
            }
            if is_enabled {
                metadata["labels"] = json!({"podgate.io/inject": "enabled"});
            }
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}})
        })
        .boxed()
}

/// Generates any JSON value.
pub(crate) fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        select(vec!["", "podgate", "db", "$(X)", "--", "{}"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::hash_map(
                select(vec!["name", "exec", "command", "port", "annotations", "containers"]),
                inner,
                0..3
            )
            .prop_map(|fields| Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
        ]
    })
    .boxed()
}
