//! One question to the API server.

use crate::args::Status;
use crate::pod::Pod;
use kube::api::{Api, ApiResource};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::time::Duration;

/// The pod and its namespace, or one line that says what is wrong.
pub(crate) async fn get(args: &Status) -> Result<(Pod, String), String> {
    let mut config = config(args).await?;
    // One question, and the answer as it is; who asks can ask again.
    config.default_retry = false;
    config.connect_timeout = Some(args.request_timeout);
    let server = config.cluster_url.to_string();
    let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).map_err(|error| format!("can't use the kubeconfig: {}", chain(&error)))?;
    let pods = ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        plural: "pods".to_owned(),
    };
    let api: Api<Pod> = Api::namespaced_with(client, &namespace, &pods);
    let limit = args.request_timeout;
    let answer = tokio::time::timeout(limit, api.get(&args.pod)).await;
    let pod = answer.map_err(|_| late(&server, limit))?.map_err(|error| explain(&error, args, &namespace, &server))?;
    Ok((pod, namespace))
}

async fn config(args: &Status) -> Result<Config, String> {
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let found = match &args.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let kubeconfig = match found {
        Ok(kubeconfig) => kubeconfig,
        Err(error) => {
            // In a pod there is none, and a service account in its place.
            let asked_for = args.kubeconfig.is_some() || args.context.is_some();
            return match Config::incluster() {
                Ok(config) if !asked_for => Ok(config),
                _ => Err(format!("no kubeconfig: {}; name one with --kubeconfig or KUBECONFIG", chain(&error))),
            };
        }
    };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| format!("can't use the kubeconfig: {}", chain(&error)))
}

fn late(server: &str, limit: Duration) -> String {
    format!("no answer from {server} within {}", humantime::format_duration(limit))
}

fn explain(error: &kube::Error, args: &Status, namespace: &str, server: &str) -> String {
    let pod = &args.pod;
    match error {
        kube::Error::Api(status) => match status.code {
            404 => format!("no Pod {pod:?} in the namespace {namespace:?}; another one is named with -n"),
            401 => {
                format!("{server} does not know who you are ({}): log in, or name another --context", status.message)
            }
            403 => format!("not allowed to read the Pod {pod:?}: {}", status.message),
            code => format!("{server} answered {code}: {}", status.message),
        },
        kube::Error::SerdeError(error) => format!("{server} answered with something that is no Pod: {error}"),
        other => format!("can't ask {server}: {}", chain(other)),
    }
}

/// What failed and why. The messages of most errors here repeat their sources: what has been said is not said again.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let why = source.to_string();
        if !text.contains(&why) {
            text.push_str(": ");
            text.push_str(&why);
        }
        next = source.source();
    }
    text
}
