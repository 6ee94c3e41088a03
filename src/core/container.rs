//! A container's declaration: the fields of the Pod API that podgate needs, plus podgate's own fields.
//!
//! These types parse both `--containers` and the pod's spec from the API
//! (<https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Container>). Their JSON omits the
//! API's default values, so the text is the same before and after the API server adds defaults.

#![expect(missing_docs, reason = "most fields have the names and meanings of the API")]

use crate::core::argv::Check;
use crate::core::http::Header;
use crate::core::restart::RestartRule;
use crate::core::until::WaitCondition;
use serde::{Deserialize, Deserializer, Serialize};

/// Declaration of one container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Name of the container, unique in the pod.
    pub name: String,
    /// Kind of podgate's gate or hook in this container.
    #[serde(default, skip_serializing_if = "Mode::is_none")]
    pub mode: Mode,
    /// Conditions that the gate or hook waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "conditions")]
    pub until: Vec<WaitCondition>,
    /// In hold mode, the time limit for the wait in seconds. `None` means that the wait has no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// In hold mode, true if the gate opens after a time-out; false if the container stays held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continue_on_timeout: bool,
    /// True if podgate's preStop hook can keep this container running until other containers have exited.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pre_stop: bool,
    /// True if an agent reports that the container runs: podgate's postStart hook, which returns at once and leaves a
    /// tether, or a wrapped probe. Not set for a gate, and for a hook that waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reports_start: bool,
    /// Restart policy of the container, or the Pod's if the container has none. `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_policy_rules: Vec<RestartRule>,
    /// Declared ports. A probe can refer to one of these ports by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_null")]
    pub ports: Vec<Port>,
    /// Startup probe, which runs before the readiness probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_probe: Option<Probe>,
    /// Readiness probe, which runs after the startup probe has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Value of `--ready-check`: the check that the agent runs if the container has no startup or readiness probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_check: Option<String>,
    /// Request by which the sidecar makes the container exit when all other containers have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quit: Option<String>,
}

/// Kind of podgate's gate or hook in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// No gate and no hook of podgate: only the kubelet's order applies.
    #[default]
    None,
    /// A postStart hook that delays the next containers in the list.
    PostStart,
    /// A gate in front of the container's own command.
    Entrypoint,
    /// A gate at the kubelet: the kubelet does not create the container until the sidecar writes a file.
    Hold,
}

impl Mode {
    fn is_none(&self) -> bool {
        *self == Mode::None
    }
}

/// Port declared by a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub container_port: u16,
}

/// A probe, with the API's defaults
/// (<https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Probe>).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    #[serde(flatten)]
    pub handler: Handler,
    #[serde(default, skip_serializing_if = "is_default::<0>")]
    pub initial_delay_seconds: u32,
    #[serde(default = "number::<1>", deserialize_with = "parse::<_, 1>", skip_serializing_if = "is_default::<1>")]
    pub timeout_seconds: u32,
    /// Seconds between the kubelet's attempts. The sidecar probes at least this often.
    #[serde(default = "number::<10>", deserialize_with = "parse::<_, 10>", skip_serializing_if = "is_default::<10>")]
    pub period_seconds: u32,
    #[serde(default = "number::<1>", deserialize_with = "parse::<_, 1>", skip_serializing_if = "is_default::<1>")]
    pub success_threshold: u32,
    #[serde(default = "number::<3>", deserialize_with = "parse::<_, 3>", skip_serializing_if = "is_default::<3>")]
    pub failure_threshold: u32,
}

fn number<const NUMBER: u32>() -> u32 {
    NUMBER
}

/// Reads a number. Replaces 0 with the field's default value, as the API server does.
fn parse<'de, D: Deserializer<'de>, const NUMBER: u32>(input: D) -> Result<u32, D::Error> {
    u32::deserialize(input).map(|value| if value == 0 { NUMBER } else { value })
}

fn is_default<const NUMBER: u32>(value: &u32) -> bool {
    *value == NUMBER
}

fn is_empty(text: &Option<String>) -> bool {
    matches!(text.as_deref(), None | Some(""))
}

fn is_root(path: &Option<String>) -> bool {
    matches!(path.as_deref(), None | Some("" | "/"))
}

pub(crate) fn is_http(scheme: &Option<String>) -> bool {
    matches!(scheme.as_deref(), None | Some("" | "HTTP"))
}

fn is_http1(protocol: &Option<String>) -> bool {
    matches!(protocol.as_deref(), None | Some("" | "HTTP1"))
}

fn is_plaintext(mode: &Option<String>) -> bool {
    matches!(mode.as_deref(), None | Some("" | "Plaintext"))
}

