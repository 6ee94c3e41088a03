//! Command line of `podgate-webhook`.

use clap::{Parser, ValueEnum};
use podgate::edge::listen;
use podgate::edge::log::Format;
use podgate::order::declare::SidecarUse;
use podgate::order::sidecar_settings::{self, SidecarSettings};
use podgate::order::{release, resources};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
The API server calls the webhook for each new Pod that has a key of podgate. The webhook injects
Pods that declare an order, in the same way as `kubectl podgate inject` injects manifests. When a
workload with a key in its Pod template is created or changed, the webhook answers with the warnings
of `check`. In namespaces with the label podgate.io/inject: enabled, it also injects Pods that have
an order in the file of --orders. Run the webhook as a Deployment, with `kubectl podgate install`
or the Helm chart: https://github.com/podgate/podgate/blob/main/docs/webhook.md

With `--tls self` (the default), the webhook creates and renews its own certificates. It keeps them
in the Secret --secret of its namespace, which all replicas share, and writes their CA into the
MutatingWebhookConfiguration --configuration. Both objects must exist. With `--tls files`, it uses
the given files and reloads them every 10 seconds.

Examples:
  kubectl podgate install | kubectl apply -f -
  podgate-webhook --tls files --cert tls.crt --key tls.key --listen 127.0.0.1:8443

These flags have a variable, such as PODGATE_TLS for --tls: --listen, --status-listen, --tls,
--certificate-life, --image, --namespaces, --image-pull-policy, --sidecar-resources,
--sidecar-settings, --sidecar, --log-format and --log-level.

Exit codes:
  0    stopped by a signal
  1    could not start: port in use, no certificate or invalid images in the files, no cluster";

/// The admission webhook of a cluster: injects Pods while they are created
#[derive(Debug, Clone, Parser)]
#[command(version, after_help = HELP)]
pub(crate) struct Args {
    /// Serve /inject on this address (:PORT for all)
    #[arg(long, value_name = "ADDRESS:PORT", env = "PODGATE_LISTEN", default_value = ":8443", value_parser = listen::parse)]
    pub(crate) listen: SocketAddr,
    /// Address for health and metrics (:PORT: all)
    #[arg(long, value_name = "ADDRESS:PORT", env = "PODGATE_STATUS_LISTEN", default_value = ":8080", value_parser = listen::parse)]
    pub(crate) status_listen: SocketAddr,
    /// Issue certificates (self) or read them (files)
    #[arg(long, value_name = "SOURCE", env = "PODGATE_TLS", default_value = "self", hide_possible_values = true)]
    pub(crate) tls: TlsSource,
    /// Use the certificate chain in this PEM file, with --tls files
    #[arg(long, value_name = "FILE", required_if_eq("tls", "files"))]
    pub(crate) cert: Option<PathBuf>,
    /// Use the private key in this PEM file, with --tls files
    #[arg(long, value_name = "FILE", required_if_eq("tls", "files"))]
    pub(crate) key: Option<PathBuf>,
    /// Issue certificates for this long
    #[arg(long, value_name = "DURATION", env = "PODGATE_CERTIFICATE_LIFE", default_value = "7days", value_parser = cert_life)]
    pub(crate) certificate_life: Duration,
    /// Issue certificates for this Service
    #[arg(long, value_name = "NAME", default_value = "podgate-webhook")]
    pub(crate) service: String,
    /// Keep certificates in the Secret
    #[arg(long, value_name = "NAME", default_value = "podgate-webhook-tls")]
    pub(crate) secret: String,
    #[arg(long, value_name = "NAME", default_value = "zz-podgate-webhook")]
    #[arg(help = "Write the CA into this\nMutatingWebhookConfiguration")]
    pub(crate) configuration: String,
    /// Use this image
    #[arg(long, value_name = "IMAGE", env = "PODGATE_IMAGE", default_value_t = release::sidecar_image(), value_parser = release::parse_image)]
    pub(crate) image: String,
    /// Take commands of images from this file of `resolve-images`
    #[arg(long, value_name = "FILE")]
    pub(crate) images: Option<PathBuf>,
    /// Take orders for Pods that declare none from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) orders: Option<PathBuf>,
    /// Let Pods of these namespaces publish states (A,B or *)
    #[arg(long, value_name = "NAMES", env = "PODGATE_NAMESPACES", value_delimiter = ',')]
    pub(crate) namespaces: Vec<String>,
    /// Set imagePullPolicy: Always, IfNotPresent or Never
    #[arg(long, value_name = "POLICY", env = "PODGATE_IMAGE_PULL_POLICY", hide_possible_values = true)]
    #[arg(value_parser = ["Always", "IfNotPresent", "Never"])]
    pub(crate) image_pull_policy: Option<String>,
    /// Leave the sidecar's user id to the cluster, for OpenShift
    #[arg(long)]
    pub(crate) no_fixed_user: bool,
    #[arg(help = resources::help(), hide_default_value = true)]
    #[arg(long, value_name = "SETTINGS", env = "PODGATE_SIDECAR_RESOURCES", default_value = resources::DEFAULT, value_parser = resources::parse)]
    pub(crate) sidecar_resources: Value,
    /// Set log, metrics and probes, such as log=debug,metrics=9090
    #[arg(long, value_name = "SETTINGS", env = "PODGATE_SIDECAR_SETTINGS", value_parser = sidecar_settings::parse)]
    pub(crate) sidecar_settings: Option<SidecarSettings>,
    /// Add the sidecar: always, auto or none
    #[arg(long, value_name = "WHEN", env = "PODGATE_SIDECAR", default_value = "always")]
    pub(crate) sidecar: SidecarUse,
    /// Continue to answer this long after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = up_to_an_hour)]
    pub(crate) shutdown_delay: Duration,
    /// Then wait at most this long for open requests
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = up_to_an_hour)]
    pub(crate) shutdown_grace: Duration,
    /// Use this kubeconfig instead of the Pod's service account
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Wait at most this long for one API request
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = up_to_an_hour)]
    pub(crate) request_timeout: Duration,
    /// Write log lines in this format: text or json
    #[arg(long, value_name = "FORMAT", env = "PODGATE_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: Format,
    /// Log at error, warn, info, debug or trace level
    #[arg(long, value_name = "LEVEL", env = "PODGATE_LOG_LEVEL", default_value = "info")]
    pub(crate) log_level: tracing::Level,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsSource {
    // The webhook creates the certificate.
    #[value(name = "self")]
    SelfSigned,
    // cert-manager or a user creates the certificate.
    Files,
}

fn cert_life(text: &str) -> Result<Duration, String> {
    let life = humantime::parse_duration(text).map_err(|error| format!("{error}; write 12h or 7days"))?;
    let range = Duration::from_secs(60)..=Duration::from_secs(366 * 24 * 60 * 60);
    range.contains(&life).then_some(life).ok_or_else(|| "must be between 1min and 366days".to_owned())
}

fn up_to_an_hour(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write 5s or 1m"))?;
    (time <= Duration::from_secs(60 * 60)).then_some(time).ok_or_else(|| "must be 1h at most".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_names_each_flag_with_a_variable() {
        for arg in Args::command().get_arguments() {
            let Some((variable, flag)) = arg.get_env().zip(arg.get_long()) else { continue };
            assert_eq!(variable, &*format!("PODGATE_{}", flag.replace('-', "_").to_uppercase()));
            let mut words = HELP.split_whitespace().map(|word| word.trim_end_matches([',', '.']));
            assert!(words.any(|word| word.strip_prefix("--") == Some(flag)), "{flag}");
        }
    }
}
