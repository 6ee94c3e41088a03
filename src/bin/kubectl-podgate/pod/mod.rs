//! The Pod, cut down to what is read of it. A field of a shape that is not known is as good as absent: it must not hide the rest.

pub(crate) mod gate;
mod notes;
pub(crate) mod shape;
mod since;
mod takes;
pub(crate) mod view;

use podgate::core::container::{Port, Probe};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

pub(crate) type Pod = kube::core::Object<PodSpec, PodStatus>;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    #[serde(deserialize_with = "lenient")]
    pub(crate) containers: Vec<Container>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) init_containers: Vec<Container>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) node_name: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: String,
    #[serde(deserialize_with = "lenient")]
    pub(crate) command: Vec<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) args: Vec<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) env: Vec<Variable>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) restart_policy: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) ports: Vec<Port>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) startup_probe: Option<Probe>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) readiness_probe: Option<Probe>,
    #[serde(deserialize_with = "lenient")]
    lifecycle: Lifecycle,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Variable {
    pub(crate) name: String,
    #[serde(deserialize_with = "lenient")]
    pub(crate) value: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Lifecycle {
    #[serde(deserialize_with = "lenient")]
    post_start: Handler,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Handler {
    #[serde(deserialize_with = "lenient")]
    exec: Exec,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Exec {
    #[serde(deserialize_with = "lenient")]
    command: Vec<String>,
}

impl Container {
    /// The command of its postStart hook; empty where there is none.
    pub(crate) fn post_start(&self) -> &[String] {
        &self.lifecycle.post_start.exec.command
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    #[serde(deserialize_with = "lenient")]
    pub(crate) phase: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    #[serde(deserialize_with = "lenient")]
    pub(crate) last_transition_time: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    #[serde(deserialize_with = "lenient")]
    pub(crate) ready: bool,
    #[serde(deserialize_with = "lenient")]
    pub(crate) restart_count: u32,
    #[serde(deserialize_with = "lenient")]
    pub(crate) state: ContainerState,
    #[serde(deserialize_with = "lenient")]
    pub(crate) last_state: ContainerState,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    #[serde(deserialize_with = "lenient")]
    pub(crate) running: Option<Running>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) terminated: Option<Terminated>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) waiting: Option<Waiting>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Running {
    #[serde(deserialize_with = "lenient")]
    pub(crate) started_at: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    #[serde(deserialize_with = "lenient")]
    pub(crate) exit_code: i32,
    #[serde(deserialize_with = "lenient")]
    pub(crate) started_at: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) finished_at: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Waiting {
    #[serde(deserialize_with = "lenient")]
    pub(crate) reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) message: Option<String>,
}

fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(from: D) -> Result<T, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_known_or_null_hides_nothing() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "db", "env": null, "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}},
                                    {"name": "api", "command": 7, "lifecycle": {"postStart": {"sleep": {"seconds": 1}}}}],
                     "initContainers": null},
            "status": {"containerStatuses": [{"name": "db", "restartCount": "many", "state": {"running": {}}}]}
        }))
        .unwrap();
        assert_eq!(pod.spec.containers[0].post_start(), ["x"]);
        assert!(pod.spec.containers[1].post_start().is_empty() && pod.spec.containers[1].command.is_empty());
        assert!(pod.status.unwrap().container_statuses[0].state.running.is_some());
    }
}
