//! Asks containers to exit when all other containers have ended. A Job needs this for a proxy with an unknown command,
//! because podgate cannot add a gate that ends such a proxy.

use super::Controller;
use crate::clock::now;
use crate::failure::Result;
use crate::probe::run_exchange;
use podgate::core::argv::Check;
use podgate::core::http::PROBE_USER_AGENT;
use podgate::core::quit::parse;
use podgate::core::url::authority;
use std::time::Duration;
use tracing::{info, warn};

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(1);

impl Controller {
    /// Sends a request to each container that must exit now, once for each start of the container.
    pub(super) fn ask_to_quit(&mut self) {
        for track in self.pod.last_containers_to_quit() {
            if self.asked_to_quit.insert(track.running_container_id()) {
                tokio::task::spawn_local(ask(track.spec.name.clone(), track.spec.quit.clone().unwrap_or_default()));
            }
        }
    }
}

/// Sends `request` each second until the response is a success. The retries need no limit, because the kubelet ends the
/// sidecar after the last container.
async fn ask(container: String, request: String) {
    info!(container, request, "all other containers have ended; asking the container to exit");
    let mut has_warned = false;
    loop {
        let why = match send(&request).await {
            Ok(status @ 200..300) => return info!(container, status, "the container has been asked to exit"),
            Ok(status) => format!("status {status}"),
            Err(why) => why.to_string(),
        };
        if !std::mem::replace(&mut has_warned, true) {
            warn!(container, why, "the container does not accept the request to exit; asking again each second");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Sends the request, and returns the status of the response.
async fn send(text: &str) -> Result<u16> {
    let (method, Check::Http { host, port, path, .. }) = parse(text)? else { return Err("not an HTTP URL".into()) };
    let authority = authority(&host, port);
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {PROBE_USER_AGENT}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    Ok(run_exchange(&host, port, Some(request.into_bytes()), now() + ATTEMPT_TIMEOUT).await?.status)
}
