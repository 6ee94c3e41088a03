//! The certificate that the TLS port serves.

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: SystemTime,
    pub(crate) until: SystemTime,
}

#[derive(Debug, Default)]
pub(crate) struct ServedCert {
    current: RwLock<Option<(Arc<CertifiedKey>, Validity)>>,
    /// True if the webhook configuration contains the certificate's CA. Always true with `--tls files`, where the
    /// webhook does not manage the CA.
    is_trusted: AtomicBool,
}

impl ServedCert {
    /// Serves `key` from the next handshake on. Returns false if the certificate was already served.
    pub(crate) fn replace(&self, key: CertifiedKey, life: Validity) -> bool {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|(now, _)| now.cert == key.cert) {
            return false;
        }
        *current = Some((Arc::new(key), life));
        true
    }

    pub(crate) fn set_trusted(&self, is_trusted: bool) {
        self.is_trusted.store(is_trusted, Ordering::Relaxed);
    }

    /// Returns the reason why the API server can't use the certificate at `now`; `None` if the certificate is usable.
    pub(crate) fn unusable_reason(&self, now: SystemTime) -> Option<&'static str> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let Some((_, life)) = &*current else { return Some("no certificate yet") };
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
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().map(|(key, _)| Arc::clone(key))
    }
}
