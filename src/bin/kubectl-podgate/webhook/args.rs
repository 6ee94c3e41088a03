//! Arguments of `kubectl podgate webhook`.

use crate::cluster::Connection;
use clap::{Args as ClapArgs, ValueEnum};
use podgate::edge::log::Format;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
The API server calls this for each Pod that is about to be made, and Pods that declare an order are
injected: the same as `kubectl podgate inject` does with a manifest. It is meant to run as a Deployment:
manifests/injector has all of it, charts/podgate the same as a Helm chart.

With --tls self (the default) it makes its own certificates, keeps them in the Secret --secret, which all
replicas share, and writes their CA into the MutatingWebhookConfiguration --configuration. Both must exist.
With --tls files it serves the given ones, and looks at the files again every 10 seconds.

On TERM it says at /readyz that it is not ready, goes on answering for --shutdown-delay, then finishes what
it has begun, for --shutdown-grace at most, and ends.

Examples:
  kubectl apply -k manifests/injector
  kubectl podgate webhook --tls files --cert tls.crt --key tls.key --listen 127.0.0.1:8443

Exit codes:
  0    told to end
  1    could not start: a port is taken, no certificate in the files, no cluster to ask
  64   wrong flag or argument";

/// Inject Pods as they are made: the admission webhook of a cluster
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub(crate) struct Webhook {
    /// Where to answer the API server, by HTTPS, at /inject; `:PORT` for all addresses
    #[arg(long, value_name = "ADDRESS:PORT", env = "PODGATE_LISTEN", default_value = ":8443", value_parser = listen)]
    pub(crate) listen: Listen,
    /// Where to serve /healthz, /readyz and /metrics, by HTTP; `:PORT` for all addresses
    #[arg(long, value_name = "ADDRESS:PORT", env = "PODGATE_STATUS_LISTEN", default_value = ":8080", value_parser = listen)]
    pub(crate) status_listen: Listen,
    /// Where certificates come from: self (made here, kept in a Secret) or files
    #[arg(long, value_name = "WHENCE", env = "PODGATE_TLS", default_value = "self")]
    pub(crate) tls: Tls,
    /// The certificate and what leads to its CA, as PEM; with --tls files
    #[arg(long, value_name = "FILE", required_if_eq("tls", "files"))]
    pub(crate) cert: Option<PathBuf>,
    /// Its private key, as PEM; with --tls files
    #[arg(long, value_name = "FILE", required_if_eq("tls", "files"))]
    pub(crate) key: Option<PathBuf>,
    /// How long a certificate of its own lives; it is renewed when a third of that is left
    #[arg(long, value_name = "DURATION", env = "PODGATE_CERTIFICATE_LIFE", default_value = "7days", value_parser = life)]
    pub(crate) certificate_life: Duration,
    /// The Service that the API server calls, in the namespace of --namespace: the certificate's name
    #[arg(long, value_name = "NAME", default_value = "podgate-webhook")]
    pub(crate) service: String,
    /// The Secret that keeps the certificates, in the same namespace
    #[arg(long, value_name = "NAME", default_value = "podgate-webhook-tls")]
    pub(crate) secret: String,
    /// The MutatingWebhookConfiguration that is told the CA
    #[arg(long, value_name = "NAME", default_value = "podgate-webhook")]
    pub(crate) configuration: String,
    /// The image of the sidecar that is injected
    #[arg(long, value_name = "IMAGE", env = "PODGATE_IMAGE", default_value = concat!("ghcr.io/podgate/podgate:", env!("CARGO_PKG_VERSION")))]
    pub(crate) image: String,
    /// Its imagePullPolicy; by default left to Kubernetes
    #[arg(long, value_name = "POLICY", env = "PODGATE_IMAGE_PULL_POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub(crate) image_pull_policy: Option<String>,
    /// Leave the sidecar's user id to the cluster, as OpenShift wants it
    #[arg(long)]
    pub(crate) no_fixed_user: bool,
    /// How long to go on answering after TERM: until all API servers and nodes know that it is leaving
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = up_to_an_hour)]
    pub(crate) shutdown_delay: Duration,
    /// How long requests that have begun may then take
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = up_to_an_hour)]
    pub(crate) shutdown_grace: Duration,
    /// How log lines are written: text or json
    #[arg(long, value_name = "FORMAT", env = "PODGATE_LOG_FORMAT", default_value_t = Format::Text)]
    pub(crate) log_format: Format,
    /// What is logged: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", env = "PODGATE_LOG_LEVEL", default_value = "info")]
    pub(crate) log_level: tracing::Level,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Value of `--tls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tls {
    // Made here.
    #[value(name = "self")]
    Own,
    // By cert-manager, or by hand.
    Files,
}

/// Value of `--listen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listen {
    /// All, if none is given.
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
}

fn listen(text: &str) -> Result<Listen, String> {
    let wrong = || format!("{text:?} is neither ADDRESS:PORT nor :PORT");
    match text.strip_prefix(':') {
        Some(port) => port.parse().map(|port| Listen { address: None, port }).map_err(|_| wrong()),
        None => {
            let address: SocketAddr = text.parse().map_err(|_| wrong())?;
            Ok(Listen { address: Some(address.ip()), port: address.port() })
        }
    }
}

fn life(text: &str) -> Result<Duration, String> {
    let life = humantime::parse_duration(text).map_err(|error| format!("{error}; write 12h or 7days"))?;
    let (least, most) = (Duration::from_secs(60), Duration::from_secs(366 * 24 * 60 * 60));
    if (least..=most).contains(&life) { Ok(life) } else { Err("must be between 1min and 366days".to_owned()) }
}

fn up_to_an_hour(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write 5s or 1m"))?;
    if time <= Duration::from_secs(60 * 60) { Ok(time) } else { Err("must be 1h at most".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_listen_at() {
        assert_eq!(listen(":8443"), Ok(Listen { address: None, port: 8443 }));
        assert_eq!(listen("[::1]:0").unwrap().address, Some("::1".parse().unwrap()));
        assert_eq!(listen("127.0.0.1:1").unwrap().port, 1);
        for text in ["", ":", "8443", ":70000", "host:1", "::1", "127.0.0.1"] {
            assert!(listen(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_certificate_lives_long_enough_to_be_renewed() {
        assert_eq!(life("60s"), Ok(Duration::from_secs(60)));
        for text in ["59s", "0s", "367days", "soon", "99999999999999years"] {
            assert!(life(text).is_err(), "{text:?}");
        }
    }
}
