//! The certificate that the webhook shows, and where it comes from.
//!
//! | module | holds |
//! |---|---|
//! | [`shown`] | the certificate in use; another may take its place while connections live |
//! | [`validity`] | from when to when a certificate is valid |
//! | [`pair`] | a certificate, its key and its CA: made, and looked at |
//! | [`rollover`] | which pair is used when: a function of values |
//! | [`own`] | the Secret and the webhook configuration |
//! | [`files`] | the files of `--tls files` |

mod files;
mod own;
mod pair;
mod rollover;
pub(super) mod shown;
mod validity;

use super::State;
use super::args::{Tls, Webhook};
use crate::cluster::Cluster;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::NoServerSessionStorage;
use shown::Shown;
use std::sync::Arc;

/// TLS 1.2 and 1.3 with what `shown` holds.
pub(super) fn config(shown: &Arc<Shown>) -> Result<Arc<ServerConfig>, String> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::<Shown>::clone(shown));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // The API server resumes no sessions; they would only take memory.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Where certificates come from.
pub(super) enum Source {
    Own(Box<own::Keeper>),
    Files(files::Files),
}

impl Source {
    /// # Errors
    /// One line: no cluster to ask, or no certificate in the files.
    pub(super) async fn open(args: &Webhook, state: &State) -> Result<Source, String> {
        match (args.tls, &args.cert, &args.key) {
            (Tls::Files, Some(cert), Some(key)) => {
                let mut files = files::Files::new(cert.clone(), key.clone());
                files.look(state)?;
                Ok(Source::Files(files))
            }
            _ => Ok(Source::Own(Box::new(own::Keeper::new(args, Cluster::of(&args.connection).await?)?))),
        }
    }

    /// Keeps the certificate valid, for ever.
    pub(super) async fn keep(self, state: Arc<State>) {
        match self {
            Source::Own(keeper) => keeper.keep(&state).await,
            Source::Files(files) => files.keep(&state).await,
        }
    }
}
