//! The client for the API server: for `--tls self`, and for the version of Kubernetes.

use crate::args::Args;
use crate::state::State;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use podgate::core::text::error_chain;
use podgate::order::kubernetes_version::Version;
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, info};

/// Pause after a failed request for the API server's version.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

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

/// Reads the API server's version. Retries until that succeeds. Without access to the API server, the version remains
/// unknown.
pub(crate) async fn read_version(args: Args, state: Arc<State>) {
    let client = match make_client(&args).await {
        Ok((client, _)) => client,
        Err(error) => return debug!(error, "the version of Kubernetes is not known"),
    };
    loop {
        let read = async {
            let asked = tokio::time::timeout(args.request_timeout, client.apiserver_version()).await;
            let info = asked.map_err(|_| "time-out".to_owned())?.map_err(|error| error_chain(&error))?;
            format!("{}.{}", info.major, info.minor).parse::<Version>()
        };
        match read.await {
            Ok(version) => {
                info!(%version, "read the version of Kubernetes");
                let _ = state.kubernetes.set(version);
                return;
            }
            Err(error) => debug!(error, "can't read the version of Kubernetes; will retry"),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}
