//! Names of podgate's parts in a template, and the volumes, mounts and sidecar that every injection adds.

use crate::core::command::{AgentCommand, OwnLine};
use crate::core::names;
use crate::order::declare::Publish;
use crate::order::edit::Place;
use crate::order::inject::Options;
use crate::order::plan::{ContainerPlan, Plan, PlannedMode};
use crate::order::sidecar_settings::SidecarSettings;
use serde_json::{Value, json};

pub(super) const DEFAULT_CONTAINER_KEY: &str = "kubectl.kubernetes.io/default-container";

pub(super) use crate::order::declare::annotation_place;
pub(super) use crate::order::declare::spec::SIDECAR_NAME as SIDECAR;
pub use crate::order::declare::spec::without_nulls;
pub(super) use crate::order::declare::spec::{find_container, string_list};
/// Arguments of a sidecar that makes no API requests.
pub(super) const PUBLISH_NONE: [&str; 2] = ["--publish", "none"];
/// Environment variable with the sidecar's list of containers.
pub(super) const CONTAINERS_VARIABLE: &str = "PODGATE_CONTAINERS";
const CONTROLLER_PATH: &str = "/bin/podgate-controller";
/// Directory in which Kubernetes clients expect the token.
const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

const BOARD_VOLUME: &str = "podgate-board";
/// Volume with the agent in a Pod without a sidecar.
const PROGRAM_VOLUME: &str = "podgate";
const SELF_VOLUME: &str = "podgate-self";
const INFO_VOLUME: &str = "podgate-info";
const API_VOLUME: &str = "podgate-api";
const HOLD_VOLUME: &str = "podgate-hold";
pub(super) const VOLUME_NAMES: [&str; 6] =
    [PROGRAM_VOLUME, BOARD_VOLUME, SELF_VOLUME, INFO_VOLUME, API_VOLUME, HOLD_VOLUME];
/// Directory of the gate files in the hold volume. The sidecar mounts this directory, not the volume: a container
/// runtime that uses virtual machines then shares the directory with the kubelet.
const HOLD_KEYS: &str = "keys";
/// Directory in the hold volume. A held container mounts a subdirectory of this directory.
const HOLD_GATE: &str = "gate";

/// Returns the place of a container's field. `short` is the field's name without `lifecycle` or `readinessProbe`.
pub(super) fn field_place(container: &Place, short: &str) -> Place {
    match short {
        "postStart" | "preStop" => container.to("lifecycle").to(short),
        "timeoutSeconds" | "initialDelaySeconds" => container.to("readinessProbe").to(short),
        _ => container.to(short),
    }
}

/// Fields of a container that can hold a command line of the agent, each with the agent's subcommand.
pub(in crate::order) const FIELD_SUBCOMMANDS: [(&str, &str); 5] = [
    ("command", "entrypoint"),
    ("startupProbe", "opened"),
    ("readinessProbe", "probe"),
    ("postStart", "post-start"),
    ("preStop", "pre-stop"),
];

/// Returns the agent's command line in the field `short` (see [`FIELD_SUBCOMMANDS`]); `None` for another program.
pub(in crate::order) fn agent_line(container: &Value, short: &str) -> Option<OwnLine> {
    let found = field_place(&Place::root(), short).of(container);
    if short == "command" {
        return gate_line(found);
    }
    let (_, subcommand) = FIELD_SUBCOMMANDS.iter().find(|(field, _)| *field == short)?;
    AgentCommand::parse_own(&exec_words(found)?).filter(|own| own.line.subcommand == *subcommand)
}

/// Returns the gate in a `command` or `args`; `None` if another program precedes the gate in the same list.
fn gate_line(words: Option<&Value>) -> Option<OwnLine> {
    let own = AgentCommand::parse_own(&string_list(words)?)?;
    (own.prefix == 0 && own.line.subcommand == "entrypoint").then_some(own)
}

