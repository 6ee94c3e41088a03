//! The arguments of all commands that ask a cluster.

use crate::common_args::duration;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Which cluster, as whom, and how patiently: the same for each command that asks one.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConnectionArgs {
    /// The namespace; by default that of the kubeconfig's context
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// The kubeconfig's context; by default its current one
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The kubeconfig; by default what KUBECONFIG names, else ~/.kube/config, else the service account
    /// of the Pod that this runs in
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// How long the API server may take
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) request_timeout: Duration,
}

/// Takes `pod/NAME` too, as kubectl prints it.
pub(crate) fn pod_name(text: &str) -> Result<String, &'static str> {
    let name = ["pod/", "pods/", "po/"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    if !name.is_empty() && name.len() <= 253 && name.bytes().all(ok) {
        Ok(name.to_owned())
    } else {
        Err("no Pod's name")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_pod_as_kubectl_prints_it() {
        for text in ["db-0", "pod/db-0", "pods/db-0", "po/db-0"] {
            assert_eq!(pod_name(text), Ok("db-0".to_owned()), "{text}");
        }
        for text in ["", "pod/", "a/b", "deployment/x", "../x", "A", "a b", "a?x=1", "a%2f"] {
            assert!(pod_name(text).is_err(), "{text:?}");
        }
    }
}
