//! The built-in example: `db` takes 4 s, `api` 2 s, and `web` half a second to become Ready.

use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

/// Delays until Ready, unless `--ready` sets others.
pub(super) const READY: [(&str, Duration); 2] = [("db", Duration::from_secs(4)), ("api", Duration::from_secs(2))];

/// Returns the example with ports that are free on this machine.
pub(super) fn pod() -> std::io::Result<Value> {
    // All listeners stay open until all ports are known. Otherwise the kernel could return the same port twice.
    let listeners = ["db", "api", "web"].map(|name| (name, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))));
    let container = |(name, listener): &(&str, std::io::Result<TcpListener>)| {
        let port = listener.as_ref().map_err(|error| error.kind())?.local_addr()?.port();
        let probe = json!({"httpGet": {"path": "/ready", "port": port}});
        Ok(json!({"name": name, "image": format!("example.com/{name}"), "command": [name], "readinessProbe": probe}))
    };
    let containers: Vec<Value> = listeners.iter().map(container).collect::<std::io::Result<_>>()?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "example", "annotations": {"podgate.io/order": "db, api, web"}},
        "spec": {"containers": containers},
    }))
}
