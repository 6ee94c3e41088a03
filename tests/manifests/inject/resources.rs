//! Tests of the resources and settings that `inject` gives to the sidecar.

use super::{check_injection, options};
use podgate::order::inject::{Injected, Options};
use podgate::order::plan::KnownFacts;
use podgate::order::resources::parse;
use podgate::order::sidecar_settings;
use serde_json::{Value, json};

/// Resources of a container in a Guaranteed Pod, with different spellings of the same quantities.
fn guaranteed() -> Value {
    json!({"requests": {"cpu": "0.5", "memory": "65536Ki"}, "limits": {"cpu": "500m", "memory": "64Mi"}})
}

fn pod(containers: [Value; 2]) -> Value {
    let [a, b] = containers;
    json!({
        "metadata": {"annotations": {"podgate.io/order": "a, b"}},
        "spec": {"containers": [
            {"name": "a", "image": "a", "command": ["/a"], "resources": a, "readinessProbe": {"tcpSocket": {"port": 1}}},
            {"name": "b", "image": "b", "command": ["/b"], "resources": b},
        ]},
    })
}

fn inject_with(template: &Value, options: &Options) -> Injected {
    check_injection(template, options, &KnownFacts::default()).expect("the template can be injected")
}

/// Returns the sidecar's resources.
fn sidecar(template: &Value, options: &Options) -> Value {
    inject_with(template, options).value["spec"]["initContainers"][0]["resources"].clone()
}

fn default_resources() -> Value {
    json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}})
}

/// Returns true if requests and limits are equal.
fn is_equal(resources: &Value) -> bool {
    resources["requests"]["cpu"].is_string() && resources["requests"] == resources["limits"]
}

#[test]
fn sidecar_has_no_cpu_limit_by_default() {
    for template in [
        pod([json!({}), json!({})]),
        pod([guaranteed(), json!({})]),
        pod([guaranteed(), json!({"limits": {"memory": "64Mi"}})]),
        pod([guaranteed(), json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "64Mi"}})]),
        pod([guaranteed(), json!({"requests": {"cpu": "0"}, "limits": {"cpu": "2", "memory": "64Mi"}})]),
        pod([guaranteed(), json!({"limits": {"cpu": "0", "memory": "64Mi"}})]),
    ] {
        assert_eq!(sidecar(&template, &options()), default_resources(), "{template:#}");
    }
    let mut with_init = pod([guaranteed(), guaranteed()]);
    with_init["spec"]["initContainers"] = json!([{"name": "i", "image": "i"}]);
    let done = inject_with(&with_init, &options());
    assert_eq!(done.value["spec"]["initContainers"][0]["resources"], default_resources());
}

#[test]
fn guaranteed_pod_stays_guaranteed() {
    let limits_only = json!({"limits": {"cpu": 1, "memory": "1e8"}});
    let mut template = pod([guaranteed(), limits_only.clone()]);
    template["spec"]["initContainers"] = json!([{"name": "i", "image": "i", "resources": limits_only}]);
    assert!(is_equal(&sidecar(&template, &options())));
    // A default for the whole cluster must not change the QoS class of a Guaranteed Pod.
    let burstable = Options { sidecar_resources: parse("requests.cpu=20m").unwrap(), ..options() };
    assert!(is_equal(&sidecar(&template, &burstable)));
    let chosen = "requests.cpu=1,requests.memory=1Gi,limits.cpu=1,limits.memory=1Gi";
    let chosen = Options { sidecar_resources: parse(chosen).unwrap(), ..options() };
    assert_eq!(sidecar(&template, &chosen)["limits"]["cpu"], "1");
}

#[test]
fn sidecar_shares_the_resources_of_its_pod() {
    let mut template = pod([guaranteed(), guaranteed()]);
    template["spec"]["resources"] = json!({"requests": {"cpu": "1"}});
    assert_eq!(sidecar(&template, &options()), Value::Null);
    template["spec"]["resources"] = json!({"requests": {}, "limits": {}});
    assert!(is_equal(&sidecar(&template, &options())), "podgate must treat empty Pod-level resources as unset");
}

#[test]
fn annotation_sets_the_resources() {
    let mut template = pod([json!({}), json!({})]);
    let annotation = "limits.cpu = 0.5, limits.memory=64Mi,\nrequests.ephemeral-storage=1Mi";
    template["metadata"]["annotations"]["podgate.io/sidecar-resources"] = annotation.into();
    let expected = json!({"limits": {"cpu": "0.5", "memory": "64Mi"}, "requests": {"ephemeral-storage": "1Mi"}});
    let options = Options { sidecar_resources: parse("requests.cpu=20m").unwrap(), ..options() };
    assert_eq!(sidecar(&template, &options), expected);

    // The annotation overrides the defaults, even in a Guaranteed Pod.
    template["spec"] = pod([guaranteed(), guaranteed()])["spec"].clone();
    assert_eq!(sidecar(&template, &options), expected);
}

