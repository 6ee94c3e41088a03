//! The client for the API server: for `--tls self`, and for facts about the cluster.

use crate::args::Args;
use crate::state::State;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Request;
use kube::{Client, Config};
use podgate::core::text::error_chain;
use podgate::order::kubernetes_version::{Version, held_spec, rejects_env_files};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tracing::{debug, info, warn};

/// Pause after a failed request for facts about the cluster.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Returns a client, and the namespace of this Pod or of the kubeconfig's context. The client sends no request yet.
/// Fails if the Pod has no service account or the kubeconfig is unusable.
pub(crate) async fn make_client(args: &Args) -> Result<(Client, String), String> {
    let wrong = |error: &dyn std::error::Error| format!("cannot use the kubeconfig: {}", error_chain(error));
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

/// Asks the API server for its version, and whether it accepts held containers. Retries until the API server answers.
/// Without access to the API server, these facts remain unknown.
pub(crate) async fn read_facts(args: Args, state: Arc<State>) {
    let (client, namespace) = match make_client(&args).await {
        Ok(found) => found,
        Err(error) => return debug!(error, "the version of Kubernetes is not known"),
    };
    loop {
        let read = async {
            let asked = timeout(args.request_timeout, client.apiserver_version()).await;
            let info = asked.map_err(|_| "time-out".to_owned())?.map_err(|error| error_chain(&error))?;
            let version = format!("{}.{}", info.major, info.minor).parse::<Version>()?;
            let rejection = timeout(args.request_timeout, env_files_rejection(&client, &namespace)).await;
            Ok::<_, String>((version, rejection.map_err(|_| "time-out".to_owned())??))
        };
        match read.await {
            Ok((version, rejection)) => {
                let lacks_env_files = rejection.is_some();
                let facts = KnownFacts { kubernetes: Some(version), lacks_env_files, ..KnownFacts::default() };
                let _ = state.cluster_facts.set(facts);
                info!(%version, "read the version of Kubernetes");
                if let Some(answer) = rejection.filter(|_| version >= Version::WITH_HOLD) {
                    warn!(answer, "hold mode is not possible: the feature gate EnvFiles of the API server is off");
                }
                return;
            }
            Err(error) => debug!(error, "cannot read the version of Kubernetes; will retry"),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// In a dry run, creates a PodTemplate with a variable from a file. Returns the API server's error message if the
/// server rejects the variable, and `None` if the server accepts it or the webhook may not create PodTemplates. The API
/// server drops fields of disabled features before it validates an object. So its answer to a user's Pod with such a
/// variable does not name the cause.
async fn env_files_rejection(client: &Client, namespace: &str) -> Result<Option<String>, String> {
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "podgate-env-files"},
        "template": {"metadata": {"labels": {"podgate.io/inject": "disabled"}}, "spec": held_spec()}});
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let request = Request::new(format!("/api/v1/namespaces/{namespace}/podtemplates"));
    let request =
        request.create(&parameters, template.to_string().into_bytes()).map_err(|error| error_chain(&error))?;
    match client.request::<Value>(request).await {
        Err(kube::Error::Api(status)) if status.code == 422 && rejects_env_files(&status.message) => {
            Ok(Some(status.message.clone()))
        }
        Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 => {
            debug!(answer = status.message, "cannot find out whether hold mode is possible");
            Ok(None)
        }
        answer => answer.map(|_| None).map_err(|error| error_chain(&error)),
    }
}
