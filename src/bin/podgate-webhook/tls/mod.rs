//! Sources of the served certificate.

mod pair;
mod rollover;
mod self_signed;

use crate::api;
use crate::args::{Args, TlsSource};
use crate::error::{Error, failed};
use crate::reloaded_file::{FILE_MAX, RELOAD_INTERVAL, read_file};
use crate::state::{ServedCert, State};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::NoServerSessionStorage;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::{info, warn};

/// Returns the configuration for TLS 1.2 and 1.3 with the certificate in `served`.
pub(crate) fn server_config(served: &Arc<ServedCert>) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed("TLS"))?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::<ServedCert>::clone(served));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // The API server resumes no TLS sessions. Stored sessions would only use memory.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

pub(crate) enum CertSource {
    SelfSigned(Box<self_signed::CertKeeper>),
    Files(CertFiles),
}

impl CertSource {
    /// Opens the source that the flags select. Fails if the webhook has no access to a cluster or the files contain no
    /// valid certificate.
    pub(crate) async fn open(args: &Args, state: &State) -> Result<CertSource, Error> {
        match (args.tls, &args.cert, &args.key) {
            (TlsSource::Files, Some(cert), Some(key)) => {
                let files = CertFiles { cert: cert.clone(), key: key.clone() };
                files.reload(state)?;
                Ok(CertSource::Files(files))
            }
            _ => {
                let (client, namespace) = api::make_client(args).await?;
                Ok(CertSource::SelfSigned(Box::new(self_signed::CertKeeper::new(args, client, namespace)?)))
            }
        }
    }

    /// Keeps the certificate valid, forever.
    pub(crate) async fn keep_valid(mut self, state: Arc<State>) {
        // The last error and the number of times it occurred in a row. A single error is not logged: the certificate
        // and key files do not match during their replacement, and the API server may be busy.
        let (mut last, mut count) = (None, 0);
        loop {
            let (result, pause) = match &mut self {
                CertSource::SelfSigned(keeper) => (keeper.reconcile(&state).await, keeper.reconcile_interval(&state)),
                CertSource::Files(files) => (files.reload(&state), RELOAD_INTERVAL),
            };
            let label = if result.is_ok() { "ok" } else { "failed" };
            state.metrics.certificate_checks.get_or_create(&[("result", label)]).inc();
            match result {
                Ok(()) => {
                    if count > 1 {
                        info!("certificate checks succeed again");
                    }
                    count = 0;
                }
                Err(error) => {
                    count = if last.as_ref() == Some(&error) { count + 1 } else { 1 };
                    if count == 2 {
                        warn!(%error, "certificate check failed; will retry");
                    }
                    last = Some(error);
                }
            }
            tokio::time::sleep(pause).await;
        }
    }
}

/// A certificate in files that another program renews, for example a cert-manager Secret mounted as a volume.
pub(crate) struct CertFiles {
    cert: PathBuf,
    key: PathBuf,
}

impl CertFiles {
    /// Reads the files and serves their certificate if the certificate has changed. On failure, the served certificate
    /// remains unchanged.
    fn reload(&self, state: &State) -> Result<(), Error> {
        let (cert, key) = (read_file(&self.cert, FILE_MAX)?, read_file(&self.key, FILE_MAX)?);
        let paths = format!("{} and {}", self.cert.display(), self.key.display());
        let (key, life) = pair::parse(&cert, &key).map_err(failed(paths))?;
        state.served_cert.set_ca_trusted(true);
        state.serve_cert(key, life);
        Ok(())
    }
}
