//! Questions to the API server, and clear words for what it answers.

mod args;
pub(crate) mod follow;

pub(crate) use args::{Connection, pod_name};

use crate::pod::Pod;
use kube::api::{Api, ApiResource};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::time::Duration;

/// A cluster that can be asked. Making one asks nothing yet.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// The server's address, for messages.
    pub(crate) server: String,
    /// The namespace that was asked for, else that of the kubeconfig's context.
    pub(crate) namespace: String,
    /// How long one answer may take.
    pub(crate) limit: Duration,
}

impl Cluster {
    /// # Errors
    /// One line that says what is wrong with the kubeconfig.
    pub(crate) async fn of(connection: &Connection) -> Result<Self, String> {
        let mut config = config(connection).await?;
        // One question, and the answer as it is; who asks can ask again.
        config.default_retry = false;
        config.connect_timeout = Some(connection.request_timeout);
        let server = config.cluster_url.to_string();
        let namespace = connection.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client =
            Client::try_from(config).map_err(|error| format!("can't use the kubeconfig: {}", chain(&error)))?;
        Ok(Self { client, server, namespace, limit: connection.request_timeout })
    }

    /// The pods of the namespace.
    pub(crate) fn pods(&self) -> Api<Pod> {
        let pods = ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            plural: "pods".to_owned(),
        };
        Api::namespaced_with(self.client.clone(), &self.namespace, &pods)
    }

    /// # Errors
    /// One line that says what is wrong.
    pub(crate) async fn pod(&self, name: &str) -> Result<Pod, String> {
        let answer = tokio::time::timeout(self.limit, self.pods().get(name)).await;
        answer.map_err(|_| self.late())?.map_err(|error| self.explain(&error, name))
    }

    pub(crate) fn late(&self) -> String {
        format!("no answer from {} within {}", self.server, humantime::format_duration(self.limit))
    }

    pub(crate) fn explain(&self, error: &kube::Error, pod: &str) -> String {
        let Self { server, namespace, .. } = self;
        match error {
            kube::Error::Api(status) => match status.code {
                404 => format!("no Pod {pod:?} in the namespace {namespace:?}; another one is named with -n"),
                401 => format!(
                    "{server} does not know who you are ({}): log in, or name another --context",
                    status.message
                ),
                403 => format!("not allowed to read the Pod {pod:?}: {}", status.message),
                code => format!("{server} answered {code}: {}", status.message),
            },
            kube::Error::SerdeError(error) => format!("{server} answered with something that is no Pod: {error}"),
            other => format!("can't ask {server}: {}", chain(other)),
        }
    }
}

async fn config(connection: &Connection) -> Result<Config, String> {
    let options = KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
    let found = match &connection.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let kubeconfig = match found {
        Ok(kubeconfig) => kubeconfig,
        Err(error) => {
            // In a pod there is none, and a service account in its place.
            let asked_for = connection.kubeconfig.is_some() || connection.context.is_some();
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

/// What failed and why. The messages of most errors here repeat their sources: what has been said is not said again.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
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
