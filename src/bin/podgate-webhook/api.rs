//! The client for the API server. Only `--tls self` needs it.

use crate::args::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use podgate::core::text::error_chain;

/// Returns a client, and the namespace of this Pod or of the kubeconfig's context. The client sends no request yet.
/// Fails if the Pod has no service account or the kubeconfig is unusable.
pub(crate) async fn make_client(args: &Args) -> Result<(Client, String), String> {
    let wrong = |error: &dyn std::error::Error| format!("can't use the kubeconfig: {}", error_chain(error));
    let mut config = match &args.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path).map_err(|error| wrong(&error))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .map_err(|error| wrong(&error))?
        }
        None => Config::incluster().map_err(|error| {
            let why = error_chain(&error);
            format!("no service account in this container: {why}; pass --kubeconfig, or use --tls files")
        })?,
    };
    // The caller retries failed requests.
    config.default_retry = false;
    config.connect_timeout = Some(args.request_timeout);
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config).map_err(|error| wrong(&error))?;
    Ok((client, namespace))
}
