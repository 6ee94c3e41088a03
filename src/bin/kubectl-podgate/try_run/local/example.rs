//! The built-in example: `db` takes 4 s, `api` 2 s, and `web` half a second to become Ready.

use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

/// Delays until Ready, unless `--ready` sets others.
pub(super) const READY: [(&str, Duration); 2] = [("db", Duration::from_secs(4)), ("api", Duration::from_secs(2))];

/// Returns the example with ports that are free on this machine.
pub(super) fn pod() -> std::io::Result<Value> {
    // All listeners stay open until all ports are known. Otherwise the kernel could return the same port twice.
    let listeners: Vec<TcpListener> =
        (0..3).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
    let ports = listeners.iter().map(|one| one.local_addr().map(|at| at.port())).collect::<Result<Vec<u16>, _>>()?;
    let container = |name: &str, port: u16, probe: Value| {
        json!({
            "name": name,
            "image": format!("example.com/{name}"),
            "command": [name],
            "ports": [{"containerPort": port}],
            "readinessProbe": probe,
        })
    };
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "example", "annotations": {"podgate.io/order": "db, api, web"}},
        "spec": {"containers": [
            container("db", ports[0], json!({"tcpSocket": {"port": ports[0]}})),
            container("api", ports[1], json!({"httpGet": {"path": "/ready", "port": ports[1]}})),
            container("web", ports[2], json!({"httpGet": {"path": "/", "port": ports[2]}})),
        ]},
    }))
}
