//! The client for the API server. `--tls self` alone needs one.

use crate::args::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Returns a client and the namespace of this Pod, or of the kubeconfig's context. It sends nothing yet.
///
/// # Errors
/// One line: no service account, or an unusable kubeconfig.
pub(crate) async fn connect(args: &Args) -> Result<(Client, String), String> {
    let wrong = |error: &dyn std::error::Error| format!("can't use the kubeconfig: {}", chain(error));
    let mut config = match &args.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path).map_err(|error| wrong(&error))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .map_err(|error| wrong(&error))?
        }
        None => Config::incluster().map_err(|error| {
            let why = chain(&error);
            format!("no service account in this container: {why}; name a cluster by --kubeconfig, or use --tls files")
        })?,
    };
    // The caller repeats its requests anyway.
    config.default_retry = false;
    config.connect_timeout = Some(args.request_timeout);
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config).map_err(|error| wrong(&error))?;
    Ok((client, namespace))
}

/// An error and its sources in one line. Most messages here repeat their sources, so what is in the text already is left out.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let why = source.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        next = source.source();
    }
    text
}
