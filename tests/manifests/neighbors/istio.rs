//! Tests of probes that Istio has rewritten.

use super::{check, container, lines, listed, names, options, ordered, pod, webhook};
use podgate::order::finding::Level;
use podgate::order::inject::{inject, uninject};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

const MODES: [&str; 3] = ["istio-default.after", "istio-hold.after", "istio-native.after"];

/// Sets the original probes that the proxy knows, as JSON text. `None` removes the proxy's variable.
fn set_originals(pod: &mut Value, text: Option<&str>) {
    for list in ["initContainers", "containers"] {
        for one in pod["spec"][list].as_array_mut().expect("a list") {
            let Some(env) = one.get_mut("env").and_then(Value::as_array_mut) else { continue };
            match text {
                None => env.retain(|one| one["name"] != "ISTIO_KUBE_APP_PROBERS"),
                Some(text) => env
                    .iter_mut()
                    .filter(|one| one["name"] == "ISTIO_KUBE_APP_PROBERS")
                    .for_each(|one| one["value"] = json!(text)),
            }
        }
    }
}

#[test]
fn sidecar_runs_the_original_probes() {
    for mode in MODES {
        let done = webhook(&ordered(mode, "db, api"));
        assert_eq!(
            listed(&done.value, "db")["readinessProbe"],
            json!({"tcpSocket": {"port": 5432}, "periodSeconds": 3}),
            "{mode}"
        );
        let api = listed(&done.value, "api");
        let startup = json!({"httpGet": {"path": "/boot", "port": 8080}, "failureThreshold": 60, "periodSeconds": 2});
        assert_eq!(api["startupProbe"], startup, "{mode}");
        let ready = json!({"grpc": {"port": 9000, "service": "ready"}, "periodSeconds": 5, "timeoutSeconds": 2});
        assert_eq!(api["readinessProbe"], ready, "{mode}");
        let kubelet = &container(&done.value, "db")["readinessProbe"];
        assert_eq!(kubelet["httpGet"]["path"], "/app-health/db/readyz", "{mode}: the kubelet asks the proxy as before");
    }
}

#[test]
fn sidecar_runs_the_original_probe_of_a_native_sidecar() {
    let mut pod = ordered("istio-native.after", "db, api");
    let mut db = pod["spec"]["containers"].as_array_mut().expect("containers").remove(1);
    db["restartPolicy"] = json!("Always");
    pod["spec"]["initContainers"].as_array_mut().expect("init containers").push(db);
    assert_eq!(listed(&webhook(&pod).value, "db")["readinessProbe"]["tcpSocket"]["port"], 5432);
}

#[test]
fn sidecar_runs_the_original_startup_probe_of_a_gate() {
    let done = webhook(&ordered("istio-default.after", "db, api"));
    let words = container(&done.value, "api")["startupProbe"]["exec"]["command"].to_string();
    assert!(words.contains("--sidecar-check"), "{words}");
    let listed = listed(&done.value, "api")["startupProbe"].to_string();
    assert!(!listed.is_empty() && !listed.contains("app-health"), "{listed}");
}

