//! What is declared of a container: the Pod API's own fields, as far as podgate needs them, and ours.
//!
//! The same types read `--containers` and the pod's spec from the API
//! (<https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Container>).

use crate::core::until::WaitCondition;
use serde::{Deserialize, Deserializer, Serialize};

/// One container, as declared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its ports, for probes that name one.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_null")]
    pub ports: Vec<Port>,
    /// Judged first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_probe: Option<Probe>,
    /// Judged once the startup probe has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// The container's own policy; the pod's where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// How it takes part in the order.
    #[serde(default)]
    pub mode: Mode,
    /// It has a preStop hook of ours, which may keep it until others are gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pre_stop: bool,
    /// What its gate, or its hook, waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "untils")]
    pub until: Vec<WaitCondition>,
}

/// How a container takes part in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// It has no gate and no hook of ours: the kubelet's order alone places it.
    #[default]
    None,
    /// Its postStart hook holds back what comes after it.
    PostStart,
    /// A gate in front of its own command.
    Entrypoint,
}

/// A declared port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its number.
    pub container_port: u16,
}

/// A probe, with the API's defaults
/// (<https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Probe>).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// What it does.
    #[serde(flatten)]
    pub handler: Handler,
    /// Seconds after the container's start before the first attempt.
    #[serde(default)]
    pub initial_delay_seconds: u32,
    /// Seconds after which an attempt has failed.
    #[serde(default = "number::<1>")]
    pub timeout_seconds: u32,
    /// Seconds between the kubelet's attempts; ours are never further apart.
    #[serde(default = "number::<10>")]
    pub period_seconds: u32,
    /// Successes in a row before it has passed.
    #[serde(default = "number::<1>")]
    pub success_threshold: u32,
    /// Failures in a row before it has failed.
    #[serde(default = "number::<3>")]
    pub failure_threshold: u32,
}

fn number<const NUMBER: u32>() -> u32 {
    NUMBER
}

/// What a probe does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Handler {
    /// Runs a command inside the container: only the container's own agent or the kubelet can.
    Exec(Exec),
    /// Asks a web server.
    HttpGet(HttpGet),
    /// Connects.
    TcpSocket(TcpSocket),
    /// Asks the gRPC health service.
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
    /// Host to connect to; the pod's IP where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `HTTP` (the default) or `HTTPS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Further headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_null")]
    pub http_headers: Vec<Header>,
}

/// A header of an `httpGet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}

/// `tcpSocket`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSocket {
    /// Port.
    pub port: PortRef,
    /// Host to connect to; the pod's IP where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// `grpc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grpc {
    /// Port.
    pub port: u16,
    /// Service asked for; the server as a whole where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// A port by its number or by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PortRef {
    /// By number.
    Number(u16),
    /// By the name that `ports` gives it, or a number written as text.
    Name(String),
}

impl Probe {
    /// Whether only something inside the container can run it.
    pub fn is_exec(&self) -> bool {
        matches!(self.handler, Handler::Exec(_))
    }
}

impl Container {
    /// The number of `port` in this container, as the kubelet resolves it.
    pub fn resolve_port(&self, port: &PortRef) -> Option<u16> {
        match port {
            PortRef::Number(number) => Some(*number),
            PortRef::Name(name) => {
                let named = self.ports.iter().find(|p| p.name.as_deref() == Some(name));
                named.map(|p| p.container_port).or_else(|| name.parse().ok())
            }
        }
    }

    /// The port that a probe of this container asks, unless it runs a command.
    pub fn probe_port(&self, probe: &Probe) -> Option<u16> {
        match &probe.handler {
            Handler::Exec(_) => None,
            Handler::HttpGet(http) => self.resolve_port(&http.port),
            Handler::TcpSocket(tcp) => self.resolve_port(&tcp.port),
            Handler::Grpc(grpc) => Some(grpc.port),
        }
    }

    /// Its probes in the order in which they are judged.
    pub fn probes(&self) -> impl Iterator<Item = &Probe> {
        self.startup_probe.iter().chain(&self.readiness_probe)
    }
}

fn or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

mod untils {
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
