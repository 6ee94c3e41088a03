//! What is counted, for Prometheus.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

type Labels = [(&'static str, &'static str); 1];

/// What may come of a request.
const OUTCOMES: [&str; 8] =
    ["injected", "unchanged", "passed", "refused", "bad-request", "too-large", "timeout", "failed"];
/// Why a connection may come to nothing.
const CONNECTION_ERRORS: [&str; 5] = ["handshake", "handshake-timeout", "crowded-out", "bad-request", "broken-off"];
/// What may come of a look at the certificates.
const CHECK_RESULTS: [&str; 2] = ["ok", "failed"];

pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    request_seconds: Histogram,
    pub(crate) in_flight: Gauge,
    pub(crate) connections: Gauge,
    failed_connections: Family<Labels, Counter>,
    expiry: Gauge,
    certificate_checks: Family<Labels, Counter>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::with_prefix("podgate_webhook");
        registry.register("build", "The version that runs", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        let requests = counters("outcome", &OUTCOMES);
        registry.register("requests", "Requests, by what came of them", requests.clone());
        let seconds = Histogram::new([0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]);
        let help = "Time from a request's head to its answer";
        registry.register_with_unit("request", help, Unit::Seconds, seconds.clone());
        let in_flight = Gauge::default();
        registry.register("requests_in_flight", "Requests that are worked on now", in_flight.clone());
        let connections = Gauge::default();
        registry.register("connections", "Connections that are open now", connections.clone());
        let rejected = counters("reason", &CONNECTION_ERRORS);
        registry.register("connections_failed", "Connections that came to nothing, by why", rejected.clone());
        let expiry = Gauge::default();
        let help = "When the certificate that is served ends, in seconds since 1970; 0 while there is none";
        registry.register("certificate_expiry_timestamp", help, expiry.clone());
        let certificates = counters("result", &CHECK_RESULTS);
        registry.register(
            "certificate_checks",
            "Looks at the certificates, by what came of them",
            certificates.clone(),
        );
        Metrics {
            registry,
            requests,
            request_seconds: seconds,
            in_flight,
            connections,
            failed_connections: rejected,
            expiry,
            certificate_checks: certificates,
        }
    }
}

/// A counter for each of `values`. All are on the page from the start, with 0: else a first failure would be no increase.
fn counters(label: &'static str, values: &[&'static str]) -> Family<Labels, Counter> {
    let family = Family::<Labels, Counter>::default();
    values.iter().for_each(|value| drop(family.get_or_create(&[(label, value)])));
    family
}

impl Metrics {
    pub(crate) fn record_request(&self, outcome: &'static str, took: Duration) {
        debug_assert!(OUTCOMES.contains(&outcome), "{outcome}");
        self.requests.get_or_create(&[("outcome", outcome)]).inc();
        self.request_seconds.observe(took.as_secs_f64());
    }

    /// A connection was given up before it had a request.
    pub(crate) fn connection_failed(&self, why: &'static str) {
        debug_assert!(CONNECTION_ERRORS.contains(&why), "{why}");
        self.failed_connections.get_or_create(&[("reason", why)]).inc();
    }

    pub(crate) fn set_expiry(&self, until: SystemTime) {
        let seconds = until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.expiry.set(i64::try_from(seconds).unwrap_or(i64::MAX));
    }

    pub(crate) fn record_check(&self, result: &'static str) {
        self.certificate_checks.get_or_create(&[("result", result)]).inc();
    }

    pub(crate) fn render(&self) -> String {
        let mut page = String::new();
        // Writing to a string can't fail.
        let _ = encode(&mut page, &self.registry);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_happens() {
        let metrics = Metrics::default();
        metrics.record_request("injected", Duration::from_millis(2));
        metrics.connection_failed("handshake");
        metrics.set_expiry(UNIX_EPOCH + Duration::from_secs(5));
        metrics.record_check("ok");
        let page = metrics.render();
        for line in [
            "podgate_webhook_build_info{version=",
            "podgate_webhook_requests_total{outcome=\"injected\"} 1",
            "podgate_webhook_request_seconds_bucket{le=\"0.002\"} 1",
            "podgate_webhook_requests_in_flight 0",
            "podgate_webhook_connections 0",
            "podgate_webhook_connections_failed_total{reason=\"handshake\"} 1",
            "podgate_webhook_certificate_expiry_timestamp 5",
            "podgate_webhook_certificate_checks_total{result=\"ok\"} 1",
        ] {
            assert!(page.contains(line), "{line} in\n{page}");
        }
    }
}