#[test]
fn wrong_resources_are_explained() {
    for (text, expected) in [
        ("", "\"\" is not one of"),
        ("limits.memory=32Mi,", "\"\" is not one of"),
        ("cpu=10m", "\"cpu\" is not one of requests.cpu, requests.memory"),
        ("limit.cpu=10m", "\"limit.cpu\" is not one of"),
        ("limits.cpu", "limits.cpu needs a quantity such as 10m, 0.5 or 16Mi, not \"\""),
        ("limits.cpu=-1", "not \"-1\""),
        ("limits.cpu=1 m", "not \"1 m\""),
        ("limits.cpu=1e999999999999", "not \"1e9"),
        ("limits.memory=32MB", "not \"32MB\""),
        ("limits.memory=32m", "limits.memory=32m is less than 1Mi"),
        ("requests.cpu=1,requests.cpu=1", "requests.cpu is set twice"),
        ("requests.memory=0.1Gi,limits.memory=64Mi", "requests.memory is greater than limits.memory"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    for amount in ["1", "1.", ".5", "1e3", "1E-3", "1n", "1u", "1k", "1E", "1Ei", "1T", "1Pi"] {
        assert!(parse(&format!("requests.cpu={amount}")).is_ok(), "{amount}");
    }
}

#[test]
fn annotation_sets_log_metrics_and_probes() {
    let mut template = pod([json!({}), json!({})]);
    template["metadata"]["annotations"]["podgate.io/stop-order"] = "reverse".into();
    let default = sidecar_settings::parse("log=warn, log-format=json").unwrap();
    let options = Options { sidecar_settings: default, ..options() };
    let injected = |template: &Value| inject_with(template, &options).value;
    let by_default = injected(&template);
    let sidecar = &by_default["spec"]["initContainers"][0];
    assert_eq!(sidecar["args"], json!(["--log-level", "warn", "--log-format", "json"]));
    assert_eq!(sidecar["ports"], Value::Null);

    // The annotation overrides single settings. The log level also applies to gates and hooks.
    template["metadata"]["annotations"]["podgate.io/sidecar-settings"] =
        "metrics = 9090, log=debug,\nprobe-floor=500ms".into();
    template["metadata"]["annotations"]["podgate.io/publish"] = "none".into();
    let injected = injected(&template);
    let sidecar = &injected["spec"]["initContainers"][0];
    let flags = "--publish none --log-level debug --log-format json --metrics-addr :9090 --probe-floor 500ms";
    assert_eq!(sidecar["args"], json!(flags.split(' ').collect::<Vec<_>>()));
    assert_eq!(sidecar["ports"], json!([{"name": "podgate-metrics", "containerPort": 9090}]));
    for line in [
        &injected["spec"]["containers"][1]["command"],
        &injected["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"],
    ] {
        assert!(line.to_string().contains(r#""--log-level","debug""#), "{line}");
    }
}

#[test]
fn wrong_settings_are_explained() {
    for (text, expected) in [
        ("", "\"\" is not one of log, log-format, metrics, probe-floor"),
        ("debug", "\"debug\" is not one of"),
        ("log=verbose", "log needs error, warn, info, debug or trace, not \"verbose\""),
        ("log=", "log needs"),
        ("log-format=yaml", "log-format needs text or json"),
        ("metrics=:9090", "metrics needs a port such as 9090, not \":9090\""),
        ("metrics=0", "metrics needs a port"),
        ("metrics=65536", "metrics needs a port"),
        ("probe-floor=2m", "probe-floor needs a duration such as 500ms, at most 1m"),
        ("probe-floor=1", "probe-floor needs"),
        ("log=info,log=debug", "log is set twice"),
    ] {
        assert!(sidecar_settings::parse(text).unwrap_err().contains(expected), "{text}");
    }
    let mut template = pod([json!({}), json!({})]);
    template["metadata"]["annotations"]["podgate.io/sidecar-settings"] = "metrics=9090".into();
    template["spec"]["containers"][1]["ports"] = json!([{"containerPort": 9090}]);
    let findings = podgate::order::inject::inject(&template, &options(), &KnownFacts::default()).unwrap_err();
    assert!(findings.len() == 1 && findings[0].message == "container b uses the port of metrics too", "{findings:#?}");
    // A default for the whole cluster must not take the port of a container.
    let default = Options { sidecar_settings: sidecar_settings::parse("metrics=9090,log=debug").unwrap(), ..options() };
    template["metadata"]["annotations"].as_object_mut().unwrap().remove("podgate.io/sidecar-settings");
    let injected = inject_with(&template, &default);
    assert_eq!(injected.value["spec"]["initContainers"][0]["args"], json!(["--log-level", "debug"]));
    assert!(injected.findings.iter().any(|finding| {
        finding.message.contains("ignores the setting metrics, because container b uses the same port")
    }));
}
