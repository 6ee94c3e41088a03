//! State that all connections share.

use crate::args::Args;
use crate::body_budget::BodyBudget;
use crate::clock::wall_clock;
use crate::metrics::Metrics;
use crate::reloaded_file::{FILE_MAX, ReloadedFile};
use podgate::order::assigned::{self, AssignedOrders};
use podgate::order::declare::SidecarUse;
use podgate::order::image_map::{self, ImageMap};
use podgate::order::inject::Options;
use podgate::order::plan::KnownFacts;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{Mutex, watch};
use tracing::info;

pub(crate) struct State {
    pub(crate) options: Options,
    /// Namespaces whose Pods publish states, from --namespaces; `*` for all.
    pub(crate) namespaces: Vec<String>,
    /// Use of the sidecar in Pods without `podgate.io/sidecar`.
    pub(crate) sidecar: SidecarUse,
    pub(crate) metrics: Metrics,
    pub(crate) served_cert: Arc<ServedCert>,
    pub(crate) body_budget: Arc<BodyBudget>,
    /// Lock that is held during each review. One review at a time needs less memory. Waiting reviews form a queue.
    pub(crate) review_seat: Arc<Mutex<()>>,
    /// Lock that one large body holds while it waits for review or is reviewed. Other large bodies wait for this lock.
    pub(crate) large_body_turn: Mutex<()>,
    is_draining: AtomicBool,
    /// Facts about the cluster, once they are known.
    pub(crate) cluster_facts: OnceLock<KnownFacts>,
    /// Commands of images, from the file of --images.
    pub(crate) images: Arc<ReloadedFile<ImageMap>>,
    /// Orders of Pods that declare none, from the file of --orders.
    pub(crate) orders: Arc<ReloadedFile<AssignedOrders>>,
}

impl State {
    pub(crate) fn new(options: Options, args: &Args) -> State {
        let metrics = Metrics::default();
        let images = ReloadedFile {
            flag: "--images",
            path: args.images.clone(),
            size_max: FILE_MAX,
            parse: image_map::parse,
            reads: metrics.image_file_reads.clone(),
            current: watch::Sender::default(),
        };
        let orders = ReloadedFile {
            flag: "--orders",
            path: args.orders.clone(),
            size_max: assigned::FILE_MAX,
            parse: parse_orders,
            reads: metrics.order_file_reads.clone(),
            current: watch::Sender::default(),
        };
        State {
            options,
            namespaces: args.namespaces.clone(),
            sidecar: args.sidecar,
            metrics,
            served_cert: Arc::default(),
            body_budget: Arc::default(),
            review_seat: Arc::default(),
            large_body_turn: Mutex::default(),
            is_draining: AtomicBool::new(false),
            cluster_facts: OnceLock::new(),
            images: Arc::new(images),
            orders: Arc::new(orders),
        }
    }

    /// Serves the certificate in `key` from the next handshake on.
    pub(crate) fn serve_cert(&self, key: CertifiedKey, life: Validity) {
        let until = life.end;
        let seconds = until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.metrics.expiry.set(i64::try_from(seconds).unwrap_or(i64::MAX));
        if self.served_cert.replace(key, life) {
            info!(until = %humantime::format_rfc3339_seconds(until), "serving a new certificate");
        }
    }

    /// Starts to drain: readiness fails, and each response closes its connection.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Returns the reason why this replica is not ready; `None` if the replica is ready.
    pub(crate) fn unready_reason(&self) -> Option<&'static str> {
        if self.is_draining() { Some("shutting down") } else { self.served_cert.unusable_reason(wall_clock()) }
    }
}

fn parse_orders(text: &[u8]) -> Result<AssignedOrders, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_slice_with_options(text, options).map_err(|error| error.to_string())
}

/// Time from which, and the time until which a certificate is valid.
pub(crate) type Validity = Range<SystemTime>;

/// The certificate that the TLS port serves.
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

    pub(crate) fn set_ca_trusted(&self, is_trusted: bool) {
        self.is_trusted.store(is_trusted, Ordering::Relaxed);
    }

    /// Returns the reason why the API server cannot use the certificate at `now`; `None` if the certificate is usable.
    pub(crate) fn unusable_reason(&self, now: SystemTime) -> Option<&'static str> {
        let current = self.current.borrow();
        let Some((_, life)) = &*current else { return Some("no certificate yet") };
        if now >= life.end {
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
