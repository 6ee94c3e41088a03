//! Prometheus metrics of the webhook.

use podgate::order::admission::Outcome;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

pub(crate) type Labels = [(&'static str, &'static str); 1];

/// Outcomes of requests without a review.
const FAILURES: [&str; 4] = ["bad-request", "too-large", "timeout", "failed"];
const CONNECTION_ERRORS: [&str; 5] = ["handshake", "handshake-timeout", "crowded-out", "bad-request", "broken-off"];
const CHECK_RESULTS: [&str; 2] = ["ok", "failed"];

pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    request_seconds: Histogram,
    pub(crate) in_flight: Gauge,
    pub(crate) connections: Gauge,
    failed_connections: Family<Labels, Counter>,
    pub(crate) expiry: Gauge,
    pub(crate) certificate_checks: Family<Labels, Counter>,
    pub(crate) image_file_reads: Family<Labels, Counter>,
    pub(crate) order_file_reads: Family<Labels, Counter>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("podgate_webhook"),
            requests: counters("outcome", &[&Outcome::ALL.map(Outcome::as_str)[..], &FAILURES].concat()),
            request_seconds: Histogram::new([
                0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0,
            ]),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            failed_connections: counters("reason", &CONNECTION_ERRORS),
            expiry: Gauge::default(),
            certificate_checks: counters("result", &CHECK_RESULTS),
            image_file_reads: counters("result", &CHECK_RESULTS),
            order_file_reads: counters("result", &CHECK_RESULTS),
        };
        let registry = &mut metrics.registry;
        registry.register("build", "Program version", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry.register("requests", "Requests, by outcome", metrics.requests.clone());
        let help = "Time from a request's head to the response";
        registry.register_with_unit("request", help, Unit::Seconds, metrics.request_seconds.clone());
        registry.register("requests_in_flight", "Requests that are being handled", metrics.in_flight.clone());
        registry.register("connections", "Open connections", metrics.connections.clone());
        let help = "Connections that failed, by reason";
        registry.register("connections_failed", help, metrics.failed_connections.clone());
        let help = "Time when the served certificate expires, in seconds since 1970; 0 if there is none";
        registry.register("certificate_expiry_timestamp", help, metrics.expiry.clone());
        let help = "Checks of the certificates, by result";
        registry.register("certificate_checks", help, metrics.certificate_checks.clone());
        let help = "Reads of the --images file after the start, by result";
        registry.register("image_file_reads", help, metrics.image_file_reads.clone());
        let help = "Reads of the --orders file, by result";
        registry.register("order_file_reads", help, metrics.order_file_reads.clone());
        metrics
    }
}

/// Creates a counter for each of `values`. All start at 0, so that Prometheus sees the first failure as an increase.
fn counters(label: &'static str, values: &[&'static str]) -> Family<Labels, Counter> {
    let family = Family::<Labels, Counter>::default();
    values.iter().for_each(|value| drop(family.get_or_create(&[(label, value)])));
    family
}

impl Metrics {
    pub(crate) fn record_request(&self, outcome: &'static str, duration: Duration) {
        debug_assert!(outcome.parse::<Outcome>().is_ok() || FAILURES.contains(&outcome), "{outcome}");
        self.requests.get_or_create(&[("outcome", outcome)]).inc();
        self.request_seconds.observe(duration.as_secs_f64());
    }

    /// Counts a request as in progress until the caller drops the returned guard. The guard also works if the
    /// connection ends before the response.
    pub(crate) fn start_request(&self) -> impl Drop + use<> {
        struct InFlight(Gauge);
        impl Drop for InFlight {
            fn drop(&mut self) {
                self.0.dec();
            }
        }
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// Counts a connection that was closed because of an error, or to make room for another connection.
    pub(crate) fn record_failed_connection(&self, reason: &'static str) {
        debug_assert!(CONNECTION_ERRORS.contains(&reason), "{reason}");
        self.failed_connections.get_or_create(&[("reason", reason)]).inc();
    }

    pub(crate) fn render(&self) -> String {
        let mut page = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut page, &self.registry);
        page
    }
}
