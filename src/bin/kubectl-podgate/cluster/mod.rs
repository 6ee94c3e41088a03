//! Requests to the API server, and readable messages for the server's errors.

use crate::common_args::duration;
use crate::error::{CommandError, CommandResult, ErrorKind};
use crate::pod::Pod;
use clap::Args;
use k8s_openapi::api::core::v1;
use kube::api::{Api, ApiResource, ListParams, LogParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::Request;
use kube::{Client, Config};
use podgate::core::names::is_container_name;
use podgate::core::text::error_chain;
use serde_json::Value;
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
    /// Name these files of kubectl in messages
    #[arg(long, value_name = "FILES", env = "KUBECONFIG", default_value = "~/.kube/config", hide = true)]
    pub(crate) kubeconfig_files: String,
    /// Wait at most this long for one API request
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) request_timeout: Duration,
}

/// Parses `NAME` or `pod/NAME`, the format that kubectl prints.
pub(crate) fn parse_pod_name(text: &str) -> Result<String, &'static str> {
    let name = ["pod/", "pods/", "po/"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    if name.contains('/') {
        return Err(
            "not a Pod name; list the Pods of a workload with `kubectl get pods -l LABELS`, and pass one of them",
        );
    }
    let is_valid = !name.is_empty() && name.len() <= 253 && name.bytes().all(ok);
    is_valid.then(|| name.to_owned()).ok_or("not a Pod name; write NAME or pod/NAME")
}

/// Returns the namespace, unless it could change the URL of a request.
pub(crate) fn parse_namespace(text: &str) -> Result<String, &'static str> {
    if is_container_name(text) { Ok(text.to_owned()) } else { Err("not the name of a namespace") }
}

/// Connection to a cluster. Creating a connection sends no request.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Server address, for messages.
    pub(crate) server: String,
    /// Origin of the address, for messages: kubeconfig and context.
    origin: String,
    /// Namespace from the command line, otherwise from the kubeconfig context.
    pub(crate) namespace: String,
    /// Time limit for one request.
    pub(crate) request_timeout: Duration,
}

