//! Known helper programs, which serve the main program of their Pod.

use crate::order::declare::keys;
use crate::order::declare::spec::ContainerRef;

/// Parts of the names of helpers, and of their images.
const HELPERS: &str = "agent auth collector consul dapr dind envoy exporter fluent istio linkerd otel proxy sidecar sync \
    tailscale tunnel vault vpn";

/// Proxies that exit when they receive a request: a part of the container's name or image, and the request.
const QUITS: [(&str, &str); 4] = [
    ("istio-proxy", "POST http://127.0.0.1:15020/quitquitquit"),
    ("proxyv2", "POST http://127.0.0.1:15020/quitquitquit"),
    ("linkerd-proxy", "POST http://127.0.0.1:4191/shutdown"),
    ("cloud-sql-proxy", "POST http://127.0.0.1:9091/quitquitquit"),
];

/// Returns true if `own` is probably a helper, by its name or image.
pub(crate) fn is_helper(own: &ContainerRef<'_>) -> bool {
    HELPERS.split(' ').any(|word| is_named(own, word))
}

/// Returns the annotation that makes a known proxy exit. The Cloud SQL Auth Proxy also needs its flag `--quitquitquit`.
pub(crate) fn known_quit_line(own: &ContainerRef<'_>) -> Option<String> {
    let (_, request) = QUITS.iter().find(|(word, _)| is_named(own, word))?;
    Some(format!("{}{}: \"{request}\"", keys::QUIT_PREFIX, own.name))
}

fn is_named(own: &ContainerRef<'_>, word: &str) -> bool {
    let image = own.value["image"].as_str().and_then(|image| image.rsplit('/').next()).unwrap_or_default();
    own.name.contains(word) || image.contains(word)
}
