//! Test of the Pod in hold mode: it has the parts that `inject` writes.

use super::{HELD, list, named, parts, pod};
use podgate::core::container::Container;
use podgate::core::container_list::parse_list;
use podgate::order::inject::{Options, inject};
use podgate::order::plan::KnownFacts;
use podgate::order::release;
use serde_json::{Value, json};

/// Returns the Pod without podgate's parts, with an order.
fn original() -> Value {
    let mut pod = pod(HELD);
    pod["metadata"]["annotations"] = json!({"podgate.io/order": "db, api, web", "podgate.io/stop-order": "reverse"});
    let spec = pod["spec"].as_object_mut().expect("a spec");
    for field in ["initContainers", "volumes"] {
        spec.remove(field);
    }
    for container in pod["spec"]["containers"].as_array_mut().expect("containers") {
        for field in ["env", "volumeMounts", "lifecycle"] {
            container.as_object_mut().expect("a container").remove(field);
        }
    }
    pod
}

fn listed(sidecar: &Value) -> Vec<Container> {
    let text = named(sidecar, "env", "PODGATE_CONTAINERS")["value"].as_str().expect("a value");
    let mut found = parse_list(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    found.iter_mut().for_each(|entry| entry.restart_policy = None);
    found
}

#[test]
fn held_pod_has_the_parts_that_inject_writes() {
    let mut by_hand = pod(HELD);
    // The manifest keeps this volume for readers who add an exec probe. `inject` writes it only for Pods that need it.
    for list in ["/spec/volumes", "/spec/initContainers/0/volumeMounts"] {
        let list = by_hand.pointer_mut(list).and_then(Value::as_array_mut).expect("a list");
        list.retain(|item| item["name"] != "podgate-info");
    }
    let done = inject(&original(), &Options::new(release::sidecar_image()), &KnownFacts::default());
    let injected = done.expect("the Pod can be injected").value;
    assert_eq!(by_hand["spec"]["containers"], injected["spec"]["containers"]);
    assert_eq!(by_hand["spec"]["volumes"], injected["spec"]["volumes"]);
    let (own, written) = (parts(&by_hand).0, parts(&injected).0);
    assert_eq!(listed(own), listed(written));
    for field in ["name", "image", "restartPolicy", "command", "args", "lifecycle", "resources", "volumeMounts"] {
        assert_eq!(own[field], written[field], "{field}");
    }
    let others = |sidecar| list(sidecar, "env").skip(1).cloned().collect::<Vec<_>>();
    assert_eq!(others(own), others(written));
}
