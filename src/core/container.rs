//! A container's declaration: the fields of the Pod API that podgate needs, plus podgate's own.
//!
//! These types parse both `--containers` and the pod's spec from the API
//! (<https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Container>).

use crate::core::until::WaitCondition;
use serde::{Deserialize, Deserializer, Serialize};

/// A container's declaration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Name.
    pub name: String,
    /// Ports, to resolve probes that refer to a port by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_null")]
    pub ports: Vec<Port>,
    /// Startup probe, which runs first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_probe: Option<Probe>,
    /// Readiness probe, which runs after the startup probe has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Restart policy of the container. If `None`, the pod's policy applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// Mode of participation in the order.
    #[serde(default)]
    pub mode: Mode,
    /// True if podgate's preStop hook may keep the container until others have exited.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pre_stop: bool,
    /// Conditions of the gate or hook.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "conditions")]
    pub until: Vec<WaitCondition>,
}

/// Mode of a container's participation in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// No gate and no hook of podgate: only the kubelet's order applies.
    #[default]
    None,
    /// A postStart hook delays the containers after this one.
    PostStart,
    /// A gate in front of the container's own command.
    Entrypoint,
}

/// A declared port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// Name, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number.
    pub container_port: u16,
}

/// A probe, with the API's defaults
/// (<https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Probe>).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// The action.
    #[serde(flatten)]
    pub handler: Handler,
    /// Seconds from the container's start to the first attempt.
    #[serde(default)]
    pub initial_delay_seconds: u32,
    /// Seconds after which an attempt fails.
    #[serde(default = "number::<1>")]
    pub timeout_seconds: u32,
    /// Seconds between the kubelet's attempts. The sidecar probes at least this often.
    #[serde(default = "number::<10>")]
    pub period_seconds: u32,
    /// Consecutive successes needed to pass.
    #[serde(default = "number::<1>")]
    pub success_threshold: u32,
    /// Consecutive failures needed to fail.
    #[serde(default = "number::<3>")]
    pub failure_threshold: u32,
}

fn number<const NUMBER: u32>() -> u32 {
    NUMBER
}

/// The action of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Handler {
    /// Runs a command inside the container, which only its agent or the kubelet can do.
    Exec(Exec),
    /// Sends an HTTP GET request.
    HttpGet(HttpGet),
    /// Opens a TCP connection.
    TcpSocket(TcpSocket),
    /// Queries the gRPC health service.
    Grpc(Grpc),
}

/// `exec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exec {
    /// The command.
    #[serde(default)]
    pub command: Vec<String>,
}

/// `httpGet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpGet {
    /// Path and query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Port.
    pub port: PortRef,
    /// Host to connect to. Default: the pod's IP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `HTTP` (the default) or `HTTPS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Additional headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_null")]
    pub http_headers: Vec<Header>,
}

/// A header of an `httpGet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Name.
    pub name: String,
    /// Value.
    #[serde(default)]
    pub value: String,
}

/// `tcpSocket`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSocket {
    /// Port.
    pub port: PortRef,
    /// Host to connect to. Default: the pod's IP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// `grpc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grpc {
    /// Port.
    pub port: u16,
    /// Service to query. Default: the server as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// Reference to a port by number or name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PortRef {
    /// By number.
    Number(u16),
    /// By its name in `ports`, or by a number written as text.
    Name(String),
}

impl Probe {
    /// Returns true if the probe can only run inside the container.
    pub fn is_exec(&self) -> bool {
        matches!(self.handler, Handler::Exec(_))
    }
}

impl Container {
    /// Resolves `port` to its number, as the kubelet does.
    pub fn resolve_port(&self, port: &PortRef) -> Option<u16> {
        match port {
            PortRef::Number(number) => Some(*number),
            PortRef::Name(name) => {
                let named = self.ports.iter().find(|p| p.name.as_deref() == Some(name));
                named.map(|p| p.container_port).or_else(|| name.parse().ok())
            }
        }
    }

    /// Returns the port of a probe of this container, or `None` if the probe runs a command.
    pub fn probe_port(&self, probe: &Probe) -> Option<u16> {
        match &probe.handler {
            Handler::Exec(_) => None,
            Handler::HttpGet(http) => self.resolve_port(&http.port),
            Handler::TcpSocket(tcp) => self.resolve_port(&tcp.port),
            Handler::Grpc(grpc) => Some(grpc.port),
        }
    }

    /// Returns the probes in the order in which they run.
    pub fn probes(&self) -> impl Iterator<Item = &Probe> {
        self.startup_probe.iter().chain(&self.readiness_probe)
    }
}

fn or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

mod conditions {
    use super::WaitCondition;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(list: &[WaitCondition], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(list.iter().map(WaitCondition::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<WaitCondition>, D::Error> {
        let list: Vec<String> = Vec::deserialize(from)?;
        list.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}