/// The action of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Handler {
    /// Runs a command inside the container. Only the kubelet and the container's agent can run this action.
    Exec(Exec),
    HttpGet(HttpGet),
    TcpSocket(TcpSocket),
    Grpc(Grpc),
}

/// Parameters of the action `exec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exec {
    #[serde(default)]
    pub command: Vec<String>,
}

/// Parameters of the action `httpGet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpGet {
    #[serde(default, skip_serializing_if = "is_root")]
    pub path: Option<String>,
    pub port: PortRef,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "is_http")]
    pub scheme: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_null")]
    pub http_headers: Vec<Header>,
    #[serde(default, skip_serializing_if = "is_http1")]
    pub protocol: Option<String>,
}

/// Parameters of the action `tcpSocket`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSocket {
    pub port: PortRef,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub host: Option<String>,
}

/// Parameters of the action `grpc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grpc {
    pub port: u16,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub service: Option<String>,
    #[serde(default, skip_serializing_if = "is_plaintext")]
    pub mode: Option<String>,
    /// Host of a `ready.podgate.io/…` check. `None` in a probe of the Pod API.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub host: Option<String>,
}

/// Reference to a port by number or name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PortRef {
    Number(u16),
    /// Name of an entry in `ports`, or a port number written as text.
    Name(String),
}

impl Handler {
    /// Returns the probe action that does the same as `check`, if there is one.
    pub fn from_check(check: Check) -> Option<Handler> {
        Some(match check {
            Check::Tcp { host, port } => {
                Handler::TcpSocket(TcpSocket { port: PortRef::Number(port), host: Some(host) })
            }
            Check::Http { host, port, path, headers } => Handler::HttpGet(HttpGet {
                path: Some(path),
                port: PortRef::Number(port),
                host: Some(host),
                scheme: None,
                http_headers: headers,
                protocol: None,
            }),
            Check::Exec(argv) => Handler::Exec(Exec { command: argv.as_slice().to_vec() }),
            Check::File { .. } | Check::Unix(_) | Check::Mount(_) => return None,
        })
    }

    /// Returns the host to connect to. `None` means the Pod's IP.
    pub fn host(&self) -> Option<&str> {
        let host = match self {
            Handler::Exec(_) => &None,
            Handler::HttpGet(http) => &http.host,
            Handler::TcpSocket(tcp) => &tcp.host,
            Handler::Grpc(grpc) => &grpc.host,
        };
        host.as_deref().filter(|host| !host.is_empty())
    }
}

impl HttpGet {
    /// Returns true if the server must speak HTTP/2 without TLS (Kubernetes 1.37, alpha).
    pub fn is_http2(&self) -> bool {
        !is_http1(&self.protocol)
    }
}

impl Grpc {
    /// Returns true if the server must speak TLS (Kubernetes 1.37, alpha).
    pub fn is_tls(&self) -> bool {
        !is_plaintext(&self.mode)
    }
}

impl Probe {
    /// Returns true if the probe can only run inside the container.
    pub fn is_exec(&self) -> bool {
        matches!(self.handler, Handler::Exec(_))
    }
}

impl Container {
    /// Returns the number of `port`. Resolves a name as the kubelet does. Returns `None` if the name is unknown.
    pub fn resolve_port(&self, port: &PortRef) -> Option<u16> {
        match port {
            PortRef::Number(number) => Some(*number),
            PortRef::Name(name) => {
                let named = self.ports.iter().find(|p| p.name.as_deref() == Some(name));
                named.map(|p| p.container_port).or_else(|| name.parse().ok())
            }
        }
    }

    /// Returns the port of one of this container's probes. Returns `None` if the probe runs a command or its port is
    /// unknown.
    pub fn probe_port(&self, probe: &Probe) -> Option<u16> {
        match &probe.handler {
            Handler::Exec(_) => None,
            Handler::HttpGet(http) => self.resolve_port(&http.port),
            Handler::TcpSocket(tcp) => self.resolve_port(&tcp.port),
            Handler::Grpc(grpc) => Some(grpc.port),
        }
    }

    /// Returns the startup probe and the readiness probe, in the order in which they run.
    pub fn probes(&self) -> impl Iterator<Item = &Probe> {
        self.startup_probe.iter().chain(&self.readiness_probe)
    }
}

fn or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

mod conditions {
    use super::WaitCondition;
    use crate::core::until::WantedState;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(list: &[WaitCondition], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(list.iter().map(|condition| match condition.want {
            WantedState::Ready => condition.container.clone(),
            _ => condition.to_string(),
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<WaitCondition>, D::Error> {
        let list: Vec<String> = Vec::deserialize(from)?;
        list.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}