/// Maximum number of words of a gate or probe that `inject` inserts or `uninject` removes one by one. Single edits keep
/// the comments in a YAML list, but each of these edits moves all later words. One edit therefore replaces all words of
/// a longer gate.
pub(super) const WORDS_EDITED_SINGLY_MAX: usize = 32;

/// Returns the field with podgate's gate, and the index of the `--` behind the gate. The field is `command`, or `args`
/// if another webhook has moved the whole command there and put its own program into `command`.
pub(super) fn find_gate_separator(container: &Value) -> Option<(&'static str, usize)> {
    ["command", "args"].into_iter().find_map(|field| Some((field, gate_line(container.get(field))?.end?)))
}

/// Returns true if `item` is one of podgate's volumes, a mount of such a volume, or podgate's environment variable.
pub(super) fn is_own_item(item: &Value) -> bool {
    let is_variable = item.get("value").or(item.get("valueFrom")).is_some();
    let variables = [names::HOLD_VARIABLE, names::POD_IP_VARIABLE];
    item_name(item)
        .is_some_and(|name| if is_variable { variables.contains(&name) } else { VOLUME_NAMES.contains(&name) })
}

pub(super) fn exec_words(handler: Option<&Value>) -> Option<Vec<String>> {
    string_list(handler?.get("exec")?.get("command"))
}

pub(super) fn item_name(item: &Value) -> Option<&str> {
    item.get("name")?.as_str()
}

pub(in crate::order) fn find_sidecar(template: &Value) -> Option<(Place, &Value)> {
    find_container(template, SIDECAR)
}

/// Returns the volume with podgate's image, for a Pod without a sidecar. The kubelet looks up the image at each start
/// of any container of the Pod, so the policy is never `Always`.
pub(super) fn image_volume(options: &Options) -> Value {
    let policy = options.image_pull_policy.as_deref().filter(|policy| *policy != "Always").unwrap_or("IfNotPresent");
    json!({"name": PROGRAM_VOLUME, "image": {"reference": options.image, "pullPolicy": policy}})
}

/// Returns the image of the volume of [`image_volume`], and its pull policy.
pub(super) fn find_image(template: &Value) -> Option<(&str, Option<&str>)> {
    let mut volumes = Place::spec("volumes").items(template).iter();
    let image = volumes.find(|volume| item_name(volume) == Some(PROGRAM_VOLUME))?.get("image")?;
    Some((image["reference"].as_str()?, image["pullPolicy"].as_str()))
}

