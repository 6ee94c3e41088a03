//! State that all connections share.

use crate::certificate::{Life, Shown};
use crate::clock::wall;
use crate::lanes::Lanes;
use crate::metrics::Metrics;
use podgate::order::inject::Options;
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::info;

pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    pub(crate) shown: Arc<Shown>,
    pub(crate) lanes: Lanes,
    draining: AtomicBool,
}

impl State {
    pub(crate) fn new(options: Options) -> State {
        State {
            options,
            metrics: Metrics::default(),
            shown: Arc::default(),
            lanes: Lanes::default(),
            draining: AtomicBool::new(false),
        }
    }

    /// Shows this certificate from the next handshake on.
    pub(crate) fn show(&self, key: CertifiedKey, life: Life) {
        self.metrics.serving_until(life.until);
        if self.shown.show(key, life) {
            info!(until = %humantime::format_rfc3339_seconds(life.until), "serves another certificate");
        }
    }

    /// Asks clients to leave: readiness fails, and each answer closes its connection.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The reason why requests should not be sent here.
    pub(crate) fn not_ready(&self) -> Option<&'static str> {
        if self.is_draining() { Some("told to end") } else { self.shown.trouble(wall()) }
    }
}
