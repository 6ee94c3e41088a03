//! Known helper programs, which serve the main program of their Pod.

use crate::order::declare::keys;
use crate::order::declare::spec::ContainerRef;
use crate::order::suggest::{image, is_docker_daemon};

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

/// Names of images and programs that never exit by themselves.
const SERVERS: &str = "alloydb-auth-proxy cloud-sql-proxy cloud_sql_proxy docker dockerd envoy filebeat fluent-bit fluentd \
    gce-proxy haproxy kube-rbac-proxy linkerd2-proxy mariadb memcached mongo mongod mysql mysqld nginx oauth2-proxy \
    opentelemetry-collector opentelemetry-collector-contrib postgres promtail proxyv2 redis redis-server vector";

/// Returns true if `own` runs the server of a well-known image.
pub(crate) fn runs_known_daemon(own: &ContainerRef<'_>) -> bool {
    let is_server = |word: &str| SERVERS.split_whitespace().any(|server| server == word);
    let (path, tag) = image(own);
    let base = path.rsplit('/').next().unwrap_or_default();
    let mut words = ["command", "args"].into_iter().flat_map(|field| own.string_list(field).unwrap_or_default());
    let first = words.next().unwrap_or_default();
    // The first argument of the Cloud SQL Auth Proxy can be an instance: `PROJECT:REGION:INSTANCE`.
    let is_instance = first.contains(':') && base.ends_with("-proxy");
    let program = first.rsplit('/').next().unwrap_or_default();
    let runs_server = program.is_empty() || first.starts_with('-') || is_instance || is_server(program);
    runs_server && (is_server(base) && base != "docker" || is_docker_daemon(&path, &tag))
}

/// Returns true if `own` is probably a helper, by its name or image.
pub(crate) fn is_helper(own: &ContainerRef<'_>) -> bool {
    HELPERS.split(' ').any(|word| is_named(own, word))
}

/// Returns the annotation that makes a known proxy exit, and the flag that the Cloud SQL Auth Proxy needs for it.
pub(crate) fn known_quit_line(own: &ContainerRef<'_>) -> Option<String> {
    let (_, request) = QUITS.iter().find(|(word, _)| is_named(own, word))?;
    let is_off = request.contains(":9091/") && !own.value.to_string().to_lowercase().contains("quitquitquit");
    let flag = if is_off { " (with --quitquitquit in its args)" } else { "" };
    Some(format!("{}{}: \"{request}\"{flag}", keys::QUIT_PREFIX, own.name))
}

fn is_named(own: &ContainerRef<'_>, word: &str) -> bool {
    let image = own.value["image"].as_str().and_then(|image| image.rsplit('/').next()).unwrap_or_default();
    own.name.contains(word) || image.contains(word)
}
