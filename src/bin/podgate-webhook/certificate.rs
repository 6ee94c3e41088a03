//! The certificate that the TLS port serves.

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: SystemTime,
    pub(crate) until: SystemTime,
}

#[derive(Debug, Default)]
pub(crate) struct ServedCert {
    current: watch::Sender<Option<(Arc<CertifiedKey>, Validity)>>,
    /// True if the webhook configuration contains the certificate's CA. Always true with `--tls files`, where the
    /// webhook does not manage the CA.
    is_trusted: AtomicBool,
}

impl ServedCert {
    /// Serves `key` from the next handshake on. Returns false if the certificate was already served.
    pub(crate) fn replace(&self, key: CertifiedKey, life: Validity) -> bool {
        self.current.send_if_modified(|current| {
            let is_new = current.as_ref().is_none_or(|(served, _)| served.cert != key.cert);
            if is_new {
                *current = Some((Arc::new(key), life));
            }
            is_new
        })
    }

    pub(crate) fn set_trusted(&self, is_trusted: bool) {
        self.is_trusted.store(is_trusted, Ordering::Relaxed);
    }

    /// Returns the reason why the API server cannot use the certificate at `now`; `None` if the certificate is usable.
    pub(crate) fn unusable_reason(&self, now: SystemTime) -> Option<&'static str> {
        let Some((_, life)) = *self.current.borrow() else { return Some("no certificate yet") };
        if now >= life.until {
            Some("the certificate has expired")
        } else if !self.is_trusted.load(Ordering::Relaxed) {
            Some("the MutatingWebhookConfiguration does not have the CA yet")
        } else {
            None
        }
    }
}

impl ResolvesServerCert for ServedCert {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.borrow().as_ref().map(|(key, _)| Arc::clone(key))
    }
}
