//! The built-in example. Its containers become Ready after 4 s (`db`), 2 s (`api`) and half a second (`web`). This
//! module also finds free ports.

use serde_json::{Value, json};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

/// Title of the example.
pub(super) const TITLE: &str = "the built-in example";
/// Delays until Ready, unless `--ready` sets others.
pub(super) const READY: [(&str, Duration); 2] = [("db", Duration::from_secs(4)), ("api", Duration::from_secs(2))];

pub(super) fn pod() -> Value {
    let probe = json!({"httpGet": {"path": "/ready", "port": 8080}});
    let containers = ["db", "api", "web"].map(|name| {
        json!({"name": name, "image": format!("example.com/{name}"), "command": [name], "readinessProbe": probe})
    });
    let metadata = json!({"name": "example", "annotations": {"podgate.io/order": "db, api, web", "podgate.io/stop-order": "reverse"}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}})
}

/// Opens a free port below the ephemeral ports. The kernel could give an ephemeral port to an outgoing connection
/// before the stand-in opens the port.
pub(super) fn open_free_port() -> std::io::Result<TcpListener> {
    const PORTS: std::ops::Range<u16> = 10_000..32_000;
    // Two runs at the same time begin their search at different ports.
    let first = PORTS.start + (std::process::id().wrapping_mul(61) % u32::from(PORTS.end - PORTS.start)) as u16;
    let open = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
    (first..PORTS.end).chain(PORTS.start..first).find_map(open).ok_or_else(|| ErrorKind::AddrInUse.into())
}
