//! `manifests/`: what users copy says the same as the code. Each file parses, every name and path is that of `core::names`, and
//! `PODGATE_CONTAINERS` agrees with the probes that the containers have.

use podgate::core::container::{Container, Mode, parse_list};
use podgate::core::names;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

const PODS: [&str; 2] = ["pod.yaml", "pod-first-container.yaml"];
/// Where Kubernetes clients look for the token.
const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn text(file: &str) -> String {
    let path = format!("{}/manifests/{file}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn documents(file: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&text(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn pod(file: &str) -> Value {
    let mut all = documents(file);
    assert_eq!(all.len(), 1, "{file}");
    all.remove(0)
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn named<'a>(value: &'a Value, key: &str, name: &str) -> &'a Value {
    list(value, key).find(|item| item["name"] == name).unwrap_or_else(|| panic!("no {key} {name}"))
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|word| word.as_str().expect("a string")).collect()
}

/// The sidecar and the applications' containers.
fn parts(pod: &Value) -> (&Value, Vec<&Value>) {
    let spec = &pod["spec"];
    let all: Vec<&Value> = list(spec, "initContainers").chain(list(spec, "containers")).collect();
    assert_eq!(all[0]["name"], "podgate", "the sidecar comes first");
    (all[0], all[1..].to_vec())
}

/// Where `container` has `volume`, and how.
fn mount<'a>(container: &'a Value, volume: &str) -> Option<&'a Value> {
    list(container, "volumeMounts").find(|mount| mount["name"] == volume)
}

fn hook(container: &Value) -> Vec<&str> {
    strings(&container["lifecycle"]["postStart"]["exec"]["command"])
}

#[test]
fn every_file_parses_and_is_what_its_name_says() {
    let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/manifests")).expect("manifests/");
    for entry in files.map(|entry| entry.expect("an entry")) {
        let file = entry.file_name().into_string().expect("a name");
        let kinds: Vec<Value> = documents(&file).iter_mut().map(|document| document["kind"].take()).collect();
        let expected: &[&str] = match file.as_str() {
            "rbac.yaml" => &["ClusterRole", "RoleBinding"],
            "policy.yaml" => &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
            "kustomization.yaml" => &["Kustomization"],
            file if PODS.contains(&file) => &["Pod"],
            _ => panic!("manifests/{file}: say here what it holds"),
        };
        assert_eq!(kinds, expected, "{file}");
    }
}

#[test]
fn the_kustomization_names_files_that_are_there() {
    let kustomization = &documents("kustomization.yaml")[0];
    let resources = strings(&kustomization["resources"]);
    assert_eq!(resources, ["policy.yaml", "rbac.yaml"], "the fence before the right");
    for file in resources {
        text(file);
    }
}

#[test]
fn the_role_is_the_least() {
    let role = &documents("rbac.yaml")[0];
    let expected = serde_json::json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "watch", "patch"]},
        {"apiGroups": ["podgate.io"], "resources": ["ownpods"], "verbs": ["report"]},
    ]);
    assert_eq!(role["rules"], expected);
    assert_eq!(documents("rbac.yaml")[1]["roleRef"]["name"], role["metadata"]["name"]);
}

#[test]
fn the_policy_allows_our_prefixes_and_no_others() {
    let policies = documents("policy.yaml");
    let (policy, binding) = (&policies[0], &policies[1]);
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    let text = text("policy.yaml");
    let prefixes: BTreeSet<&str> = text
        .split("startsWith('")
        .skip(1)
        .filter_map(|rest| rest.split('\'').next())
        .filter(|prefix| !prefix.starts_with("system:"))
        .collect();
    assert_eq!(prefixes, BTreeSet::from([names::STATUS_PREFIX, names::SANDBOX_PREFIX]));
    let marker = ".group('podgate.io').resource('ownpods').namespace(request.namespace).check('report')";
    assert!(text.contains(marker), "the marker of rbac.yaml");
    assert_eq!(policy["spec"]["failurePolicy"], "Fail");
}

#[test]
fn volumes_and_mounts_are_where_the_code_looks() {
    for file in PODS {
        let pod = pod(file);
        let volumes: Vec<&Value> = list(&pod["spec"], "volumes").map(|volume| &volume["name"]).collect();
        assert_eq!(volumes, ["podgate", "podgate-self", "podgate-info", "podgate-api"], "{file}");
        let info = named(&pod["spec"], "volumes", "podgate-info");
        let item =
            serde_json::json!({"path": names::ANNOTATIONS_FILE, "fieldRef": {"fieldPath": "metadata.annotations"}});
        assert_eq!(info["downwardAPI"]["items"], serde_json::json!([item]), "{file}");
        for memory in ["podgate", "podgate-self"] {
            assert_eq!(named(&pod["spec"], "volumes", memory)["emptyDir"]["medium"], "Memory", "{file}: {memory}");
        }

        let (sidecar, applications) = parts(&pod);
        let places = [
            ("podgate", names::BOARD_DIR, false),
            ("podgate-self", names::SELF_DIR, false),
            ("podgate-info", names::PODINFO_DIR, true),
            ("podgate-api", TOKEN_DIR, true),
        ];
        for (volume, path, read_only) in places {
            let mount = mount(sidecar, volume).unwrap_or_else(|| panic!("{file}: {volume}"));
            assert_eq!(mount["mountPath"], path, "{file}: {volume}");
            assert_eq!(mount["readOnly"] == true, read_only, "{file}: {volume}");
            assert!(mount["subPath"].is_null(), "{file}: {volume}");
        }
        for container in applications {
            let name = container["name"].as_str().expect("a name");
            let has_hook = !hook(container).is_empty();
            assert!(mount(container, "podgate-api").is_none(), "{file}: {name} can read the sidecar's token");
            for (volume, path, _) in &places[..3] {
                let mount = mount(container, volume);
                assert_eq!(mount.is_some(), has_hook, "{file}: {volume} in {name}");
                let Some(mount) = mount else { continue };
                assert_eq!(mount["mountPath"], *path, "{file}: {volume} in {name}");
                let own = *volume == "podgate-self";
                assert_eq!(mount["readOnly"] == true, !own, "{file}: {volume} in {name}");
                assert_eq!(mount["subPath"].as_str(), own.then_some(name), "{file}: {volume} in {name}");
            }
        }
    }
}