impl Cluster {
    pub(crate) async fn from_args(connection: &ConnectionArgs) -> CommandResult<Self> {
        let options = KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
        let unusable = |error: &dyn std::error::Error| {
            format!("cannot use the kubeconfig: {}; pass --context or --kubeconfig", error_chain(error))
        };
        let read = connection.kubeconfig.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        let mut origin = "service account of this Pod".to_owned();
        let mut config = match read {
            Ok(kubeconfig) => {
                let files = connection.kubeconfig_files.clone();
                let from = connection.kubeconfig.as_ref().map_or(files, |path| path.display().to_string());
                let context = connection.context.as_ref().or(kubeconfig.current_context.as_ref());
                origin = format!("context {:?} of {from}", context.map_or("", String::as_str));
                let loaded = Config::from_custom_kubeconfig(kubeconfig, &options).await;
                loaded.map_err(|error| unusable(&error))?
            }
            Err(error) => {
                // In a Pod, use the service account, unless a flag requests a kubeconfig.
                let asked_for = connection.kubeconfig.is_some() || connection.context.is_some();
                let why = match &error {
                    KubeconfigError::Parse(_) => "it is not a kubeconfig in YAML".to_owned(),
                    // The library quotes the path twice. Keep only the double quotes.
                    other => error_chain(other).replace("'\"", "\"").replace("\"'", "\""),
                };
                let failed = format!("cannot read the kubeconfig: {why}; pass one with --kubeconfig or KUBECONFIG");
                Config::incluster().ok().filter(|_| !asked_for).ok_or(failed)?
            }
        };
        // Disable automatic retries. The callers retry where retries make sense.
        config.default_retry = false;
        config.connect_timeout = Some(connection.request_timeout);
        let server = config.cluster_url.to_string();
        let namespace = connection.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| unusable(&error))?;
        Ok(Self { client, server, origin, namespace, request_timeout: connection.request_timeout })
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::erase::<v1::Pod>(&()))
    }

    /// Reads the list at `path` in pages, and calls `each` for each object of the list.
    pub(crate) async fn for_each(
        &self,
        path: &str,
        mut parameters: ListParams,
        mut each: impl FnMut(&Value),
    ) -> CommandResult<()> {
        parameters.limit = Some(500);
        loop {
            let request = Request::new(path).list(&parameters);
            let send = async { self.client.request(request.map_err(kube::Error::BuildRequest)?).await };
            let page: Value = self.await_response(send).await?;
            page["items"].as_array().into_iter().flatten().for_each(&mut each);
            match page["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => parameters.continue_token = Some(token.to_owned()),
                _ => return Ok(()),
            }
        }
    }

    /// Returns the Pod `name` in the selected namespace.
    pub(crate) async fn get_pod(&self, name: &str) -> CommandResult<Pod> {
        self.await_response(self.pods().get(name)).await.map_err(|error| self.pod_error(error, name))
    }

    /// Returns the object at `path`.
    pub(crate) async fn get(&self, path: &str) -> CommandResult<Value> {
        let request = hyper::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError);
        self.await_response(async { self.client.request(request?).await }).await
    }

    /// Returns the last line in the log of a container.
    pub(crate) async fn last_log_line(&self, pod: &str, container: &str) -> CommandResult<String> {
        let parameters =
            LogParams { container: Some(container.to_owned()), tail_lines: Some(1), ..LogParams::default() };
        self.await_response(Api::<v1::Pod>::namespaced(self.client.clone(), &self.namespace).logs(pod, &parameters))
            .await
    }

    /// Waits for the server's response to a request, but not longer than the time limit for one request.
    pub(crate) async fn await_response<T>(&self, answer: impl Future<Output = kube::Result<T>>) -> CommandResult<T> {
        let Ok(answer) = tokio::time::timeout(self.request_timeout, answer).await else {
            let limit = humantime::format_duration(self.request_timeout);
            let what = format!("no answer from {} within {limit} ({})", self.server, self.origin);
            return Err(format!("{what}; check the network or VPN, or raise --request-timeout").into());
        };
        answer.map_err(|error| {
            // Of a failed connection, only the innermost error is about the network.
            let mut cause: &dyn std::error::Error = &error;
            while let (kube::Error::Service(_), Some(source)) = (&error, cause.source()) {
                cause = source;
            }
            let line = format!("request to {} failed ({}): {}", self.server, self.origin, error_chain(cause));
            match error {
                kube::Error::Api(status) => CommandError::new(ErrorKind::Rejected(status.code, status.message), line),
                kube::Error::SerdeError(_) => CommandError::new(ErrorKind::Unreadable, line),
                kube::Error::Service(_) => {
                    format!("{line}; check that the cluster runs, or pass --context or --kubeconfig").into()
                }
                _ => line.into(),
            }
        })
    }

    /// Creates an object at `path`. Returns the object that the API server stores, or would store without a dry run.
    pub(crate) async fn create(&self, path: &str, dry_run: bool, object: &Value) -> CommandResult<Value> {
        let parameters = PostParams { dry_run, ..PostParams::default() };
        let request = Request::new(path).create(&parameters, object.to_string().into_bytes());
        self.await_response(async { self.client.request(request.map_err(kube::Error::BuildRequest)?).await }).await
    }

    /// Returns the error of a failed request about a Pod.
    pub(crate) fn pod_error(&self, error: CommandError, pod: &str) -> CommandError {
        let Self { server, namespace, .. } = self;
        let line = match &error.kind {
            ErrorKind::Rejected(code, message) => match code {
                404 => format!("no Pod {pod:?} in namespace {namespace:?}; pass another namespace with -n"),
                401 => format!("{server}: not logged in ({message}); log in or pass another --context"),
                403 => format!("access to the Pod {pod:?} denied: {message}; ask for this permission"),
                _ => format!("{server} answered {code}: {message}"),
            },
            ErrorKind::Unreadable => {
                format!("{server}: the response is not a Pod; check the server's address in the kubeconfig")
            }
            _ => return error,
        };
        line.into()
    }
}