#[test]
fn unknown_originals_keep_the_rewritten_probe_and_are_reported() {
    let of = |name: &str| format!(r#"{{"/app-health/db/{name}": {{"tcpSocket": {{"port": 5432}}}}}}"#);
    let other = of("livez");
    for text in [None, Some(""), Some("no JSON"), Some("[]"), Some(r#"{"/app-health/db/readyz": 1}"#), Some(&other)] {
        let mut pod = ordered("istio-default.after", "db, cron");
        set_originals(&mut pod, text);
        let done = webhook(&pod);
        let found: Vec<(&str, Level)> = done.findings.iter().map(|one| (one.rule, one.level)).collect();
        assert!(found.contains(&("probe-rewritten", Level::Warning)), "{text:?}: {}", lines(&done.findings));
        let kept = json!({"httpGet": {"path": "/app-health/db/readyz", "port": 15020}, "periodSeconds": 3});
        assert_eq!(listed(&done.value, "db")["readinessProbe"], kept, "{text:?}");
        assert_eq!(check(&pod).1[0]["rule"], "probe-rewritten", "{text:?}");
    }
    let mut pod = ordered("istio-default.after", "db, cron");
    set_originals(&mut pod, None);
    pod["metadata"]["annotations"]["ready.podgate.io/db"] = json!("tcp://127.0.0.1:5432");
    assert!(webhook(&pod).findings.iter().all(|one| one.rule != "probe-rewritten"), "a check replaces the probe");
    let mut pod = ordered("istio-default.after", "db, cron");
    set_originals(&mut pod, Some(&of("readyz")));
    assert!(webhook(&pod).findings.iter().all(|one| one.rule != "probe-rewritten"), "api is not waited for");
}

#[test]
fn proxy_must_not_wait_for_a_probe_that_only_the_proxy_answers() {
    let found = |pod: &Value| {
        let (code, findings) = check(pod);
        let found = findings.iter().find(|one| one["rule"] == "probe-rewritten").map(|one| one["level"].clone());
        (code, found.unwrap_or_default())
    };
    for order in ["db, istio-proxy, api", "db, cron=Started, istio-proxy"] {
        for mode in ["entrypoint", "hold"] {
            let mut pod = ordered("istio-default.after", order);
            pod["metadata"]["annotations"]["mode.podgate.io/istio-proxy"] = json!(mode);
            pod["metadata"]["annotations"]["command.podgate.io/istio-proxy"] = json!(r#"["/pilot-agent"]"#);
            assert_eq!(found(&pod).1, Value::Null, "{order} {mode}: the original is known");
            set_originals(&mut pod, None);
            assert_eq!(found(&pod), (Some(1), json!("error")), "{order} {mode}");
            pod["metadata"]["annotations"]["podgate.io/on-timeout"] = json!("continue");
            assert_eq!(found(&pod), (Some(0), json!("warning")), "{order} {mode}");
        }
    }
    let mut pod = ordered("istio-default.after", "db=Started, istio-proxy, api");
    set_originals(&mut pod, None);
    assert_eq!(found(&pod).1, Value::Null, "the proxy does not wait for the probe");
}

#[test]
fn unknown_original_of_a_native_sidecar_is_reported() {
    for (name, order, level) in
        [("istio-native.after", "db, api", "warning"), ("istio-default.after", "db, istio-proxy, api", "error")]
    {
        let mut pod = ordered(name, order);
        let mut db = pod["spec"]["containers"].as_array_mut().expect("containers").remove(1);
        assert_eq!(db["name"], "db");
        db["restartPolicy"] = json!("Always");
        pod["spec"]["initContainers"].as_array_mut().expect("init containers").push(db);
        set_originals(&mut pod, None);
        let (_, findings) = check(&pod);
        let found = findings.iter().find(|one| one["rule"] == "probe-rewritten").expect("a finding");
        assert_eq!(found["level"], level, "{name}: {found}");
    }
}

/// Podgate runs the hook after `api` has exited. The proxy may have exited too, so the hook must not depend on the
/// proxy.
#[test]
fn delayed_pre_stop_hook_asks_the_container_itself() {
    let quit = r#"{"/app-lifecycle/db/prestopz": {"httpGet": {"path": "/quit", "port": 91}}}"#;
    for (originals, url) in [(quit, "http://:91/quit"), ("", "http://:15020/app-lifecycle/db/prestopz")] {
        let mut pod = ordered("istio-default.after", "db, api");
        pod["metadata"]["annotations"]["podgate.io/stop-order"] = json!("reverse");
        set_originals(&mut pod, Some(originals));
        let hook = json!({"preStop": {"httpGet": {"path": "/app-lifecycle/db/prestopz", "port": 15020}}});
        pod["spec"]["containers"][1]["lifecycle"] = hook.clone();
        let done = webhook(&pod).value;
        let words = container(&done, "db")["lifecycle"]["preStop"]["exec"]["command"].to_string();
        assert!(words.contains("--until") && words.contains(url), "{words}");
        assert_eq!(container(&uninject(&done).expect("the original").value, "db")["lifecycle"], hook);
    }
}

/// Returns the rules of the errors in post-start mode. If `originals` is `None`, the proxy does not know the original
/// probes.
fn errors_with_hooks(name: &str, originals: Option<&str>) -> Vec<&'static str> {
    let mut pod = pod(name, &[("podgate.io/order", "db, api"), ("podgate.io/mode", "post-start")]);
    if originals.is_none() {
        set_originals(&mut pod, None);
    }
    match inject(&pod, &options(), &KnownFacts::default()) {
        Ok(_) => Vec::new(),
        Err(found) => found.iter().filter(|one| one.level == Level::Error).map(|one| one.rule).collect(),
    }
}

#[test]
fn a_hook_must_not_wait_for_a_proxy_that_starts_later() {
    for mode in MODES {
        assert_eq!(errors_with_hooks(mode, Some("known")), [""; 0], "{mode}");
    }
    assert_eq!(errors_with_hooks("istio-default.after", None), ["probe-rewritten"]);
    assert_eq!(errors_with_hooks("istio-hold.after", None), [""; 0]);
    assert_eq!(errors_with_hooks("istio-native.after", None), [""; 0]);
}

#[test]
fn containers_outside_the_order_keep_their_place_before_hooks() {
    let annotations = [("podgate.io/order", "db, api"), ("podgate.io/mode", "post-start")];
    for (name, expected) in [
        ("istio-hold.after", vec!["istio-proxy", "db", "api", "cron"]),
        ("istio-default.after", vec!["db", "api", "cron", "istio-proxy"]),
    ] {
        let done = webhook(&pod(name, &annotations));
        assert_eq!(names(&done.value), expected);
        let proxy = container(&done.value, "istio-proxy");
        assert_eq!(proxy, container(&pod(name, &[]), "istio-proxy"), "podgate does not change the proxy");
    }
}
