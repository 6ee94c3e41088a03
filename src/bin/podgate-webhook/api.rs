//! The client for the API server: for `--tls self`, and for facts about the cluster.

use crate::args::Args;
use crate::error::{Error, failed};
use crate::state::State;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use podgate::core::text::error_chain;
use podgate::order::kubernetes_version::Version;
use podgate::order::plan::KnownFacts;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tracing::{debug, info};

/// Pause after a failed request for facts about the cluster.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Returns a client, and the namespace of this Pod or of the kubeconfig's context. The client sends no request yet.
/// Fails if the Pod has no service account or the kubeconfig is unusable.
pub(crate) async fn make_client(args: &Args) -> Result<(Client, String), Error> {
    const STEP: &str = "cannot use the kubeconfig";
    let mut config = match &args.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path).map_err(failed(STEP))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(failed(STEP))?
        }
        None => Config::incluster().map_err(|error| {
            let what = format!("no service account in this container: {}", error_chain(&error));
            Error::Fixable(what, "pass --kubeconfig, or use --tls files".to_owned())
        })?,
    };
    // The caller retries failed requests.
    config.default_retry = false;
    config.connect_timeout = Some(args.request_timeout);
    let namespace = config.default_namespace.clone();
    Ok((Client::try_from(config).map_err(failed(STEP))?, namespace))
}

/// Asks the API server for its version. Retries until the API server answers. Without access to the API server, the
/// version remains unknown.
pub(crate) async fn read_kubernetes_version(args: Args, state: Arc<State>) {
    let (client, _) = match make_client(&args).await {
        Ok(found) => found,
        Err(error) => return debug!(%error, "the version of Kubernetes is not known"),
    };
    loop {
        let read = async {
            let asked = timeout(args.request_timeout, client.apiserver_version()).await;
            let info = asked.map_err(|_| "time-out".to_owned())?.map_err(|error| error_chain(&error))?;
            format!("{}.{}", info.major, info.minor).parse::<Version>()
        };
        match read.await {
            Ok(version) => {
                let _ = state.cluster_facts.set(KnownFacts { kubernetes: Some(version), ..KnownFacts::default() });
                info!(%version, "read the version of Kubernetes");
                return;
            }
            Err(error) => debug!(error, "cannot read the version of Kubernetes; will retry"),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}
