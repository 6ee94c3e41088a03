//! Scenarios of a Pod's start. Each scenario runs on this machine with `kubectl podgate try`, and on a real kubelet.
//! The same events must occur in the same order.

use serde_json::{Value, json};

/// A scenario with the built-in example or with a Pod of its own.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) pod: Option<Value>,
    pub(crate) faults: &'static [&'static str],
    /// Exit code of `try`.
    pub(crate) code: i32,
    pub(crate) events: &'static [&'static str],
    /// Texts that the verdict of `try` must contain.
    #[allow(dead_code, reason = "the kubelet gives no verdict")]
    pub(crate) verdict: &'static [&'static str],
}

/// Returns a Pod of `db`, `api` and `web` without probes, in this order.
pub(crate) fn chain() -> Value {
    let container = |name: &str| json!({"name": name, "image": "x", "command": [name]});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "chain", "annotations": {"podgate.io/order": "db, api, web"}},
        "spec": {"containers": [container("db"), container("api"), container("web")]},
    })
}

/// Returns a Pod with `order` and `policy`, whose containers have no probes.
fn pod(order: &str, policy: &str) -> Value {
    let mut pod = chain();
    pod["metadata"]["annotations"]["podgate.io/order"] = order.into();
    pod["spec"]["restartPolicy"] = policy.into();
    pod
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut hooks = chain();
    hooks["metadata"]["annotations"]["podgate.io/mode"] = "post-start".into();
    let mut impatient = pod("db, api, web", "Always");
    impatient["metadata"]["annotations"]["podgate.io/timeout"] = "1s".into();
    impatient["spec"]["containers"][0]["readinessProbe"] = json!({"exec": {"command": ["pg_isready"]}});
    let mut job = pod("db, api", "Never");
    job["metadata"]["annotations"]["podgate.io/job-sidecars"] = "db".into();
    let scenario = |name, events, verdict| Scenario { name, pod: None, faults: &[], code: 0, events, verdict };
    vec![
        scenario("in-order", &["db Ready", "api started", "api Ready", "web started", "web Ready"], &["api started"]),
        Scenario {
            faults: &["db@never", "--timeout=12s"],
            code: 3,
            ..scenario(
                "never-ready",
                &["api waits for db=Ready", "db started"],
                &["api did not start: it waited for db=Ready.", "web did not start", "db was not Ready in time."],
            )
        },
        Scenario {
            faults: &["db@crash:1500ms"],
            ..scenario(
                "crash-after-ready",
                &["db Ready", "api started", "db ended (exit code 1); restarts in 1s", "db started", "db Ready"],
                &["db was restarted once (exit code 1)."],
            )
        },
        Scenario {
            faults: &["db@crash:100ms", "--timeout=9s"],
            code: 3,
            ..scenario(
                "crash-loop",
                &["db ended (exit code 1); restarts in 1s", "db started", "db ended (exit code 1); restarts in 10s"],
                &["api did not start", "db exited twice (exit code 1, exit code 1) and was restarted once."],
            )
        },
        Scenario {
            faults: &["api@kill:500ms"],
            ..scenario(
                "killed",
                &["api is killed", "api ended (SIGKILL); restarts in 1s", "api waits for db=Ready", "api started"],
                &["api was restarted once (SIGKILL)."],
            )
        },
        Scenario {
            faults: &["sidecar@kill:900ms"],
            ..scenario(
                "sidecar-killed",
                &["podgate is killed", "podgate ended (SIGKILL); restarts in 1s", "podgate started", "web Ready"],
                &["podgate was restarted once (SIGKILL)."],
            )
        },
        Scenario {
            pod: Some(pod("db=Completed, api=Completed, web", "Never")),
            ..scenario(
                "completed",
                &["db started", "api started", "web started"],
                &["after db had exited with 0", "after api had exited with 0"],
            )
        },
        Scenario {
            pod: Some(job),
            ..scenario("job-sidecar", &["db started", "api started", "db ended (exit code 0)"], &[])
        },
        Scenario {
            pod: Some(hooks),
            ..scenario("hooks", &["db started", "api started", "web started"], &["has a postStart hook in a cluster"])
        },
        Scenario {
            pod: Some(impatient),
            faults: &["db@never", "--timeout=15s"],
            code: 3,
            ..scenario(
                "gate-times-out",
                &["api waits for db=Ready", "api ended (exit code 75); restarts in 1s", "api waits for db=Ready"],
                &["api did not start: it waited for db=Ready."],
            )
        },
    ]
}