#[test]
fn hooks_call_the_agent_for_their_own_container() {
    let agent = format!("{}/{}/{}", names::BOARD_DIR, names::BIN_DIR, names::AGENT_FILE);
    for file in PODS {
        let pod = pod(file);
        let (sidecar, applications) = parts(&pod);
        assert_eq!(hook(sidecar)[..2], ["/usr/bin/podgate-controller", "ready"], "{file}");
        assert_eq!(strings(&sidecar["command"]), ["/usr/bin/podgate-controller"], "{file}");
        let (last, gated) = applications.split_last().expect("containers");
        assert!(hook(last).is_empty(), "{file}: nothing comes after the last one");
        for container in gated {
            let name = container["name"].as_str().expect("a name");
            let command = hook(container);
            assert_eq!(command[..4], [agent.as_str(), "post-start", "--container", name], "{file}");
            let at = command.iter().position(|word| *word == "--fallback-check").expect("a fallback check");
            let check = command[at + 1].parse::<podgate::core::argv::Check>();
            assert!(check.is_ok(), "{file}: {name}: {check:?}");
        }
    }
}

#[test]
fn what_is_told_of_the_containers_is_what_they_are() {
    for file in PODS {
        let pod = pod(file);
        let (sidecar, applications) = parts(&pod);
        let told = named(sidecar, "env", "PODGATE_CONTAINERS")["value"].as_str().expect("a value");
        assert!(!told.contains("$("), "{file}: Kubernetes would expand it");
        let told = parse_list(told).unwrap_or_else(|error| panic!("{file}: {error}"));
        let expected: Vec<Container> = applications
            .iter()
            .map(|spec| {
                let mut container: Container = serde_json::from_value((*spec).clone()).expect("a container's spec");
                container.mode = if hook(spec).is_empty() { Mode::None } else { Mode::PostStart };
                container
            })
            .collect();
        assert_eq!(told, expected, "{file}");
        for field in ["POD_NAME", "POD_NAMESPACE", "POD_UID", "POD_IPS"] {
            let path = &named(sidecar, "env", field)["valueFrom"]["fieldRef"]["fieldPath"];
            assert!(path.is_string(), "{file}: {field}");
        }
    }
}

#[test]
fn pods_fit_the_restricted_standard_and_keep_their_class() {
    for file in PODS {
        let pod = pod(file);
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false, "{file}");
        let context = &pod["spec"]["securityContext"];
        assert_eq!(context["runAsNonRoot"], true, "{file}");
        assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault", "{file}");
        let (sidecar, applications) = parts(&pod);
        assert_eq!(sidecar["resources"]["requests"], sidecar["resources"]["limits"], "{file}");
        assert!(sidecar["resources"]["limits"]["memory"].is_string(), "{file}");
        for container in applications.into_iter().chain([sidecar]) {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{file}: {}", container["name"]);
            assert_eq!(strings(&context["capabilities"]["drop"]), ["ALL"], "{file}: {}", container["name"]);
        }
    }
}

#[test]
fn both_pods_say_the_same_but_for_where_the_sidecar_stands() {
    let [native, first] = PODS.map(pod);
    let ((native_sidecar, native_apps), (first_sidecar, first_apps)) = (parts(&native), parts(&first));
    assert_eq!(native_apps, first_apps);
    assert_eq!(native["spec"]["volumes"], first["spec"]["volumes"]);
    let mut native_sidecar = native_sidecar.clone();
    assert_eq!(native_sidecar["restartPolicy"].take(), "Always");
    native_sidecar.as_object_mut().expect("an object").remove("restartPolicy");
    assert_eq!(native_sidecar, *first_sidecar);
    assert!(first["spec"]["initContainers"].is_null());
}

#[test]
fn the_image_is_this_versions() {
    let image = format!("ghcr.io/podgate/podgate:{}", env!("CARGO_PKG_VERSION"));
    for file in PODS {
        assert_eq!(parts(&pod(file)).0["image"], image.as_str(), "{file}");
    }
}