/// Returns the volumes that podgate adds, in list order. `needs_info` is true if the sidecar reads the annotations.
pub(super) fn volumes(plan: &Plan, needs_info: bool) -> Vec<Value> {
    let field = |path: &str, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
    let mut volumes = vec![
        json!({"name": BOARD_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}),
        json!({"name": SELF_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
    ];
    if needs_info || plan.containers.iter().any(ContainerPlan::has_blocking_hook) {
        let annotations = field(names::ANNOTATIONS_FILE, "metadata.annotations");
        volumes.push(json!({"name": INFO_VOLUME, "downwardAPI": {"items": [annotations]}}));
    }
    if has_hold(plan) {
        volumes.push(json!({"name": HOLD_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}));
    }
    if plan.publish == Publish::Api {
        volumes.push(json!({"name": API_VOLUME, "projected": {"sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [field("namespace", "metadata.namespace")]}},
        ]}}));
    }
    volumes
}

fn has_hold(plan: &Plan) -> bool {
    plan.containers.iter().any(|planned| planned.mode == PlannedMode::Hold)
}

/// Returns the environment variable that makes the kubelet hold a container. The kubelet does not create the container
/// while the container's gate file lacks the key of the variable.
pub(super) fn hold_variable(container: &str) -> Value {
    let path = format!("{HOLD_KEYS}/{container}");
    let from = json!({"volumeName": HOLD_VOLUME, "path": path, "key": names::GATE_FILE_KEY});
    json!({"name": names::HOLD_VARIABLE, "valueFrom": {"fileKeyRef": from}})
}

/// Returns the mount that prevents a start by a kubelet older than 1.35. Such a kubelet leaves the variable of
/// [`hold_variable`] empty. It does not start a container with an empty variable in `subPathExpr`.
pub(in crate::order) fn held_container_mount() -> Value {
    let path = format!("{HOLD_GATE}/$({})", names::HOLD_VARIABLE);
    json!({"name": HOLD_VOLUME, "mountPath": names::HOLD_DIR, "subPathExpr": path, "readOnly": true})
}

/// Returns the mounts of a container with an agent. `needs_info` is true if a blocking hook reads the annotations.
pub(in crate::order) fn mounts(container: &str, needs_info: bool) -> impl Iterator<Item = Value> {
    let own = json!({"name": SELF_VOLUME, "mountPath": names::SELF_DIR, "subPath": container});
    let board = json!({"name": BOARD_VOLUME, "mountPath": names::BOARD_DIR, "readOnly": true});
    [board, own].into_iter().chain(needs_info.then(info_mount))
}

/// Returns the mount of the volume of [`image_volume`].
pub(super) fn program_mount() -> Value {
    json!({"name": PROGRAM_VOLUME, "mountPath": names::BOARD_DIR, "readOnly": true})
}

fn info_mount() -> Value {
    json!({"name": INFO_VOLUME, "mountPath": names::PODINFO_DIR, "readOnly": true})
}

pub(in crate::order) fn sidecar_mounts(has_hold: bool) -> Vec<Value> {
    let mut mounts = vec![
        json!({"name": BOARD_VOLUME, "mountPath": names::BOARD_DIR}),
        json!({"name": SELF_VOLUME, "mountPath": names::SELF_DIR}),
    ];
    if has_hold {
        let canary = format!("{HOLD_KEYS}/{}", names::HOLD_CANARY);
        mounts.push(json!({"name": HOLD_VOLUME, "mountPath": names::HOLD_DIR, "subPath": HOLD_KEYS}));
        mounts.push(json!({"name": HOLD_VOLUME, "mountPath": names::HOLD_CANARY_DIR, "subPath": canary}));
    }
    mounts
}

/// Returns the sidecar's spec; `escaped_list` is the escaped value of `PODGATE_CONTAINERS`.
pub(super) fn sidecar(
    plan: &Plan,
    escaped_list: &str,
    needs_info: bool,
    resources: Value,
    settings: &SidecarSettings,
    options: &Options,
) -> Value {
    let user = options.has_fixed_user.then_some(65532);
    let has_api = plan.publish == Publish::Api;
    let without_api = PUBLISH_NONE.map(str::to_owned).into_iter().filter(|_| !has_api);
    let arguments: Vec<String> = without_api.chain(settings.arguments()).collect();
    let mut variables = vec![json!({"name": CONTAINERS_VARIABLE, "value": escaped_list})];
    let identity =
        [("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace"), ("POD_UID", "metadata.uid")];
    let fields = identity.into_iter().filter(|_| has_api).chain([("POD_IPS", "status.podIPs")]);
    variables.extend(fields.map(|(name, path)| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})));
    let ports = settings.metrics_port().map(|port| json!([{"name": "podgate-metrics", "containerPort": port}]));
    let mut mounts = sidecar_mounts(has_hold(plan));
    if needs_info {
        mounts.insert(2, info_mount());
    }
    if has_api {
        mounts.push(json!({"name": API_VOLUME, "mountPath": TOKEN_DIR, "readOnly": true}));
    }
    without_nulls(&json!({
        "name": SIDECAR,
        "image": options.image,
        "imagePullPolicy": options.image_pull_policy,
        "restartPolicy": "Always",
        "command": [CONTROLLER_PATH],
        "args": (!arguments.is_empty()).then_some(arguments),
        "ports": ports,
        "lifecycle": {"postStart": {"exec": {"command": [CONTROLLER_PATH, "ready"]}}},
        "env": variables,
        "resources": resources,
        "securityContext": {
            "runAsUser": user,
            "runAsGroup": user,
            "runAsNonRoot": true,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": mounts,
    }))
}
