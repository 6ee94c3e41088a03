//! Arguments of all commands that talk to a cluster.

use crate::common_args::duration;
use clap::Args;
use podgate::core::names::is_container_name;
use std::path::PathBuf;
use std::time::Duration;

/// Connection flags, the same for every command that talks to a cluster.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConnectionArgs {
    /// Use this namespace; defaults to that of the kubeconfig context
    #[arg(short, long, value_name = "NAME", value_parser = parse_namespace)]
    pub(crate) namespace: Option<String>,
    /// Use this kubeconfig context; defaults to the current context
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Use this kubeconfig; defaults to KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Wait at most this long for one API request
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) request_timeout: Duration,
}

/// Parses `NAME` or `pod/NAME`, the format that kubectl prints.
pub(crate) fn pod_name(text: &str) -> Result<String, &'static str> {
    let name = ["pod/", "pods/", "po/"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    if name.contains('/') {
        return Err(
            "not a Pod name; list the Pods of a workload with `kubectl get pods -l LABELS`, and pass one of them",
        );
    }
    if !name.is_empty() && name.len() <= 253 && name.bytes().all(ok) {
        Ok(name.to_owned())
    } else {
        Err("not a Pod name; write NAME or pod/NAME")
    }
}

/// Returns the namespace, unless it could change the URL of a request.
pub(crate) fn parse_namespace(text: &str) -> Result<String, &'static str> {
    if is_container_name(text) { Ok(text.to_owned()) } else { Err("not the name of a namespace") }
}
