//! Tests of all shipped Pods, and of the Pods with hooks.

use super::{
    HELD, HOOKED, PODS, TOKEN_DIR, agent, gate, hook, list, mount, named, parts, pod, pre_stop, strings, values,
};
use podgate::core::argv::Check;
use podgate::core::container::{Container, Mode};
use podgate::core::container_list::parse_list;
use podgate::core::names;
use podgate::order::resources;
use serde_json::Value;

#[test]
fn volumes_and_mounts_match_the_code() {
    for file in PODS {
        let pod = pod(file);
        let volumes: Vec<&Value> = list(&pod["spec"], "volumes").map(|volume| &volume["name"]).collect();
        let expected = ["podgate-board", "podgate-self", "podgate-info", "podgate-hold", "podgate-api"];
        assert!(expected.iter().filter(|volume| file == HELD || **volume != "podgate-hold").eq(volumes), "{file}");
        let info = named(&pod["spec"], "volumes", "podgate-info");
        let item =
            serde_json::json!({"path": names::ANNOTATIONS_FILE, "fieldRef": {"fieldPath": "metadata.annotations"}});
        assert_eq!(info["downwardAPI"]["items"], serde_json::json!([item]), "{file}");
        for memory in ["podgate-board", "podgate-self"] {
            assert_eq!(named(&pod["spec"], "volumes", memory)["emptyDir"]["medium"], "Memory", "{file}: {memory}");
        }

        let (sidecar, applications) = parts(&pod);
        let places = [
            ("podgate-board", names::BOARD_DIR, false),
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
            let lines = [hook(container), gate(container), pre_stop(container)];
            let takes_part = lines.iter().any(|line| !line.is_empty());
            assert!(mount(container, "podgate-api").is_none(), "{file}: {name} can read the sidecar's token");
            for (volume, path, _) in &places[..3] {
                let mount = mount(container, volume);
                let needs = takes_part && (*volume != "podgate-info" || !hook(container).is_empty());
                assert_eq!(mount.is_some(), needs, "{file}: {volume} in {name}");
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
fn sidecar_runs_the_expected_commands() {
    for file in PODS {
        let pod = pod(file);
        let (sidecar, _) = parts(&pod);
        assert_eq!(hook(sidecar)[..2], ["/bin/podgate-controller", "ready"], "{file}");
        assert_eq!(strings(&sidecar["command"]), ["/bin/podgate-controller"], "{file}");
    }
}

#[test]
fn hooks_name_their_own_container() {
    for file in HOOKED {
        let pod = pod(file);
        let (_, applications) = parts(&pod);
        let (last, gated) = applications.split_last().expect("containers");
        assert!(hook(last).is_empty(), "{file}: the last container needs no hook");
        for container in gated {
            let name = container["name"].as_str().expect("a name");
            let command = hook(container);
            assert_eq!(command[..4], [agent().as_str(), "post-start", "--container", name], "{file}");
            let at = command.iter().position(|word| *word == "--fallback-check").expect("a fallback check");
            let check = command[at + 1].parse::<Check>();
            assert!(check.is_ok(), "{file}: {name}: {check:?}");
        }
    }
}

#[test]
fn sidecar_list_matches_the_containers() {
    for file in PODS.into_iter().filter(|file| *file != HELD) {
        let pod = pod(file);
        let (sidecar, applications) = parts(&pod);
        let text = named(sidecar, "env", "PODGATE_CONTAINERS")["value"].as_str().expect("a value");
        assert!(!text.contains("$("), "{file}: Kubernetes would expand the variable");
        let listed = parse_list(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let expected: Vec<Container> = applications
            .iter()
            .map(|spec| {
                let mut container: Container = serde_json::from_value((*spec).clone()).expect("a container's spec");
                container.mode = match (hook(spec).is_empty(), gate(spec).is_empty()) {
                    (false, _) => Mode::PostStart,
                    (true, false) => Mode::Entrypoint,
                    (true, true) => Mode::None,
                };
                let until = values(&gate(spec), "--until").into_iter().map(|until| until.parse().expect("a condition"));
                container.until = until.collect();
                // The entry in PODGATE_CONTAINERS has the Pod's restartPolicy if the container has none.
                let policy =
                    container.restart_policy.take().or(pod["spec"]["restartPolicy"].as_str().map(str::to_owned));
                container.restart_policy = policy;
                container.pre_stop = !pre_stop(spec).is_empty();
                container
            })
            .collect();
        assert_eq!(listed, expected, "{file}");
        for field in ["POD_NAME", "POD_NAMESPACE", "POD_UID", "POD_IPS"] {
            let path = &named(sidecar, "env", field)["valueFrom"]["fieldRef"]["fieldPath"];
            assert!(path.is_string(), "{file}: {field}");
        }
    }
}

#[test]
fn pods_are_restricted_and_have_the_default_resources() {
    for file in PODS {
        let pod = pod(file);
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false, "{file}");
        let context = &pod["spec"]["securityContext"];
        assert_eq!(context["runAsNonRoot"], true, "{file}");
        assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault", "{file}");
        let (sidecar, applications) = parts(&pod);
        assert_eq!(sidecar["resources"], resources::parse(resources::DEFAULT).expect("resources"), "{file}");
        for container in applications.into_iter().chain([sidecar]) {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{file}: {}", container["name"]);
            assert_eq!(strings(&context["capabilities"]["drop"]), ["ALL"], "{file}: {}", container["name"]);
        }
    }
}
